"""The words of the operations: what each would do to branches, tags and commits, and what to mind about it."""

from collections.abc import Mapping
from typing import Any, Final

from service.contract.data import NULL
from service.edge.desk.pieces import Maker, Mono, Params, Pieces, Quoted, at_text, commits_text, said
from service.kit.language import gettext, later, ngettext, plural

_SHORT: Final = 8


def _oid(oid: Any) -> Mono:
    return Mono(str(oid)[:_SHORT])


def _files(params: Params) -> str:
    """`: 3 files change`; nothing where none does."""
    kinds = ("created", "updated", "deleted", "renamed", "mode_changed")
    count = sum(int(params.get(kind, 0)) for kind in kinds)
    return ngettext(": {count} file changes", ": {count} files change", count) if count else ""


# Headlines -----------------------------------------------------------------------------------------------------------

_MERGES: Final = {
    "merge_commit": later("Merge {source} into {branch}, {commits}{files}"),
    "squash": later("Put {commits} of {source} on {branch} as one{files}"),
    "fast_forward_only": later("Move {branch} forward to {source}, {commits}{files}"),
}


def _merge(_at: str, params: Params) -> Pieces:
    return said(
        gettext(_MERGES[params["mode"]]),
        source=Mono(params["source"]),
        branch=Mono(params["branch"]),
        commits=commits_text(int(params["commits"])),
        files=_files(params),
    )


def _rebase(_at: str, params: Params) -> Pieces:
    dropped = int(params["dropped"])
    message = ngettext(
        "Put {branch} on top of {onto}: {count} commit repeated{left}",
        "Put {branch} on top of {onto}: {count} commits repeated{left}",
        int(params["replayed"]),
    )
    left = ngettext(", {count} left out", ", {count} left out", dropped) if dropped else ""
    return said(message, branch=Mono(params["branch"]), onto=Mono(params["onto"]), left=left)


def _cherry_pick(_at: str, params: Params) -> Pieces:
    commits = commits_text(int(params["commits"]))
    message = gettext("Repeat {commits} on {branch}{files}")
    return said(message, commits=commits, branch=Mono(params["branch"]), files=_files(params))


def _revert(_at: str, params: Params) -> Pieces:
    commits = commits_text(int(params["commits"]))
    message = gettext("Undo {commits} on {branch}{files}")
    return said(message, commits=commits, branch=Mono(params["branch"]), files=_files(params))


def _reset_branch(_at: str, params: Params) -> Pieces:
    comes = int(params["comes"])
    message = ngettext(
        "Move {branch} back to {oid}: {count} commit leaves it{come}",
        "Move {branch} back to {oid}: {count} commits leave it{come}",
        int(params["leaves"]),
    )
    come = ngettext(", {count} comes", ", {count} come", comes) if comes else ""
    return said(message, branch=Mono(params["branch"]), oid=_oid(params["oid"]), come=come)


def _advance_branch(_at: str, params: Params) -> Pieces:
    commits = commits_text(int(params["comes"]))
    return said(gettext("Move {branch} forward by {commits}"), branch=Mono(params["branch"]), commits=commits)


def _restore_refs(_at: str, params: Params) -> Pieces:
    told = (
        ("comes_back", plural("{count} brought back", "{count} brought back")),
        ("moves_back", plural("{count} moved back", "{count} moved back")),
        ("goes", plural("{count} taken away", "{count} taken away")),
    )
    parts = [ngettext(*message, int(params[key])) for key, message in told if params.get(key)]
    return said(gettext("Restore what was before: {parts}"), parts=", ".join(parts))


def _create_branch(at: str, params: Params) -> Pieces:
    return said(gettext("Create the branch {branch} at {oid}"), branch=Mono(at), oid=_oid(params["oid"]))


def _delete_branches(_at: str, params: Params) -> Pieces:
    count, kept = int(params["count"]), int(params.get("kept", 0))
    message = ngettext(
        "Delete the branch {branch}, merged into {into}{stay}",
        "Delete {count} branches, merged into {into}{stay}",
        count,
    )
    stay = ngettext("; {count} stays", "; {count} stay", kept) if kept else ""
    return said(message, branch=Mono(params["branches"][0]), into=Mono(params["into"]), stay=stay)


