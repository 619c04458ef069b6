"""Patches against stock git: what `git apply --index` makes of them in a clone, and nothing more."""

import base64
import random
import string
import subprocess
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from service.contract.data import Entry, Oid
from service.contract.patches import patched_files
from service.contract.world import Applied
from service.repositories.applying import BINARY_BYTES, READ_BYTES
from service.repositories.staging import Staging
from tests.faults.sizes import FORM
from tests.planned import imported
from tests.stage import ENVIRONMENT, git

AUTHOR = b"Claude (conn-1) <conn-1@placet.example> 1700000000 +0000"
DIFFS = 60 if FORM == "suite" else 1_000
ODD = b'we"ird\t\xc3\xa9 \\ name.txt'
LINES = b"".join(b"line %d\n" % number for number in range(1, 61))
FILES: Mapping[bytes, tuple[str, bytes]] = {
    b"a.txt": ("100644", LINES),
    b"crlf.txt": ("100644", LINES.replace(b"\n", b"\r\n")),
    b"bare.txt": ("100644", b"one\ntwo\nthree"),
    b"empty.txt": ("100644", b""),
    b"bin.dat": ("100644", bytes(range(256)) * 8),
    b"run.sh": ("100755", b"#!/bin/sh\necho 1\n"),
    b"dir/one.txt": ("100644", b"1\n2\n3\n"),
    b"dir/deep/two.txt": ("100644", LINES),
    b"link": ("120000", b"dir"),
    b"dead": ("120000", b"nowhere"),
    b"only/one": ("100644", b"x\n"),
    b"-dash.txt": ("100644", b"a\nb\n"),
    b"a b.txt": ("100644", b"a\nb\n"),
    b"latin-\xe9.txt": ("100644", b"a\nb\n"),
    ODD: ("100644", b"a\nb\nc\n"),
    b"sub": ("160000", b"1" * 40),
}
"""Mode and content of every file of the tree that patches are made for; of a submodule its commit."""


Tree = dict[bytes, tuple[str, bytes]]


@dataclass
class Bench:
    """A bare repository, a clone to ask stock git in, and the trees by the names of their branches."""

    bare: Path
    clone: Path
    trees: dict[str, Oid] = field(default_factory=dict)
    parents: dict[str, str] = field(default_factory=dict)
    checked_out: str = ""
    littered: bool = False
    listed: dict[str, set[str]] = field(default_factory=dict)

    def ours(self, patch: bytes, on: str = "base") -> Applied:
        with Staging(self.bare, AUTHOR) as staging:
            found = staging.apply(self.trees[on], patch)
            if found.tree is not None:
                staging.draft((), found.tree, b"x")
                kept = {one.oid for one in staging.staged()} | self.blobs(on)
                news = [one.new for one in staging.changes(self.trees[on], found.tree) if one.new]
                assert all(new.oid in kept for new in news if new.mode != 0o160000)
            return found

    def blobs(self, on: str) -> set[str]:
        if on not in self.listed:
            self.listed[on] = {line.split()[2].decode() for line in git(self.bare, "ls-tree", "-r", on).splitlines()}
        return self.listed[on]

    def stock(self, patch: bytes, on: str = "base") -> Oid | None:
        """The tree that `git apply --index` makes; None where it refuses."""
        if self.checked_out != on:
            git(self.clone, "reset", "-q", "--hard", f"origin/{on}")
            if self.littered:
                git(self.clone, "clean", "-dffqx")
            self.checked_out, self.littered = on, False
        done = subprocess.run(
            ["git", "apply", "--index", "--whitespace=nowarn"],
            cwd=self.clone, input=patch, capture_output=True, check=False, env=ENVIRONMENT,
        )  # fmt: skip
        if done.returncode == 0 or b"unable to" in done.stderr:  # then it may have written some
            self.checked_out, self.littered = "", done.returncode != 0
        return Oid(git(self.clone, "write-tree").decode().strip()) if done.returncode == 0 else None


def _edit(made: Tree, path: bytes, chance: random.Random) -> None:
    lines = made[path][1].splitlines(keepends=True)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(lines) + 1)
        lines[at : at + chance.randint(0, 3)] = [b"new %d\n" % chance.randrange(9)] * chance.randint(0, 3)
    made[path] = (made[path][0], b"".join(lines))


