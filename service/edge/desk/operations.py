"""The words of the operations: what each would do to branches, tags and commits, and what to mind about it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from service.contract.data import NULL
from service.edge.desk.pieces import Lead, Maker, Mono, Params, Pieces, Quoted, at_text, counted

_SHORT: Final = 8


def listed(names: Sequence[str]) -> Pieces:
    """`a`, `b` and `c`, each set as code."""
    return tuple(_listed(names))


def _listed(names: Sequence[str]) -> Iterator[str]:
    for place, name in enumerate(names):
        if place:
            yield " and " if place == len(names) - 1 else ", "
        yield Mono(at_text(name))


def _oid(oid: Any) -> Mono:
    return Mono(str(oid)[:_SHORT])


def _files(params: Params) -> str:
    """`: 3 files change`; nothing where none does."""
    kinds = ("created", "updated", "deleted", "renamed", "mode_changed")
    count = sum(int(params.get(kind, 0)) for kind in kinds)
    return f": {counted(count, 'file')} {'changes' if count == 1 else 'change'}" if count else ""


# Headlines -----------------------------------------------------------------------------------------------------------


def _merge(_at: str, params: Params) -> Pieces:
    source, branch = Mono(params["source"]), Mono(params["branch"])
    commits = counted(int(params["commits"]), "commit")
    heads: dict[str, Pieces] = {
        "merge_commit": ("Merge ", source, " into ", branch, f", {commits}"),
        "squash": ("Put ", commits, " of ", source, " on ", branch, " as one"),
        "fast_forward_only": ("Move ", branch, " forward to ", source, f", {commits}"),
    }
    return (*heads[params["mode"]], _files(params))


def _rebase(_at: str, params: Params) -> Pieces:
    replayed, dropped = counted(int(params["replayed"]), "commit"), int(params["dropped"])
    left = f", {dropped:,} left out" if dropped else ""
    return ("Put ", Mono(params["branch"]), " on top of ", Mono(params["onto"]), f": {replayed} repeated{left}")


def _cherry_pick(_at: str, params: Params) -> Pieces:
    return (f"Repeat {counted(int(params['commits']), 'commit')} on ", Mono(params["branch"]), _files(params))


def _revert(_at: str, params: Params) -> Pieces:
    return (f"Undo {counted(int(params['commits']), 'commit')} on ", Mono(params["branch"]), _files(params))


def _reset_branch(_at: str, params: Params) -> Pieces:
    leaves, comes = int(params["leaves"]), int(params["comes"])
    come = f", {comes:,} {'comes' if comes == 1 else 'come'}" if comes else ""
    verb = "leaves" if leaves == 1 else "leave"
    return (
        *("Move ", Mono(params["branch"]), " back to ", _oid(params["oid"])),
        f": {counted(leaves, 'commit')} {verb} it{come}",
    )


def _advance_branch(_at: str, params: Params) -> Pieces:
    return ("Move ", Mono(params["branch"]), f" forward by {counted(int(params['comes']), 'commit')}")


def _restore_refs(_at: str, params: Params) -> Pieces:
    told = {"comes_back": "brought back", "moves_back": "moved back", "goes": "taken away"}
    parts = [f"{int(params[key]):,} {words}" for key, words in told.items() if params.get(key)]
    return (f"Restore what was before: {', '.join(parts)}",)


def _create_branch(at: str, params: Params) -> Pieces:
    return ("Create the branch ", Mono(at), " at ", _oid(params["oid"]))


def _delete_branches(_at: str, params: Params) -> Pieces:
    count, kept = int(params["count"]), int(params.get("kept", 0))
    names = params["branches"]
    what = ("Delete the branch ", Mono(names[0])) if count == 1 else (f"Delete {counted(count, 'branch', 'branches')}",)
    stay = f"; {kept:,} {'stays' if kept == 1 else 'stay'}" if kept else ""
    return (*what, ", merged into ", Mono(params["into"]), stay)


def _create_tag(at: str, params: Params) -> Pieces:
    return ("Create the tag ", Mono(at), " at ", _oid(params["oid"]))


def _submodule_changes(_at: str, params: Params) -> Pieces:
    path, branch = Mono(at_text(params["path"])), Mono(params["branch"])
    moves = (" from ", _oid(params["old"]), " to ", _oid(params["new"]))
    return ("Move the submodule ", path, *moves, " on ", branch)


# Notes ---------------------------------------------------------------------------------------------------------------


def _told(params: Params) -> Pieces:
    """`1a2b3c4d “Subject” by “Author”`; a commit that is only planned has no id."""
    oid = (_oid(params["oid"]), " ") if params.get("oid") else ()
    author = (" by ", Quoted(params["author"])) if params.get("author") else ()
    subject = params.get("subject")
    return (*oid, Quoted(subject) if subject else "(no message)", *author)


def _commit(_at: str, params: Params) -> Pieces:
    return _told(params)


def _more_commits(_at: str, params: Params) -> Pieces:
    return (f"and {counted(int(params['count']), 'commit')} more",)


def _replayed(_at: str, params: Params) -> Pieces:
    old = (_oid(params["old"]), " → ") if params.get("old") else ()
    return (*old, *_told({**params, "oid": ""}))


_DROPPED: Final = {
    "upstream": "is there already",
    "merge": "is a merge; what it joined is repeated one by one",
    "empty": "would change nothing any more",
}


def _dropped(_at: str, params: Params) -> Pieces:
    return (*_told(params), f": {_DROPPED[params['why']]}")


def _ref(words: str) -> Maker:
    def make(at: str, params: Params) -> Pieces:
        kind = "Tag " if str(params.get("ref", "")).startswith("refs/tags/") else "Branch "
        return (kind, Mono(at), f" {words}: ", *_told(params))

    return make


def _ref_goes(at: str, params: Params) -> Pieces:
    lost = (", all of it is in ", Mono(params["into"])) if params.get("into") else ()
    return (*_ref("goes")(at, params), *lost)


def _ref_moves_back(at: str, params: Params) -> Pieces:
    return (*_ref("moves")(at, params), " (from ", _oid(params["old"]), ")")


_KEPT: Final = {
    "not_merged": "stays: it has {commits} that are not merged",
    "missing": "is not there",
    "target": "stays: it is what the others are merged into",
}


def _kept_branch(at: str, params: Params) -> Pieces:
    commits = counted(int(params.get("commits") or 0), "commit")
    return ("Branch ", Mono(at), f" {_KEPT[params['why']].format(commits=commits)}")


def _submodule_changed(at: str, params: Params) -> Pieces:
    old, new = (params.get(name) for name in ("old_oid", "new_oid"))
    moves = (" from ", _oid(old), " to ", _oid(new)) if old and new else ()
    return ("Submodule ", Mono(at_text(at)), *moves)


def _submodule_log_known(_at: str, _params: Params) -> Pieces:
    return ("Both commits are in this repository too; what is between them stands below.",)


def _submodule_log_unknown(_at: str, _params: Params) -> Pieces:
    return ("The commits are in another repository; what is between them is not known here.",)


# Warnings ------------------------------------------------------------------------------------------------------------


def _rewrites_history(at: str, params: Params) -> Pieces:
    count = int(params.get("leaves", params.get("commits", 0)))
    leave = f"{counted(count, 'commit')} {'leaves' if count == 1 else 'leave'} "
    rest = ". Who has the branch must fetch it anew. What leaves is kept as a restore point."
    return (Lead("Rewrites history."), f" {leave}", Mono(at), rest)


def _deletes(noun: str) -> Maker:
    def make(at: str, params: Params) -> Pieces:
        was = (" (it was at ", _oid(params["oid"]), ")") if params.get("oid", NULL) != NULL else ()
        return (Lead(f"Deletes the {noun}"), " ", Mono(at), *was, ". It is kept as a restore point.")

    return make


def _moves_tag(at: str, params: Params) -> Pieces:
    moves = (" from ", _oid(params["old"]), " to ", _oid(params["new"]))
    return (Lead("Moves a tag."), " ", Mono(at), " goes", *moves, "; who has it keeps the old one.")


def _symbolic_link(at: str, _params: Params) -> Pieces:
    return (Lead("Symbolic link."), " ", Mono(at_text(at)), " leads to another path, which may lie outside.")


def _submodule_moves(at: str, params: Params) -> Pieces:
    moves = (" goes from ", _oid(params["old"]), " to ", _oid(params["new"]))
    return (Lead("Other code."), " ", Mono(at_text(at)), *moves, ", in a repository that is not shown here.")


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
    "ref_comes": _ref("comes"),
    "ref_comes_back": _ref("comes back"),
    "ref_moves_back": _ref_moves_back,
    "ref_goes": _ref_goes,
    "kept_branch": _kept_branch,
    "submodule_changed": _submodule_changed,
    "submodule_log_known": _submodule_log_known,
    "submodule_log_unknown": _submodule_log_unknown,
}
WARNINGS: Final[Mapping[str, Maker]] = {
    "rewrites_history": _rewrites_history,
    "deletes_branch": _deletes("branch"),
    "deletes_tag": _deletes("tag"),
    "moves_tag": _moves_tag,
    "symbolic_link": _symbolic_link,
    "submodule_moves": _submodule_moves,
}
BRIEFS: Final[Mapping[str, str]] = {
    "rewrites_history": "rewrites history",
    "deletes_branch": "deletes branches",
    "deletes_tag": "deletes tags",
    "moves_tag": "moves a tag",
    "symbolic_link": "symbolic link",
    "submodule_moves": "other code in a submodule",
}
SECTIONS: Final[Mapping[str, str]] = {
    "commits": "Commits that come",
    "leaves": "Commits that leave",
    "replayed": "Commits that are repeated",
    "dropped": "Left out",
    "refs": "Branches and tags",
    "kept": "Stays as it is",
    "steps": "Steps",
    "submodule": "Between the two commits",
}