def _create_tag(at: str, params: Params) -> Pieces:
    return said(gettext("Create the tag {tag} at {oid}"), tag=Mono(at), oid=_oid(params["oid"]))


def _submodule_changes(_at: str, params: Params) -> Pieces:
    return said(
        gettext("Move the submodule {path} from {old} to {new} on {branch}"),
        path=Mono(at_text(params["path"])),
        old=_oid(params["old"]),
        new=_oid(params["new"]),
        branch=Mono(params["branch"]),
    )


# Notes ---------------------------------------------------------------------------------------------------------------


def _told(params: Params) -> Pieces:
    """`1a2b3c4d “Subject” by “Author”`; a commit that is only planned has no id."""
    oid = (_oid(params["oid"]), " ") if params.get("oid") else ()
    subject = params.get("subject")
    told: Pieces = (*oid, Quoted(subject) if subject else gettext("(no message)"))
    author = params.get("author")
    return said(gettext("{commit} by {author}"), commit=told, author=Quoted(author)) if author else told


def _commit(_at: str, params: Params) -> Pieces:
    return _told(params)


def _more_commits(_at: str, params: Params) -> Pieces:
    return (ngettext("and {count} commit more", "and {count} commits more", int(params["count"])),)


def _replayed(_at: str, params: Params) -> Pieces:
    old = (_oid(params["old"]), " → ") if params.get("old") else ()
    return (*old, *_told({**params, "oid": ""}))


_DROPPED: Final = {
    "upstream": later("{commit}: is there already"),
    "merge": later("{commit}: is a merge; what it joined is repeated one by one"),
    "empty": later("{commit}: would change nothing any more"),
}


def _dropped(_at: str, params: Params) -> Pieces:
    return said(gettext(_DROPPED[params["why"]]), commit=_told(params))


def _ref(branch: str, tag: str) -> Maker:
    def make(at: str, params: Params) -> Pieces:
        message = tag if str(params.get("ref", "")).startswith("refs/tags/") else branch
        return said(gettext(message), name=Mono(at), commit=_told(params))

    return make


_ref_goes_alone: Final = _ref(later("Branch {name} goes: {commit}"), later("Tag {name} goes: {commit}"))
_ref_moves: Final = _ref(later("Branch {name} moves: {commit}"), later("Tag {name} moves: {commit}"))


def _ref_goes(at: str, params: Params) -> Pieces:
    told = _ref_goes_alone(at, params)
    if not params.get("into"):
        return told
    return said(gettext("{told}, all of it is in {into}"), told=told, into=Mono(params["into"]))


def _ref_moves_back(at: str, params: Params) -> Pieces:
    return said(gettext("{told} (from {old})"), told=_ref_moves(at, params), old=_oid(params["old"]))


_KEPT: Final = {
    "not_merged": later("Branch {branch} stays: it has {commits} that are not merged"),
    "missing": later("Branch {branch} is not there"),
    "target": later("Branch {branch} stays: it is what the others are merged into"),
}


def _kept_branch(at: str, params: Params) -> Pieces:
    commits = commits_text(int(params.get("commits") or 0))
    return said(gettext(_KEPT[params["why"]]), branch=Mono(at), commits=commits)


def _submodule_changed(at: str, params: Params) -> Pieces:
    old, new = (params.get(name) for name in ("old_oid", "new_oid"))
    path = Mono(at_text(at))
    if not (old and new):
        return said(gettext("Submodule {path}"), path=path)
    return said(gettext("Submodule {path} from {old} to {new}"), path=path, old=_oid(old), new=_oid(new))


def _words(message: str) -> Maker:
    return lambda _at, _params: (gettext(message),)


# Warnings ------------------------------------------------------------------------------------------------------------