def _rename(made: Tree, path: bytes, chance: random.Random) -> None:
    made[b"moved/%d-%s" % (chance.randrange(99), path.replace(b"/", b"-"))] = made.pop(path)


def _copy(made: Tree, path: bytes, chance: random.Random) -> None:
    made[b"copied %d \xc3\xa9.txt" % chance.randrange(99)] = (made[path][0], made[path][1] + b"more\n")


def _mode(made: Tree, path: bytes, _: random.Random) -> None:
    made[path] = ("100755" if made[path][0] == "100644" else "100644", made[path][1])


def _create(made: Tree, _: bytes, chance: random.Random) -> None:
    made[b"made/%d" % chance.randrange(99)] = ("100644", b"fresh\n" * chance.randint(0, 3))


def _binary(made: Tree, path: bytes, chance: random.Random) -> None:
    made[path] = (made[path][0], chance.randbytes(40) + b"\0" + made[path][1][:200])


def _end(made: Tree, path: bytes, _: random.Random) -> None:
    mode, content = made[path]
    made[path] = (mode, content[:-1] if content.endswith(b"\n") else content + b"\n")


def _delete(made: Tree, path: bytes, _: random.Random) -> None:
    del made[path]


DEEDS = (_edit, _edit, _edit, _rename, _copy, _mode, _create, _binary, _end, _delete)


def mutated(files: Tree, chance: random.Random) -> Tree:
    """Some of what people do to a tree."""
    made = dict(files)
    for _ in range(chance.randint(1, 3)):
        path = chance.choice([path for path in made if made[path][0].startswith("100")])
        chance.choice(DEEDS)(made, path, chance)
    return made


@pytest.fixture(scope="module", name="bench")
def bench_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("patches")
    chance = random.Random(20_261_201)  # noqa: S311  the same diffs every time
    branches = {"base": dict(FILES)}
    parents = {f"v{number}": f"v{number // 12 - 1}" if number >= 12 else "base" for number in range(DIFFS)}
    for name, parent in parents.items():
        branches[name] = mutated(branches[parent], chance)
    git(folder, "init", "-q", "--bare", "-b", "base", "bare.git")
    bench = Bench(folder / "bare.git", folder / "clone", parents=parents)
    git(bench.bare, "fast-import", "--quiet", stdin=imported(branches))
    git(folder, "clone", "-q", "bare.git", "clone")
    listed = git(bench.bare, "for-each-ref", "--format=%(refname:short) %(tree)", "refs/heads").decode()
    bench.trees = {name: Oid(tree) for name, tree in (line.split(" ") for line in listed.splitlines())}
    return bench


def test_random_diffs_give_the_tree_that_stock_git_makes_or_are_refused_like_there(bench: Bench) -> None:
    chance = random.Random(7)  # noqa: S311  the same choices every time
    landed = refused = 0
    for one, other in bench.parents.items():
        on = chance.choice([name for name, parent in bench.parents.items() if parent == other])
        options = chance.choice(
            [["-M"], ["-C", "--find-copies-harder"], ["--no-renames"], ["-M30", "-B"], ["-U1"], ["-U8"]]
        )
        patch = git(bench.bare, "diff", "--binary", *options, other, one)
        if not patch:
            continue
        exact = bench.ours(patch, other)
        assert exact.tree == bench.trees[one], (one, options, exact.rejected)
        if FORM == "suite" and landed + refused == DIFFS // 2:
            continue  # stock git in a clone takes its time
        elsewhere = bench.ours(patch, on)
        assert elsewhere.tree == bench.stock(patch, on), (one, on, elsewhere.rejected)
        assert (elsewhere.tree is None) == bool(elsewhere.rejected)
        landed, refused = landed + (elsewhere.tree is not None), refused + (elsewhere.tree is None)
    assert min(landed, refused) > DIFFS // 10, (landed, refused)


