"""Bring a repository in from outside, or make one from files: whole and on the disk, or not at all.

Everything is made in a folder beside the target and renamed when it is complete. Objects come through git's own fetch
alone, which checks each of them and every connection between them; configuration, hooks, alternates, notes, reflogs
and other refs of the source stay there. Sources: git-fetch(1), gitremote-helpers(7), git-fsck(1) for the messages.
"""

import hashlib
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

from service.contract.data import NULL, Entry, Oid
from service.contract.plan import MoveRef
from service.kit.errors import Code, Refusal
from service.repositories.durable import flush, flush_tree
from service.repositories.git import Call, GitFailed, GitTimeout, init_bare, run, watch
from service.repositories.objects import build_commit
from service.repositories.packs import write_pack
from service.repositories.refs import RefTransaction, head_branch, is_ref_name, list_refs
from service.repositories.staging import Staging

Progress = Callable[[str, int, int], None]
"""Called with the phase in git's words, how much is done, and of how much."""

SECONDS = 3_600.0
"""How long one import may take."""

_ASK_SECONDS = 60.0
_SCHEMES = frozenset({"http", "https", "ssh", "git", "file"})
_WEB = frozenset({"http", "https"})
_MADE = "repository"
_FILE = 0o100644
_BRANCHES = "refs/heads/"
_TAGS = "refs/tags/"
_SYMBOLIC = "ref: "
_DEFAULT = "refs/heads/main"
_USUAL = (_DEFAULT, "refs/heads/master")
_URL = re.compile(r"[a-z][a-z0-9+.-]*://[^\0-\x20\x7f]+", re.IGNORECASE)
_WORD = r"[\w.+~][\w.+~-]*"
_SCP = re.compile(rf"({_WORD})@([a-z0-9][a-z0-9.-]*):/?({_WORD}(?:/{_WORD})*/?)", re.ASCII | re.IGNORECASE)
_FAR_AWAY = re.compile(r"[^/]*[@:]")
_BUNDLE = re.compile(rb"# v[23] git ")
_BUNDLE_LINE = re.compile(rb"(?:# v[23] git bundle|@|-?[0-9a-f]{40,64}\b)[^\n]*\n")
_LINE_BYTES = 65_536
_CHUNK_BYTES = 1_048_576
_PROGRESS = re.compile(rb"(?:remote: )?([A-Z][A-Za-z ]*):\s+\d+% \((\d+)/(\d+)\)")

_SSH = "ssh -oBatchMode=yes"
_CONFIG = """\
[safe]
	directory = *
[credential]
	helper =
	helper = "store --file=\\"$CREDENTIALS\\""
"""

LENIENT = (
    "badDate",
    "badDateOverflow",
    "badEmail",
    "badFilemode",
    "badName",
    "badTimezone",
    "missingEmail",
    "missingNameBeforeEmail",
    "missingSpaceBeforeDate",
    "missingSpaceBeforeEmail",
    "missingTaggerEntry",
    "zeroPaddedDate",
    "zeroPaddedFilemode",
)
"""What fsck may find in histories that old programs wrote, and what harms nobody. All else stops an import: above all
`.git` in any spelling, `..`, malformed trees, and `.gitmodules` that run something."""

_SHALLOW = "The source is a shallow copy or changed meanwhile; import a whole repository."
_CUT = "The bundle is cut off or damaged."
_NO_REPOSITORY = "There is no Git repository."
_NO_ADDRESS = (
    "The address is none that can be imported. "
    "Write it as https://host/path, ssh://user@host/path, git://host/path or file:///path."
)
_SIGN_IN = "The source asks for a sign-in that was not given."
_FAR = "The source cannot be reached"
_REASONS = (
    (r"shallow", _SHALLOW),
    (r"Authentication failed|could not read (Username|Password)|terminal prompts disabled", _SIGN_IN),
    (r"Permission denied \(|Host key verification|returned error: 40[13]", _SIGN_IN),
    (r"Could not resolve|[Uu]nable to look up", f"{_FAR}: no such host is known."),
    (r"[Cc]onnection refused", f"{_FAR}: its host refuses the connection."),
    (r"[Tt]imed out|Timeout was reached", f"{_FAR}: its host did not answer in time."),
    (r"Failed to connect to|No route to host|Network is unreachable", f"{_FAR}: no connection comes about."),
    (r"[Uu]nable to (access|connect)|[Cc]onnection (reset|closed)", f"{_FAR}."),
    (r"lacks these prerequisite", "The bundle holds only a part of a history."),
    (r"fsck|bad object|corrupt|index-pack|error in ", "The source has objects that Git's own check refuses."),
    (r"cannot lock ref|D/F conflict", "One branch or tag of the source is in another one's way."),
)