def _rewrites_history(at: str, params: Params) -> Pieces:
    message = ngettext(
        "<b>Rewrites history.</b> {count} commit leaves {branch}. Who has the branch must fetch it anew. What leaves "
        "is kept as a restore point.",
        "<b>Rewrites history.</b> {count} commits leave {branch}. Who has the branch must fetch it anew. What leaves "
        "is kept as a restore point.",
        int(params.get("leaves", params.get("commits", 0))),
    )
    return said(message, branch=Mono(at))


def _deletes(message: str) -> Maker:
    def make(at: str, params: Params) -> Pieces:
        known = params.get("oid", NULL) != NULL
        was = said(gettext(" (it was at {oid})"), oid=_oid(params["oid"])) if known else ()
        return said(gettext(message), name=Mono(at), was=was)

    return make


def _moves_tag(at: str, params: Params) -> Pieces:
    message = gettext("<b>Moves a tag.</b> {tag} goes from {old} to {new}; who has it keeps the old one.")
    return said(message, tag=Mono(at), old=_oid(params["old"]), new=_oid(params["new"]))


def _symbolic_link(at: str, _params: Params) -> Pieces:
    message = gettext("<b>Symbolic link.</b> {path} leads to another path, which may lie outside.")
    return said(message, path=Mono(at_text(at)))


def _submodule_moves(at: str, params: Params) -> Pieces:
    message = gettext("<b>Other code.</b> {path} goes from {old} to {new}, in a repository that is not shown here.")
    return said(message, path=Mono(at_text(at)), old=_oid(params["old"]), new=_oid(params["new"]))


HEADLINES: Final[Mapping[str, Maker]] = {
    "merge": _merge,
    "rebase": _rebase,
    "cherry_pick": _cherry_pick,
    "revert": _revert,
    "reset_branch": _reset_branch,
    "advance_branch": _advance_branch,
    "restore_refs": _restore_refs,
    "create_branch": _create_branch,
    "delete_branches": _delete_branches,
    "create_tag": _create_tag,
    "submodule_changes": _submodule_changes,
}
NOTES: Final[Mapping[str, Maker]] = {
    "commit": _commit,
    "more_commits": _more_commits,
    "replayed": _replayed,
    "dropped": _dropped,
    "ref_comes": _ref(later("Branch {name} comes: {commit}"), later("Tag {name} comes: {commit}")),
    "ref_comes_back": _ref(later("Branch {name} comes back: {commit}"), later("Tag {name} comes back: {commit}")),
    "ref_moves_back": _ref_moves_back,
    "ref_goes": _ref_goes,
    "kept_branch": _kept_branch,
    "submodule_changed": _submodule_changed,
    "submodule_log_known": _words(later("Both commits are in this repository too; what is between them stands below.")),
    "submodule_log_unknown": _words(
        later("The commits are in another repository; what is between them is not known here.")
    ),
}
WARNINGS: Final[Mapping[str, Maker]] = {
    "rewrites_history": _rewrites_history,
    "deletes_branch": _deletes(later("<b>Deletes the branch</b> {name}{was}. It is kept as a restore point.")),
    "deletes_tag": _deletes(later("<b>Deletes the tag</b> {name}{was}. It is kept as a restore point.")),
    "moves_tag": _moves_tag,
    "symbolic_link": _symbolic_link,
    "submodule_moves": _submodule_moves,
}
BRIEFS: Final[Mapping[str, str]] = {
    "rewrites_history": later("rewrites history"),
    "deletes_branch": later("deletes branches"),
    "deletes_tag": later("deletes tags"),
    "moves_tag": later("moves a tag"),
    "symbolic_link": later("symbolic link"),
    "submodule_moves": later("other code in a submodule"),
}
SECTIONS: Final[Mapping[str, str]] = {
    "commits": later("Commits that come"),
    "leaves": later("Commits that leave"),
    "replayed": later("Commits that are repeated"),
    "dropped": later("Left out"),
    "refs": later("Branches and tags"),
    "kept": later("Stays as it is"),
    "steps": later("Steps"),
    "submodule": later("Between the two commits"),
}