def test_the_headers_name_the_paths_that_git_counts_in(bench: Bench) -> None:
    for number in range(DIFFS - 1):
        options = (["-M"], ["-C", "--find-copies-harder", "--binary"], ["-U0"])[number % 3]
        patch = git(bench.bare, "diff", *options, f"v{number}", f"v{number + 1}") or hunk("a.txt").encode()
        counted = git(bench.bare, "apply", "--numstat", "-z", "-", stdin=patch)
        told = [line.split(b"\t", 2)[2] for line in counted.split(b"\0") if line]
        assert [one.new or one.old for one in patched_files(patch)] == told


def hunk(path: str, old: str = "line 5", new: str = "LINE 5", at: int = 4) -> str:
    """A change of one line of the sixty."""
    number = int(old.rpartition(" ")[2])
    return (
        f"--- a/{path}\n+++ b/{path}\n@@ -{at},3 +{at},3 @@\n line {number - 1}\n-{old}\n+{new}\n line {number + 1}\n"
    )


def made(path: str, *, text: str = "new", mode: str = "100644") -> str:
    return (
        f"diff --git a/{path} b/{path}\nnew file mode {mode}\nindex 0000000..1111111\n"
        f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+{text}\n"
    )


def gone(path: str, text: str, mode: str = "100644") -> str:
    return (
        f"diff --git a/{path} b/{path}\ndeleted file mode {mode}\nindex 1111111..0000000\n"
        f"--- a/{path}\n+++ /dev/null\n@@ -1 +0,0 @@\n-{text}\n"
    )


def renamed(old: str, new: str, word: str = "rename") -> str:
    return f"diff --git a/{old} b/{new}\nsimilarity index 100%\n{word} from {old}\n{word} to {new}\n"


def moded(path: str, old: str, new: str) -> str:
    return f"diff --git a/{path} b/{path}\nold mode {old}\nnew mode {new}\n"


QUOTED = '"a/we\\"ird\\t\\303\\251 \\\\ name.txt" "b/we\\"ird\\t\\303\\251 \\\\ name.txt"'
ODD_EDIT = (
    f'diff --git {QUOTED}\nindex 1..2 100644\n--- {QUOTED.partition(chr(34) + " ")[0]}"\n'
    f'+++ "b/we\\"ird\\t\\303\\251 \\\\ name.txt"\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n'
)
CRLF = (
    hunk("crlf.txt").replace("line 4\n", "line 4\r\n").replace("ine 5\n", "ine 5\r\n").replace("INE 5\n", "INE 5\r\n")
)
CRLF = CRLF.replace("line 6\n", "line 6\r\n")
BINARY = "diff --git a/bin.dat b/bin.dat\nindex 1..2 100644\nGIT binary patch\n"
NO_END = "\n\\ No newline at end of file\n"

