"""Find lines that contain a fixed text in one commit, with `git grep`, for as long as a second.

Binary files are left out, as in Git. Source: git-grep(1), `-F`, `-I`, `-z`, `--column`.
"""

import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from service.contract.data import Oid
from service.contract.ports import Hit
from service.kit.errors import Code, Refusal
from service.repositories.git import Call, check, follow, started
from service.repositories.reading import Objects

LINE_MOST = 500
"""Bytes of a line that are given back, from its start."""

_FOUND = (0, 1)  # git grep answers 1 when it found nothing


def search(
    repository: Path,
    commit: Oid,
    text: str,
    *,
    under: bytes = b"",
    ignore_case: bool = False,
    after: tuple[bytes, int] = (b"", 0),
    most: int,
    seconds: float = 1.0,
) -> tuple[Sequence[Hit], bool]:
    """Lines that contain the text, in path and line order.

    Args:
        repository: the bare repository's folder.
        commit: where to search.
        text: what to find, letter by letter; one line of it.
        under: only in this file or folder; empty for everywhere. No magic, no patterns.
        ignore_case: whether upper and lower case are the same.
        after: the path and line number of the last hit that is known.
        most: how many hits at most.
        seconds: how long to search.

    Returns:
        The hits, and whether time ran out before `most` were found or everything was searched.

    Raises:
        Refusal: INVALID_ARGUMENT for a text that is empty or has a line end or NUL.
        BadObject: there is no such commit.
        GitFailed: something in it cannot be read.
    """
    if not text or "\n" in text or "\0" in text:
        raise Refusal(Code.INVALID_ARGUMENT, "Search for a text of one line.", field="text")
    objects = Objects(repository)
    if objects.entry(objects.commit(commit).tree, under) is None:
        return [], False  # git would make another path of one like `b/../a`
    case = ("--ignore-case",) if ignore_case else ()
    options = ("-F", "-I", "-z", "-n", "--full-name", "--no-color", "--no-textconv", *case, "-e", os.fsencode(text))
    scope = (under,) if under else ()
    until = time.monotonic() + seconds
    # git grep takes no --end-of-options before git 2.43; the commit was read by its id above, so it is one
    call = Call(repository, ("grep", *options, commit, "--", *scope), seconds)
    with started(call, stderr=subprocess.PIPE) as process:
        return _collect(call, process, after, most, until)


def _collect(
    call: Call, process: subprocess.Popen[bytes], after: tuple[bytes, int], most: int, until: float
) -> tuple[Sequence[Hit], bool]:
    found: list[Hit] = []
    complaint = bytearray()
    for hit in _hits(process, complaint, until):
        if (hit.path, hit.number) > after:
            found.append(hit)
        if len(found) >= most:
            return found[:most], False
    if time.monotonic() >= until:
        return found, True
    check(call, process.wait(), bytes(complaint), _FOUND)
    return found, False


def _hits(process: subprocess.Popen[bytes], complaint: bytearray, until: float) -> Iterator[Hit]:
    """Read `<commit>:<path> NUL <number> NUL <line> LF`; a path may hold a line end and a line a NUL."""
    waiting = bytearray()
    for stream, chunk in follow(process, until):
        if stream == "stderr":
            complaint += chunk
            continue
        waiting += chunk
        at = 0
        while (record := _record(waiting, at)) is not None:
            hit, at = record
            yield hit
        del waiting[:at]


def _record(waiting: bytearray, at: int) -> tuple[Hit, int] | None:
    path = waiting.find(b"\0", at)
    number = waiting.find(b"\0", path + 1)
    end = waiting.find(b"\n", number + 1)
    if min(path, number, end) < 0:
        return None
    name = bytes(waiting[waiting.index(b":", at) + 1 : path])
    line = bytes(waiting[number + 1 : min(end, number + 1 + LINE_MOST)])
    return Hit(path=name, number=int(waiting[path + 1 : number]), line=line), end + 1
