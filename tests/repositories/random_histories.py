"""Histories by chance, each from its seed: two sides that edit, move, delete and replace the same few files."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tests.histories import FILE, LINK, MODULE, RUNS, Content, Files, Histories

NAMES = (
    b"a.txt",
    b"b.txt",
    b"dir/a.txt",
    b"dir/b.txt",
    b"dir/sub/c.txt",
    b"other/d.txt",
    b"dir",
    b"a.txt/inner",
    "\u00fcn\u00ef.txt".encode(),
    b"sp ace.txt",
    b"na\xefve.txt",
    b'q"u\tote\n.txt',
)
WORDS = ("alpha", "beta", "gamma", "delta", "<<<<<<< ours", "=======", "", "    indented", "epsilon\r")
Changing = dict[bytes, Content]


@dataclass(frozen=True)
class History:
    """The numbers of the commits of one history.

    Attributes:
        base: where it begins.
        ours: the tip of one side.
        theirs: the tip of the other.
        mainline: what a pick of the other side's tip needs to be told.
        ours_mainline: what a revert of this side's tip needs to be told.
    """

    base: int
    ours: int
    theirs: int
    mainline: int | None = None
    ours_mainline: int | None = None


def grow(histories: Histories, seed: int) -> History:
    """One more history."""
    random = Random(seed)  # noqa: S311  chance, not secrecy
    start = _start(random)
    base = histories.commit(start)
    shared = random.randrange(1 << 30) if random.random() < 0.4 else None
    ours = _side(histories, random, base, shared)
    theirs = _side(histories, random, base, shared)
    if random.random() < 0.3:
        ours, theirs = _crossed(histories, random, ours, theirs)
    mainlines = [1 if _merged(histories, tip) else None for tip in (theirs, ours)]
    return History(base, ours, theirs, *mainlines)


def _merged(histories: Histories, tip: int) -> bool:
    return b"\nmerge :" in histories.stream[tip - 1].partition(b"\ndeleteall")[0]


def _start(random: Random) -> Changing:
    names = [name for name in NAMES if name not in {b"dir", b"a.txt/inner"}]
    return {name: _text(random) for name in random.sample(names, random.randint(4, len(names)))}


def _text(random: Random) -> bytes:
    lines = [f"{random.choice(WORDS)} {random.randrange(5)}" for _ in range(random.randint(3, 25))]
    return ("\n".join(lines) + random.choice(("\n", "\n", ""))).encode()


def _side(histories: Histories, random: Random, base: int, shared: int | None) -> int:
    """A few commits; one of them, with the seed that is shared, changes the same on both sides."""
    tip = base
    steps = random.randint(1, 3)
    twin = random.randrange(steps) if shared is not None else -1
    for step in range(steps):
        if step == twin and shared is not None:
            tip = _commit(histories, Random(shared), tip, 1)  # noqa: S311
        tip = _commit(histories, random, tip, random.randint(0, 2) if random.random() < 0.2 else random.randint(1, 3))
    if random.random() < 0.2:
        side = _commit(histories, random, base, 1)
        files = dict(histories.files[tip])
        _put(files, b"merged.txt", b"merged\n")
        tip = histories.commit(files, tip, side)
        tip = _commit(histories, random, tip, 1) if random.random() < 0.5 else tip
    return tip


def _crossed(histories: Histories, random: Random, ours: int, theirs: int) -> tuple[int, int]:
    """Each side merges the other, and goes on."""
    ends = []
    for one, other in ((ours, theirs), (theirs, ours)):
        files = dict(histories.files[one])
        for path, content in histories.files[other].items():
            if random.random() < 0.5:
                _put(files, path, content)
        ends.append(_commit(histories, random, histories.commit(files, one, other), 1))
    return ends[0], ends[1]


def _commit(histories: Histories, random: Random, parent: int, changes: int) -> int:
    files = dict(histories.files[parent])
    for _ in range(changes):
        random.choice(CHANGES)(random, files)
    return histories.commit(files or {b"a.txt": b"left\n"}, parent)


def _put(files: Changing, path: bytes, content: Content) -> None:
    """Set a path; what stands in its way goes."""
    for other in [one for one in files if one.startswith(path + b"/") or path.startswith(one + b"/")]:
        del files[other]
    files[path] = content


def _any(random: Random, files: Files) -> bytes:
    return random.choice(sorted(files)) if files else b"a.txt"


def _edit(random: Random, files: Changing) -> None:
    path = _any(random, files)
    content = files.get(path, b"")
    if not isinstance(content, bytes):
        return
    lines = content.split(b"\n")
    at = random.randrange(len(lines))
    change = random.randrange(3)
    lines[at : at + (change != 0)] = [] if change == 1 else [f"{random.choice(WORDS)} {random.randrange(9)}".encode()]
    files[path] = b"\n".join(lines)


def _move_block(random: Random, files: Changing) -> None:
    path = _any(random, files)
    content = files.get(path, b"")
    if isinstance(content, bytes):
        lines = content.split(b"\n")
        at = random.randrange(len(lines))
        files[path] = b"\n".join(lines[at:] + lines[:at])


def _rename(random: Random, files: Changing) -> None:
    if files:
        content = files.pop(_any(random, files))
        _put(files, random.choice(NAMES), content)


def _rename_folder(random: Random, files: Changing) -> None:
    old, new = random.sample((b"dir/", b"other/", b"moved/", b"dir/sub/"), 2)
    for path in [one for one in files if one.startswith(old)]:
        _put(files, new + path.removeprefix(old), files.pop(path))


def _delete(random: Random, files: Changing) -> None:
    files.pop(_any(random, files), None)


def _add(random: Random, files: Changing) -> None:
    _put(files, random.choice(NAMES), _text(random))


def _chmod(random: Random, files: Changing) -> None:
    path = _any(random, files)
    content = files.get(path)
    if isinstance(content, bytes):
        files[path] = (RUNS, content)
    elif content and content[0] == RUNS:
        files[path] = (FILE, content[1])


def _link(random: Random, files: Changing) -> None:
    _put(files, random.choice(NAMES), (LINK, random.choice((b"a.txt", b"/etc/passwd"))))


def _module(random: Random, files: Changing) -> None:
    _put(files, random.choice((b"lib", b"dir")), (MODULE, random.choice((b"1" * 40, b"2" * 40))))


def _binary(random: Random, files: Changing) -> None:
    _put(files, random.choice(NAMES), b"\0\1\2" + random.randbytes(4))


CHANGES: tuple[Callable[[Random, Changing], None], ...] = (
    *(_edit,) * 6,
    *(_rename,) * 3,
    *(_delete,) * 2,
    *(_add,) * 2,
    _move_block,
    _rename_folder,
    _chmod,
    _link,
    _module,
    _binary,
)