LIKE_STOCK: Mapping[str, str | bytes] = {
    "plain": "diff --git a/a.txt b/a.txt\n" + hunk("a.txt"),
    "no git line": hunk("a.txt"),
    "no prefix": hunk("a.txt").replace("a/", "").replace("b/", ""),
    "dated": hunk("a.txt").replace("a/a.txt\n", "a/a.txt\t2026-01-02 03:04:05.000000000 +0000\n"),
    "other prefixes": hunk("a.txt").replace("a/", "old/").replace("b/", "new/"),
    "svn index": "Index: a.txt\n=====\n" + hunk("a.txt"),
    "words before and after": "Dear all,\n\nfrom me.\n---\n" + hunk("a.txt") + "-- \n2.39.5\n",
    "offset": hunk("a.txt", at=20),
    "offset at the end": hunk("a.txt", old="line 59", at=7),
    "context differs": hunk("a.txt").replace(" line 6", " line six"),
    "context needs fuzz": hunk("a.txt").replace(" line 4", " LINE 4"),
    "trailing space in context": hunk("a.txt").replace(" line 6", " line 6 "),
    "no context": "--- a/a.txt\n+++ b/a.txt\n@@ -5 +5 @@\n-line 5\n+LINE 5\n",
    "already applied": hunk("a.txt", old="line 5", new="line 5").replace("-line 5", "-line five"),
    "reversed": hunk("a.txt").replace("-line 5\n+LINE 5", "-LINE 5\n+line 5"),
    "two hunks": hunk("a.txt") + hunk("a.txt", "line 30", "L30", 29).split("\n", 2)[2],
    "hunks out of order": hunk("a.txt", "line 30", "L30", 29) + hunk("a.txt").split("\n", 2)[2],
    "two sections": hunk("a.txt") + hunk("a.txt", "line 30", "L30", 29),
    "second section on the first": hunk("a.txt") + hunk("a.txt", "LINE 5", "5", 4),
    "two sections that overlap": hunk("a.txt") + hunk("a.txt"),
    "crlf": CRLF,
    "crlf patch of an lf file": CRLF.replace("crlf.txt", "a.txt"),
    "lf patch of a crlf file": hunk("crlf.txt"),
    "crlf headers": CRLF.replace("\r", "").replace("\n", "\r\n"),
    "end without newline": f"--- a/bare.txt\n+++ b/bare.txt\n@@ -1,3 +1,3 @@\n one\n two\n-three{NO_END}+3{NO_END}",
    "newline comes": f"--- a/bare.txt\n+++ b/bare.txt\n@@ -1,3 +1,3 @@\n one\n two\n-three{NO_END}+three\n",
    "newline forgotten": "--- a/bare.txt\n+++ b/bare.txt\n@@ -1,3 +1,3 @@\n one\n two\n-three\n+3\n",
    "create": made("new.txt"),
    "create deep": made("x/y/z.txt"),
    "create empty": "diff --git a/e b/e\nnew file mode 100644\nindex 0000000..e69de29\n",
    "create executable": made("x.sh", mode="100755"),
    "create plain": "--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1 @@\n+new\n",
    "create what is there": made("a.txt"),
    "create over an empty file": "--- a/empty.txt\n+++ b/empty.txt\n@@ -0,0 +1 @@\n+new\n",
    "create with old content": made("new.txt").replace("@@ -0,0", "@@ -1").replace("+new", "-old\n+new"),
    "create a folder's name": made("dir"),
    "create under a file": made("a.txt/x"),
    "create under a file that it deletes": gone("only/one", "x") + made("only/one/two"),
    "create where a folder was": gone("only/one", "x") + made("only"),
    "create where a folder is half empty": gone("dir/one.txt", "1") + made("dir"),
    "create a file and one below": made("n") + made("n/m"),
    "edit a file and create below": hunk("a.txt") + made("a.txt/x"),
    "delete": gone("only/one", "x"),
    "delete plain": "--- a/only/one\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n",
    "delete what is other": gone("only/one", "y"),
    "delete leaving content": gone("dir/one.txt", "1"),
    "delete missing": gone("no/one", "x"),
    "delete twice": gone("only/one", "x") * 2,
    "delete empty": "diff --git a/empty.txt b/empty.txt\ndeleted file mode 100644\nindex e69de29..0000000\n",
    "delete and create again": gone("only/one", "x") + made("only/one", text="y"),
    "become empty": "--- a/only/one\n+++ b/only/one\n@@ -1 +0,0 @@\n-x\n",
    "rename": renamed("a.txt", "b.txt"),
    "rename with edit": renamed("a.txt", "z/b.txt") + hunk("a.txt").replace("+++ b/a.txt", "+++ b/z/b.txt"),
    "rename unsaid": "diff --git a/a.txt b/b.txt\n" + hunk("a.txt").replace("+++ b/a.txt", "+++ b/b.txt"),
    "rename onto what is there": renamed("a.txt", "run.sh"),
    "rename missing": renamed("no.txt", "b.txt"),
    "rename into a folder of its name": renamed("only/one", "only/one/x"),
    "rename up": renamed("only/one", "only"),
    "rename twice": renamed("a.txt", "b.txt") + renamed("a.txt", "c.txt"),
    "rename in a ring": renamed("a.txt", "run.sh") + renamed("run.sh", "a.txt"),
    "rename in a chain": renamed("a.txt", "b.txt") + renamed("run.sh", "a.txt"),
    "rename on": renamed("a.txt", "b.txt") + renamed("b.txt", "c.txt"),
    "rename old style": renamed("a.txt", "b.txt").replace("from", "old").replace("rename to", "rename new"),
    "rename with spaces": renamed("a b.txt", "c d.txt"),
    "copy": renamed("a.txt", "b.txt", "copy"),
    "copy and edit the source": renamed("a.txt", "b.txt", "copy") + "diff --git a/a.txt b/a.txt\n" + hunk("a.txt"),
    "copy onto what is there": renamed("a.txt", "run.sh", "copy"),
    "mode": moded("a.txt", "100644", "100755"),
    "mode that it is not": moded("run.sh", "100644", "100755"),
    "mode garbage": moded("a.txt", "100644", "1x"),
    "mode 100777": moded("a.txt", "100644", "100777"),
    "mode to symlink": moded("a.txt", "100644", "120000"),
    "mode to submodule": moded("a.txt", "100644", "160000"),
    "symlink made": made("new", mode="120000", text="/etc/passwd") + NO_END[1:],
    "symlink gone": gone("dead", "nowhere" + NO_END[:-1], "120000"),
    "symlink changed": f"diff --git a/dead b/dead\nindex 1..2 120000\n--- a/dead\n+++ b/dead\n"
    f"@@ -1 +1 @@\n-nowhere{NO_END}+/etc{NO_END}",
    "symlink becomes a file": gone("dead", "nowhere" + NO_END[:-1], "120000") + made("dead"),
    "symlink edited as a file": "--- a/dead\n+++ b/dead\n@@ -1 +1 @@\n-nowhere\n+x\n",
    "through a symlink": made("link/x.txt"),
    "edit through a symlink": "--- a/link/one.txt\n+++ b/link/one.txt\n@@ -1,3 +1,3 @@\n 1\n-2\n+two\n 3\n",
    "through a symlink that it makes": made("new", mode="120000", text="dir") + NO_END[1:] + made("new/x"),
    "submodule moved": f"diff --git a/sub b/sub\nindex {'1' * 40}..{'2' * 40} 160000\n--- a/sub\n+++ b/sub\n"
    f"@@ -1 +1 @@\n-Subproject commit {'1' * 40}\n+Subproject commit {'2' * 40}\n",
    "quoted name": ODD_EDIT,
    "name that begins with a dash": "--- a/-dash.txt\n+++ b/-dash.txt\n@@ -1,2 +1,2 @@\n a\n-b\n+B\n",
    "name with a space": "diff --git a/a b.txt b/a b.txt\n--- a/a b.txt\t\n+++ b/a b.txt\t\n@@ -1,2 +1 @@\n a\n-b\n",
    "name that is no UTF-8": 'diff --git "a/latin-\\351.txt" "b/latin-\\351.txt"\nold mode 100644\nnew mode 100755\n',
    "quotes that do not end": 'diff --git "a/x "b/x\n' + hunk("a.txt"),
    "names that differ": "diff --git a/a.txt b/a.txt\n" + hunk("a.txt").replace("+++ b/a.txt", "+++ b/b.txt"),
    "binary that it is not": f"{BINARY}literal 1\nIcmZPo000310RR91\n\n",
    "binary garbage": f"{BINARY}literal 5\n!!!!\n\n",
    "empty": "",
    "only words": "Hello.\n\nNothing here.\n",
    "only a header": "diff --git a/a.txt b/a.txt\n",
    "header without hunks": "--- a/a.txt\n+++ b/a.txt\n",
    "cut hunk": hunk("a.txt")[:-8],
    "hunk without a header": "@@ -4,3 +4,3 @@\n line 4\n-line 5\n+LINE 5\n line 6\n",
    "counts that lie": hunk("a.txt").replace("-4,3", "-4,4"),
    "counts that are huge": hunk("a.txt").replace("-4,3", f"-4,{10**30}"),
    "numbers that are huge": hunk("a.txt").replace("-4,3", f"-{2**64},3"),
    "both sides are null in git's form": "diff --git a/x b/x\nnew file mode 100644\ndeleted file mode 100644\n",
    "new and renamed": renamed("a.txt", "b.txt").replace("similarity", "new file mode 100644\nsimilarity"),
    "renamed and new": renamed("a.txt", "b.txt") + "new file mode 100644\n",
    "good and bad": hunk("a.txt") + hunk("run.sh"),
    "combined diff": "diff --cc a.txt\n--- a/a.txt\n+++ b/a.txt\n@@@ -1,1 -1,1 +1,1 @@@\n- line 1\n++x\n",
    "large": "".join(made(f"many/{number}", text="x" * 900) for number in range(190)),
    **{
        f"path {path!r}": made(path)
        for path in (
            *("../x", "/etc/x", "a//b", "./a", "", ".git/hooks/post-commit", ".GIT/config", ".git", "d/.git/x"),
            *("d/../../x", "..", ".", "/", "//x", "git~1/x", ".git./x", "%2e%2e%2fx", "C:\\x", "a\\b"),
        )
    },
    **{
        f"plain path {path!r}": f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n"
        for path in ("../x", "/etc/x", ".git/config", "")
    },
    "rename to outside": renamed("a.txt", "../b.txt"),
    "rename from outside": renamed("../../etc/passwd", "b.txt"),
    "copy of git's own": renamed(".git/config", "b.txt", "copy"),
    "delete git's own": gone(".git/config", "x"),
}  # fmt: skip