@dataclass(frozen=True)
class _Source:
    """Where to fetch from: what git is told, over which transport, and the credentials, which it is told apart."""

    address: str
    protocol: str
    credentials: str = ""
    bundle: bool = False


def import_repository(source: str, target: Path, progress: Progress, seconds: float = SECONDS) -> None:
    """Copy all branches and tags, and which branch is the default one.

    Args:
        source: a repository's folder (with a working tree or bare), a bundle, a URL (http, https, ssh, git, file), or
            `user@host:path` for ssh.
        target: the new bare repository's folder; the folder above it exists.
        progress: told how far it is.
        seconds: how long it may take.

    Raises:
        Refusal: NAME_TAKEN when the target exists, NOT_A_REPOSITORY when the source cannot be taken in; nothing is
            left behind then. The message holds neither the source nor anything that it said.
    """
    until = time.monotonic() + seconds
    with _made_beside(target) as folder:
        try:
            _fill(folder, _understood(source), progress, until)
        except GitFailed as error:
            raise _refusal(error) from error


def _fill(folder: Path, source: _Source, progress: Progress, until: float) -> None:
    repository = folder / _MADE
    environment = _environment(folder, source)
    if source.bundle:
        _check_bundle(Path(source.address))
    refs = _advertised(folder, source, environment)
    if source.bundle and not _taken(refs):
        raise _no_repository("The bundle holds no branch and no tag.")
    init_bare(repository, _default_branch(source, refs))
    _fetch(repository, source, environment, progress, until)
    _check_whole(repository, refs)
    _settle(repository, source, until)


def _understood(source: str) -> _Source:
    if _URL.fullmatch(source):
        return _url(source)
    try:
        path = Path(source or os.devnull).resolve(strict=True)
        bundle = path.is_file() and _starts_as_bundle(path)
    except FileNotFoundError:
        return _elsewhere(source)
    except (OSError, ValueError, RuntimeError):
        raise _no_repository() from None
    if not bundle and not path.is_dir():
        raise _no_repository()
    return _Source(address=str(path), protocol="file", bundle=bundle)


def _elsewhere(source: str) -> _Source:
    """What names nothing on this host: scp's form of an address, which git-fetch(1) takes for ssh too, or a mistake."""
    if match := _SCP.fullmatch(source):
        user, host, path = match.groups()
        return _url(f"ssh://{user}@{host}/{path}")
    raise _no_repository(_NO_ADDRESS if _FAR_AWAY.match(source) else _NO_REPOSITORY)


def _starts_as_bundle(path: Path) -> bool:
    with path.open("rb") as file:
        return bool(_BUNDLE.match(file.read(32)))


def _check_bundle(path: Path) -> None:
    """Git takes a bundle that ends within its list of refs for a whole one with fewer, and blames the objects for any
    other damage. So the end of the list, and the checksum that ends the pack behind it, are looked for here.

    Source: gitformat-bundle(5), gitformat-pack(5).
    """
    with path.open("rb") as file:
        head: list[bytes] = []
        while _BUNDLE_LINE.fullmatch(line := file.readline(_LINE_BYTES)):
            head.append(line)
        algorithm = "sha256" if b"@object-format=sha256\n" in head else "sha1"
        if line != b"\n" or not _is_whole_pack(file, algorithm):
            raise _no_repository(_CUT)


