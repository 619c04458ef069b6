"""The classic way to commit without a working tree: eight git processes, from file contents to moved refs.

It is given what helps it: processes start with vfork(2), and the files lie on the disk already. It flushes what the
configuration of our repositories says, which is everything.
"""

import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from service.bench.projects import BRANCH
from service.contract.data import Oid
from service.repositories.git import ENVIRONMENT

GIT = shutil.which("git") or "git"
AUTHOR = b"Claude (conn-0123456789ab) <conn-0123456789ab@localhost> 1793520000 +0000"
COMMITTER = b"Olive Owner <olive@example.org> 1793520000 +0000"
_IDENTITY = re.compile(r"(.*) <(.*)> (\d+ [+-]\d{4})")


@dataclass(frozen=True)
class Plumbing:
    """Commits to one repository. `index` is where the throwaway index goes; the rest are whole identity lines."""

    repository: Path
    index: Path
    author: bytes = AUTHOR
    committer: bytes = COMMITTER

    def __call__(self, files: Mapping[str, Path], message: str, marker: str, branch: str = BRANCH) -> Oid:
        """Commit the files (the content by path in the repository) and create the marker with the branch's move.

        Raises:
            subprocess.CalledProcessError: a ref moved meanwhile, or the disk refused.
        """
        tip = self._git("rev-parse", "--verify", branch)
        self._git("for-each-ref", "--format=%(objectname)", marker)
        self.index.unlink(missing_ok=True)
        self._git("read-tree", tip)
        blobs = self._git("hash-object", "-w", "--stdin-paths", "--no-filters", stdin=_lines(files.values())).split()
        entries = [f"100644 {blob}\t{path}" for blob, path in zip(blobs, files, strict=True)]
        self._git("update-index", "--index-info", stdin=_lines(entries))
        tree = self._git("write-tree")
        commit = self._git("commit-tree", tree, "-p", tip, stdin=message)
        self._git("update-ref", "--stdin", stdin=f"create {marker} {commit}\nupdate {branch} {commit} {tip}\n")
        return Oid(commit)

    def _git(self, *words: str, stdin: str = "") -> str:
        done = subprocess.run(
            (GIT, f"--git-dir={self.repository}", *words),
            input=stdin,
            capture_output=True,
            text=True,
            check=True,
            env=self._environment,
        )
        return done.stdout.strip()

    @cached_property
    def _environment(self) -> dict[str, str]:
        who = {**_who("AUTHOR", self.author), **_who("COMMITTER", self.committer)}
        return {**ENVIRONMENT, **who, "GIT_INDEX_FILE": str(self.index)}


def _who(part: str, line: bytes) -> dict[str, str]:
    name, mail, at = _IDENTITY.findall(line.decode())[0]
    return {f"GIT_{part}_NAME": name, f"GIT_{part}_EMAIL": mail, f"GIT_{part}_DATE": f"@{at}"}


def _lines(values: Iterable[object]) -> str:
    return "".join(f"{value}\n" for value in values)