STRICTER: Mapping[str, tuple[str, str]] = {
    "binary by id": (
        "diff --git a/bin.dat b/bin.dat\nindex {bin}..{other} 100644\nBinary files a/bin.dat and b/x differ\n",
        "dataless",
    ),
    "a name with NUL": ("--- a/a\0b\n+++ b/a\0b\n@@ -0,0 +1 @@\n+x\n", "unsafe_path"),
    "an empty component": ("--- /dev/null\n+++ b/a//b\n@@ -0,0 +1 @@\n+x\n", "unsafe_path"),
    "from null to null": ("--- /dev/null\n+++ /dev/null\n@@ -0,0 +1 @@\n+x\n", "malformed"),
    "under a submodule": (made("sub/x.txt"), "occupied"),
    "a huge literal": (
        f"{BINARY}literal {BINARY_BYTES + 1}\nzcmZ\n\n",
        "too_large",
    ),
}
"""What stock git may take and this does not, and why."""


@pytest.mark.parametrize("name", LIKE_STOCK)
def test_what_stock_git_makes_of_a_patch_is_what_comes_of_it(bench: Bench, name: str) -> None:
    patch = LIKE_STOCK[name]
    raw = patch if isinstance(patch, bytes) else patch.encode()
    ours = bench.ours(raw)
    assert ours.tree == bench.stock(raw), ours.rejected
    assert (ours.tree is None) == bool(ours.rejected)
    for note in ours.rejected:
        assert note.code == "patch_rejected"
        assert set(note.params) <= {"why", "line"}