def _is_whole_pack(file: BinaryIO, algorithm: str) -> bool:
    digest = hashlib.new(algorithm, usedforsecurity=False)
    rest = os.fstat(file.fileno()).st_size - file.tell() - digest.digest_size
    while rest > 0 and (chunk := file.read(min(rest, _CHUNK_BYTES))):
        digest.update(chunk)
        rest -= len(chunk)
    return rest == 0 and file.read(digest.digest_size) == digest.digest()


def _url(source: str) -> _Source:
    try:
        parts = urlsplit(source)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise _no_repository() from None
    scheme = parts.scheme.lower()
    if scheme not in _SCHEMES or host.startswith("-") or (not host and scheme != "file"):
        raise _no_repository(_NO_ADDRESS)
    user, at, place = parts.netloc.rpartition("@")
    if scheme not in _WEB or not at:
        return _Source(address=source, protocol=scheme)
    bare = parts._replace(netloc=place)
    return _Source(bare.geturl(), scheme, f"{scheme}://{user}@{place}")


def _no_repository(sentence: str = _NO_REPOSITORY) -> Refusal:
    return Refusal(Code.NOT_A_REPOSITORY, sentence, field="source")


def _refusal(error: GitFailed) -> Refusal:
    if isinstance(error, GitTimeout):
        return _no_repository("The source took too long to answer.")
    found = (sentence for pattern, sentence in _REASONS if re.search(pattern, error.stderr))
    return _no_repository(next(found, _NO_REPOSITORY))


@contextmanager
def _made_beside(target: Path) -> Iterator[Path]:
    """A folder beside the target; what is made in it as `repository` becomes the target, or everything goes."""
    if target.exists() or target.is_symlink():
        raise Refusal(Code.NAME_TAKEN, "There is a repository of this name already.")
    folder = target.with_name(f".{target.name}.{secrets.token_hex(4)}.new")
    folder.mkdir(mode=0o700)
    try:
        yield folder
        flush_tree(folder / _MADE)
        _rename(folder / _MADE, target)
        flush(target.parent)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _rename(made: Path, target: Path) -> None:
    try:
        made.rename(target)
    except OSError as error:
        raise Refusal(Code.NAME_TAKEN, "There is a repository of this name already.") from error


def _environment(folder: Path, source: _Source) -> dict[str, str]:
    """A configuration file of ours in place of the user's, which git on the other side of a pipe reads too.

    Source: git-config(1), `safe.directory`, which is heard only there; git-credential-store(1).
    """
    config, credentials = folder / "config", folder / "credentials"
    config.write_text(_CONFIG, encoding="utf-8")
    credentials.touch(mode=0o600)
    credentials.write_text(source.credentials + "\n", encoding="utf-8")
    agent = {"SSH_AUTH_SOCK": os.environ["SSH_AUTH_SOCK"]} if "SSH_AUTH_SOCK" in os.environ else {}
    ours = {"GIT_CONFIG_GLOBAL": str(config), "CREDENTIALS": str(credentials), "GIT_SSH_COMMAND": _SSH}
    return {**ours, **agent}


def _advertised(folder: Path, source: _Source, environment: Mapping[str, str]) -> dict[str, str]:
    """What the source says it has: full names and ids; HEAD is the branch it names, or an id when it is detached."""
    arguments = ("ls-remote", "--symref", "--end-of-options", source.address)
    rows = os.fsdecode(run(_call(folder, source, environment, arguments, _ASK_SECONDS))).splitlines()
    pairs = [(name, value) for value, _, name in (row.partition("\t") for row in reversed(rows))]
    return dict(pairs)  # the line with HEAD's branch comes before the one with its id, so reversed it wins


def _default_branch(source: _Source, refs: Mapping[str, str]) -> str:
    """The branch that the source's HEAD names; where HEAD is only a commit, a branch that is there too."""
    for own in (Path(source.address, ".git"), Path(source.address)):
        if source.protocol == "file" and is_ref_name(name := head_branch(own)):
            return name  # a branch without commits is not advertised
    named = refs.get("HEAD", "")
    return named.removeprefix(_SYMBOLIC) if named.startswith(_SYMBOLIC + _BRANCHES) else _guessed(refs)


