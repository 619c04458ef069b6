"""What stock git says of a repository. None of the product's own reading is trusted here."""

import hashlib
import re
import subprocess
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from service.contract.data import NULL
from tests.stage import ENVIRONMENT

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
GITLINK = "160000"
LEFTOVERS = re.compile(r"\.lock$|^tmp_|^\.tmp-|^incoming-")
_TRAILER = re.compile(rb"^Proposal: ([0-9a-f-]{36})$", re.MULTILINE)


class Unreadable(Exception):
    """Stock git cannot read the repository."""


@dataclass(frozen=True)
class RawCommit:
    """A commit's bytes, taken apart."""

    oid: str
    content: bytes

    def header(self, name: bytes) -> list[str]:
        head, _, _ = self.content.partition(b"\n\n")
        return [line[len(name) + 1 :].decode() for line in head.split(b"\n") if line.startswith(name + b" ")]

    @property
    def message(self) -> bytes:
        return self.content.partition(b"\n\n")[2]

    @property
    def proposals(self) -> list[str]:
        """The ids in the `Proposal:` trailers: lines of the message's last paragraph."""
        return [found.decode() for found in _TRAILER.findall(self.message.rstrip().rpartition(b"\n\n")[2])]


@dataclass(frozen=True)
class Evidence:
    """One repository as stock git reads it, once."""

    path: Path

    def git(self, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            ["git", *arguments], cwd=self.path, input=stdin, capture_output=True, check=False, env=ENVIRONMENT
        )

    def read(self, *arguments: str, stdin: bytes = b"") -> bytes:
        done = self.git(*arguments, stdin=stdin)
        if done.returncode:
            raise Unreadable(f"git {arguments[0]}: {done.stderr.decode(errors='replace').strip()}")
        return done.stdout

    @cached_property
    def _differences(self) -> dict[tuple[str, str], list[tuple[bytes, int, str]]]:
        return {}

    @cached_property
    def refs(self) -> dict[str, str]:
        lines = self.read("for-each-ref", "--format=%(objectname) %(refname)").decode().splitlines()
        return {name: oid for oid, _, name in (line.partition(" ") for line in lines)}

    @cached_property
    def commits(self) -> dict[str, RawCommit]:
        """Every commit that is stored, whether anything points to it or not."""
        listed = self.read(
            "cat-file", "--batch-all-objects", "--unordered", "--batch-check=%(objectname) %(objecttype)"
        )
        oids = {line.split()[0] for line in listed.decode().splitlines() if line.endswith(" commit")}
        return {oid: RawCommit(oid, content) for oid, content in self.contents(sorted(oids)).items()}

    @cached_property
    def named(self) -> dict[str, list[RawCommit]]:
        """The commits that say of themselves that they are a proposal's, by its id; one id counts once."""
        found = defaultdict(list)
        for commit in self.commits.values():
            for proposal in set(commit.proposals):
                found[proposal].append(commit)
        return dict(found)

    def contents(self, oids: list[str]) -> dict[str, bytes]:
        """The objects' bytes; an absent one is absent here too."""
        if not oids:
            return {}
        out = self.read("cat-file", "--batch", stdin=("\n".join(oids) + "\n").encode())
        found, at = {}, 0
        while at < len(out):
            end = out.index(b"\n", at)
            oid, *rest = out[at:end].decode().split()
            size = 0 if rest == ["missing"] else int(rest[1]) + 1
            if size:
                found[oid] = out[end + 1 : end + size]
            at = end + 1 + size
        return found

    def contains(self, tip: str, commit: str) -> bool:
        return NULL not in (tip, commit) and self.git("merge-base", "--is-ancestor", commit, tip).returncode == 0

    def difference(self, old: str, new: str) -> list[tuple[bytes, int, str]]:
        """Each path that differs with its mode and the SHA-256 of its content in the new tree, in byte order."""
        if (old, new) not in self._differences:
            self._differences[old, new] = self._difference(old, new)
        return self._differences[old, new]

    def _difference(self, old: str, new: str) -> list[tuple[bytes, int, str]]:
        sides = [EMPTY_TREE if one == NULL else f"{one}^{{tree}}" for one in (old, new)]
        raw = self.read("diff-tree", "-r", "-z", "--no-renames", "--full-index", *sides).split(b"\0")[:-1]
        heads = [head.decode().split() for head in raw[::2]]
        blobs = self.contents(sorted({head[3] for head in heads if head[1] not in {"000000", GITLINK}}))
        lines = []
        for (_, mode, _, oid, _), path in zip(heads, raw[1::2], strict=True):
            content = oid.encode() if mode == GITLINK else blobs.get(oid, b"")
            lines.append((path, int(mode, 8), "" if mode == "000000" else hashlib.sha256(content).hexdigest()))
        return sorted(lines)

    def complaints(self) -> list[str]:
        """What is not as a clean repository is: what fsck says, and what a dead writer left."""
        done = self.git("fsck", "--strict", "--no-dangling", "--no-progress")
        said = (done.stdout + done.stderr).decode(errors="replace").strip()
        wrong = [f"fsck ended with {done.returncode}: {said}"] if said or done.returncode else []
        left = [path for path in self.path.rglob("*") if LEFTOVERS.search(path.name)]
        return wrong + [f"{path.relative_to(self.path)} was left" for path in sorted(left)]