@pytest.mark.parametrize("name", STRICTER)
def test_what_would_come_from_elsewhere_or_be_too_large_is_refused(bench: Bench, name: str) -> None:
    patch, why = STRICTER[name]
    blobs = {path: git(bench.bare, "rev-parse", f"base:{path}").decode().strip() for path in ("bin.dat", "a.txt")}
    raw = patch.replace("{bin}", blobs["bin.dat"]).replace("{other}", blobs["a.txt"]).encode()
    assert [note.params["why"] for note in bench.ours(raw).rejected] == [why]


MODE = moded("a.txt", "100644", "100755")


@pytest.mark.parametrize(
    ("patch", "said"),
    [
        (hunk("a.txt", at=20).replace(" line 6", " no"), [("a.txt", {"why": "context", "line": 20})]),
        (hunk("no.txt") + hunk("a.txt", "line 9", at=8) + hunk("run.sh"),
         [("no.txt", {"why": "missing"}), ("run.sh", {"why": "context", "line": 4})]),
        (made("a.txt"), [("a.txt", {"why": "exists"})]),
        (made("../x"), [("../x", {"why": "unsafe_path"})]),
        (made("link/x"), [("link/x", {"why": "beyond_symlink"})]),
        (moded("dead", "100644", "100755"), [("dead", {"why": "type"})]),
        (moded("a.txt", "100644", "120000"), [("a.txt", {"why": "mode"})]),
        (made("dir"), [("dir", {"why": "occupied"})]),
        (made("a.txt/x"), [("a.txt/x", {"why": "occupied"})]),
        (renamed("a.txt", "b.txt") + MODE, [("a.txt", {"why": "moved_twice"})]),
        ("", [("", {"why": "empty"})]),
        (hunk("a.txt").replace("-4,3", "-4,4"), [("", {"why": "malformed", "line": 8})]),
        (ODD_EDIT.replace(" c\n", " d\n"), [('"we\\"ird\\t\\303\\251 \\\\ name.txt"', {"why": "context", "line": 1})]),
    ],
)  # fmt: skip
def test_a_refusal_says_where_and_why(bench: Bench, patch: str, said: list[tuple[str, dict[str, object]]]) -> None:
    assert [(note.at, note.params) for note in bench.ours(patch.encode()).rejected] == said


