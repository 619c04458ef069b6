"""What a patch says of the files that it changes, read from its headers by the rules of git-apply(1).

Names are those that `git apply` takes: after `-p1`, or `-p0` once a header without git's own lines has names without a
slash. What is no header is passed over. This is for telling beforehand what a patch is about; git itself applies it.
Source: git-diff(1), "Generating patch text with -p"; apply.c of git.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from service.contract.names import READ_PATH_BYTES, unquote_path
from service.kit.errors import Refusal

_GIT: Final = b"diff --git "
_HUNK: Final = re.compile(rb"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_DATE: Final = re.compile(rb"(?<![ \t])[ \t]++\d{2,4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d.*)?\s*$", re.DOTALL)
_QUOTED: Final = re.compile(rb'"(?:[^"\\\n]|\\.)*"')
_PLAIN: Final = re.compile(rb"[^\n\v\f\r]*")
_TO_TAB: Final = re.compile(rb"[^\t\n\v\f\r]*")
_SPACE: Final = re.compile(rb"[ \t]")
_NAMES_MOST: Final = 2 * READ_PATH_BYTES
_PASSED: Final = (b"old mode ", b"new mode ", b"index ", b"similarity index ", b"dissimilarity index ")
_RENAMES: Final = {
    b"copy from ": "old",
    b"copy to ": "new",
    b"rename from ": "old",
    b"rename old ": "old",
    b"rename to ": "new",
    b"rename new ": "new",
}
_DATA: Final = b"GIT binary patch"
_NO_DATA: Final = re.compile(rb"(?:Binary files|Files) .* differ\s*")


@dataclass(frozen=True)
class PatchedFile:
    """One file of a patch.

    Attributes:
        old: its path before; None where it is created.
        new: its path after; None where it is deleted.
        copied: whether `old` stays.
        dataless: a binary file that differs, and the patch does not say how.
    """

    old: bytes | None
    new: bytes | None
    copied: bool = False
    dataless: bool = False

    @property
    def source(self) -> bytes | None:
        """The other path that its content comes from, if any."""
        return self.old if self.new is not None and self.old != self.new else None

    @property
    def leaves(self) -> bytes | None:
        """The path that is no longer there afterwards, if any."""
        return self.old if self.old != self.new and not self.copied else None


def patched_files(patch: bytes) -> tuple[PatchedFile, ...]:
    """The files of a patch in its own order; one that has two sections is there twice."""
    return tuple(_Reader([line + b"\n" for line in patch.split(b"\n")]).files())


@dataclass
class _Reader:
    """Goes through the lines of a patch."""

    lines: list[bytes]
    at: int = 0
    strip: int = 1
    known: bool = False

    def files(self) -> Iterator[PatchedFile]:
        while self.at < len(self.lines):
            start = self.at
            found = self._git() if self._line().startswith(_GIT) else self._plain()
            if found is None:
                self.at = start + 1
                continue
            yield self._body(found)

    def _line(self, ahead: int = 0) -> bytes:
        at = self.at + ahead
        return self.lines[at] if at < len(self.lines) else b""

    def _git(self) -> PatchedFile | None:
        """A header that begins with `diff --git`: its own names count only where no later line has one."""
        same = _same_name(self._line()[len(_GIT) :], self.strip)
        names: dict[str, bytes | None] = {"old": same, "new": same}
        copied, first = False, self.at
        self.at += 1
        while (line := self._line()) and self._header_line(line, names):
            copied |= line.startswith(b"copy ")
            self.at += 1
        if self.at == first + 1 or names == {"old": None, "new": None}:
            return None
        return PatchedFile(names["old"], names["new"], copied)

    def _header_line(self, line: bytes, names: dict[str, bytes | None]) -> bool:
        """Take one line of a header; whether it is one."""
        for start, side in _RENAMES.items():
            if line.startswith(start):
                names[side] = _name(line[len(start) :], self.strip - 1, _PLAIN)
                return True
        if line.startswith((b"--- ", b"+++ ")):
            side = "old" if line.startswith(b"-") else "new"
            names[side] = None if _is_null(line[4:]) else _name(line[4:], self.strip, _TO_TAB)
        elif line.startswith(b"new file mode "):
            names["old"] = None
        elif line.startswith(b"deleted file mode "):
            names["new"] = None
        elif not line.startswith(_PASSED):
            return False
        return True

    def _plain(self) -> PatchedFile | None:
        """A header of two lines, as other programs write it."""
        first, second = self._line(), self._line(1)
        if not (first.startswith(b"--- ") and second.startswith(b"+++ ") and self._line(2).startswith(b"@@ -")):
            return None
        first, second = first[4:], second[4:]
        self._guess(first, second)
        self.at += 2
        new = None if _is_null(second) else _dated_name(second, self.strip)
        old = None if _is_null(first) else _dated_name(first, self.strip)
        if old is not None and new is not None:
            old = new = min(old, new, key=len)
        return None if old is None and new is None else PatchedFile(old, new)

    def _guess(self, *lines: bytes) -> None:
        guesses = [_guess(line) for line in lines if not _is_null(line)]
        if not self.known and guesses and set(guesses) == {0}:
            self.strip, self.known = 0, True

    def _body(self, found: PatchedFile) -> PatchedFile:
        """Pass over what changes in it."""
        if self._line().startswith(_DATA):
            self.at += 1
        elif _NO_DATA.fullmatch(self._line()):
            self.at += 1
            return replace(found, dataless=True)
        while hunk := _HUNK.match(self._line()):
            self.at += 1
            self._hunk(*(1 if count is None else int(count[:9]) for count in hunk.groups()))
        return found

    def _hunk(self, old: int, new: int) -> None:
        while (old > 0 or new > 0) and (line := self._line()):
            if line[:1] not in b" -+\\\n\r":
                return
            old -= line[:1] in b" -\n\r"
            new -= line[:1] in b" +\n\r"
            self.at += 1


def _is_null(line: bytes) -> bool:
    return line.startswith(b"/dev/null") and line[9:10].isspace()


def _same_name(rest: bytes, strip: int) -> bytes | None:
    """The name that both sides of a `diff --git` line have; None where they differ."""
    if not (quoted := _QUOTED.match(rest)):
        return _same_plain_name(_PLAIN.match(rest)[0], strip)  # type: ignore[index]
    first, second = quoted[0], rest[quoted.end() :].lstrip(b" \t")
    name = _name(first, strip, _PLAIN)
    return name if name == _name(second, strip, _PLAIN) else None


def _same_plain_name(line: bytes, strip: int) -> bytes | None:
    """A name may hold spaces: the one between the two is where both sides have the same name."""
    begin = line.find(b"/") + 1 if strip else 0
    if len(line) > _NAMES_MOST or begin == strip - 1:
        return None
    for space in _SPACE.finditer(line, begin):
        name, other = line[begin : space.start()], line[space.end() :]
        if name and other.endswith(name) and other[: -len(name)].count(b"/") == strip and _is_prefix(other, name):
            return name
    quoted = line[line.find(b' "') + 1 :]
    same = _name(quoted, strip, _PLAIN) if quoted.startswith(b'"') else None
    return same if line[begin : -len(quoted) - 1] == same else None


def _is_prefix(other: bytes, name: bytes) -> bool:
    """Whether what stands before the name is a whole component, or nothing."""
    return len(other) == len(name) or other[-len(name) - 1 : -len(name)] == b"/"


def _name(text: bytes, strip: int, plain: re.Pattern[bytes]) -> bytes | None:
    """A name less its first components; None where it has not so many."""
    quoted = _QUOTED.match(text)
    raw = _unquoted(quoted[0]) if quoted else plain.match(text)[0]  # type: ignore[index]
    parts = (raw or b"").split(b"/", max(strip, 0))
    return parts[-1] or None if len(parts) > max(strip, 0) else None


def _dated_name(text: bytes, strip: int) -> bytes | None:
    return _name(text if text.startswith(b'"') else _DATE.sub(b"", text), strip, _TO_TAB)


def _guess(line: bytes) -> int:
    name = _dated_name(line, 0)
    return 0 if name is not None and b"/" not in name else -1


def _unquoted(text: bytes) -> bytes | None:
    try:
        return unquote_path(text.decode("utf-8", "surrogateescape"), "patch")
    except Refusal:
        return None