def _guessed(refs: Mapping[str, str]) -> str:
    branches = [
        *(name for name in _USUAL if name in refs),
        *sorted(name for name in refs if name.startswith(_BRANCHES)),
    ]
    at_head = (name for name in branches if refs[name] == refs.get("HEAD"))
    return next(at_head, next(iter(branches), _DEFAULT))


def _call(
    repository: Path, source: _Source, environment: Mapping[str, str], arguments: Sequence[str], seconds: float
) -> Call:
    protocols = ("http", "https") if source.protocol in _WEB else (source.protocol,)
    checks = ("fetch.fsckObjects=true", *(f"fetch.fsck.{name}=ignore" for name in LENIENT))
    return Call(repository, arguments, seconds, settings=checks, environment=environment, protocols=protocols)


def _fetch(repository: Path, source: _Source, environment: Mapping[str, str], progress: Progress, until: float) -> None:
    options = ("--progress", "--no-tags", "--no-write-fetch-head", "--recurse-submodules=no", "--no-auto-maintenance")
    specs = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
    arguments = ("fetch", *options, "--end-of-options", source.address, *specs)
    watch(_call(repository, source, environment, arguments, until - time.monotonic()), _Heard(progress))


class _Heard:
    """Reads git's progress: lines that end in CR or LF, `Receiving objects:  45% (9/20)`."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._open = b""

    def __call__(self, chunk: bytes) -> None:
        *lines, self._open = re.split(rb"[\r\n]", self._open + chunk)
        for line in lines:
            if match := _PROGRESS.match(line):
                self._progress(match[1].decode(), int(match[2]), int(match[3]))


def _taken(advertised: Mapping[str, str]) -> set[str]:
    """The names of what is copied: branches and tags."""
    return {name for name in advertised if name.startswith((_BRANCHES, _TAGS)) and not name.endswith("^{}")}


def _check_whole(repository: Path, advertised: Mapping[str, str]) -> None:
    """Git leaves out, with a warning only, what hangs on a shallow source's edge."""
    if _taken(advertised) - {name for name, _ in list_refs(repository, "refs/")} or (repository / "shallow").exists():
        raise _no_repository(_SHALLOW)


def _settle(repository: Path, source: _Source, until: float) -> None:
    """Check what came in a bundle (a fetch from one does not before git 2.46), and pack the refs."""
    if source.bundle:
        lenient = tuple(f"fsck.{name}=ignore" for name in LENIENT)
        run(Call(repository, ("fsck", "--strict", "--no-dangling"), until - time.monotonic(), settings=lenient))
    run(Call(repository, ("pack-refs", "--all"), until - time.monotonic()))


def create_from_files(
    target: Path, default_branch: str, files: Mapping[str, bytes], *, author: bytes, message: bytes
) -> Oid:
    """Make a repository with one commit.

    Args:
        target: the new bare repository's folder; the folder above it exists.
        default_branch: the full name of its branch.
        files: contents by path; all become ordinary files.
        author: a whole identity line, for the committer too.
        message: the commit's message.

    Returns:
        The commit.

    Raises:
        Refusal: NAME_TAKEN when the target exists.
    """
    with _made_beside(target) as folder:
        repository = folder / _MADE
        init_bare(repository, default_branch)
        staging = Staging(repository, author)
        edits = {os.fsencode(path): Entry(mode=_FILE, oid=staging.put(content)) for path, content in files.items()}
        draft = staging.draft((), staging.edit(None, edits), message)
        commit = build_commit(draft.tree, (), author=author, committer=author, message=message)
        write_pack(repository, (*staging.staged(), commit))
        transaction = RefTransaction(repository, None, (MoveRef(ref=default_branch, old=NULL, new=commit.oid),))
        transaction.lock()
        transaction.verify()
        transaction.stage()
        transaction.commit_moves()
    return commit.oid