@pytest.mark.parametrize("step", [52, 3, 1])
def test_a_delta_that_unpacks_to_too_much_is_refused_before_git_sees_it(bench: Bench, step: int) -> None:
    packed = zlib.compress(bytes((0x80, 0x10)) + b"\xff\xff\xff\xff\x0f" + b"\x90" * 9)
    letters = string.ascii_uppercase + string.ascii_lowercase
    pieces = [packed[at : at + step] for at in range(0, len(packed), step)]
    lines = [letters[len(piece) - 1].encode() + base64.b85encode(piece, pad=True) + b"\n" for piece in pieces]
    patch = b"diff --git a/bin.dat b/bin.dat\nindex 1..2 100644\nGIT binary patch\ndelta 16\n" + b"".join(lines) + b"\n"
    (note,) = bench.ours(patch).rejected
    assert (note.params["why"], note.params["limit"]) == ("too_large", BINARY_BYTES)


def test_a_large_file_that_is_renamed_on_and_on_is_counted_each_time(bench: Bench) -> None:
    with Staging(bench.bare, AUTHOR) as staging:
        large = git(bench.bare, "hash-object", "-w", "--stdin", stdin=b"\n" * 1_000_000).decode().strip()
        tree = staging.edit(bench.trees["base"], {b"large0": Entry(mode=0o100644, oid=Oid(large))})
        patch = "".join(
            renamed(f"large{number}", f"large{number + 1}") for number in range(READ_BYTES // 1_000_000 + 1)
        )
        (note,) = staging.apply(tree, patch.encode()).rejected
        assert (note.params["why"], note.params["limit"]) == ("too_large", READ_BYTES)


def test_what_the_repository_has_already_is_staged_all_the_same(bench: Bench) -> None:
    """It may hang on nothing there."""
    stray = Oid(git(bench.bare, "hash-object", "-w", "--stdin", stdin=b"stray\n").decode().strip())
    with Staging(bench.bare, AUTHOR) as staging:
        found = staging.apply(bench.trees["base"], made("new.txt", text="stray").encode())
        assert found.tree is not None
        staging.draft((), found.tree, b"x")
        assert stray in {one.oid for one in staging.staged()}


def test_a_patch_applies_to_a_tree_that_is_only_staged(bench: Bench) -> None:
    with Staging(bench.bare, AUTHOR) as staging:
        entry = Entry(mode=0o100644, oid=staging.put(b"a\nb\nc\n"))
        tree = staging.edit(bench.trees["base"], {b"new/file": entry})
        found = staging.apply(tree, b"--- a/new/file\n+++ b/new/file\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n")
        assert found.tree is not None
        made = staging.entry(found.tree, b"new/file")
        assert made is not None
        assert staging.blob(made.oid) == b"a\nB\nc\n"


def test_nothing_that_is_sent_ends_in_an_error_of_ours(bench: Bench) -> None:
    chance = random.Random(3)  # noqa: S311  the same garbage every time
    whole = git(bench.bare, "diff", "--binary", "-M", "base", "v1", "v2") or b"x"
    pieces = [part if isinstance(part, bytes) else part.encode() for part in LIKE_STOCK.values()] + [whole]
    for _ in range(25 if FORM == "suite" else 3_000):
        patch = bytearray(b"".join(chance.sample(pieces[:-30], 2)))
        for _ in range(chance.randint(1, 6)):
            at = chance.randrange(len(patch) + 1)
            patch[at : at + chance.randint(0, 4)] = chance.choice(
                [b"", b"\0", b"\n", b"@@", b"/", b'"', b"\xff", b"9" * 30]
            )
        found = bench.ours(bytes(patch))
        assert (found.tree is None) == bool(found.rejected)
