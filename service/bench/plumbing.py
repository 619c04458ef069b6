"""The classic way to commit without a working tree: eight git processes, from file contents to moved refs.

It is given every advantage: processes start with vfork(2), the files lie on the disk already, and the index, which is
thrown away, is not flushed. Objects and refs are, as the repository's configuration says.
"""

import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from service.bench.projects import BRANCH
from service.contract.data import Oid
from service.repositories.git import ENVIRONMENT

GIT = shutil.which("git") or "git"
_SETTINGS = ("-c", "core.fsync=all,-index")
_WHO = "Claude (conn-0123456789ab)", "conn-0123456789ab@localhost", "Olive Owner", "olive@example.org"


@dataclass(frozen=True)
class Plumbing:
    """Commits to one repository. `index` is where the throwaway index goes."""

    repository: Path
    index: Path

    def __call__(self, files: Mapping[str, Path], message: str, marker: str) -> Oid:
        """Commit the files (the content by path in the repository) and create the marker with the branch's move.

        Raises:
            subprocess.CalledProcessError: a ref moved meanwhile, or the disk refused.
        """
        tip = self._git("rev-parse", "--verify", BRANCH)
        self._git("for-each-ref", "--format=%(objectname)", marker)
        self.index.unlink(missing_ok=True)
        self._git("read-tree", tip)
        blobs = self._git("hash-object", "-w", "--stdin-paths", "--no-filters", stdin=_lines(files.values())).split()
        entries = [f"100644 {blob}\t{path}" for blob, path in zip(blobs, files, strict=True)]
        self._git("update-index", "--index-info", stdin=_lines(entries))
        tree = self._git("write-tree")
        commit = self._git("commit-tree", tree, "-p", tip, stdin=message)
        self._git("update-ref", "--stdin", stdin=f"create {marker} {commit}\nupdate {BRANCH} {commit} {tip}\n")
        return Oid(commit)

    def _git(self, *words: str, stdin: str = "") -> str:
        names = ("AUTHOR_NAME", "AUTHOR_EMAIL", "COMMITTER_NAME", "COMMITTER_EMAIL")
        who = {f"GIT_{name}": value for name, value in zip(names, _WHO, strict=True)}
        done = subprocess.run(
            (GIT, f"--git-dir={self.repository}", *_SETTINGS, *words),
            input=stdin,
            capture_output=True,
            text=True,
            check=True,
            env={**ENVIRONMENT, **who, "GIT_INDEX_FILE": str(self.index)},
        )
        return done.stdout.strip()


def _lines(values: Iterable[object]) -> str:
    return "".join(f"{value}\n" for value in values)
