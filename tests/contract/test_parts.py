"""What is chosen of a change is exactly that, byte for byte, whatever the texts look like and what hangs together."""

from collections.abc import Collection, Mapping
from pathlib import Path
from random import Random

import pytest

from service.contract.data import Entry, Oid
from service.contract.parts import PARTS_MOST, Part, choose, divide, is_one_commit, left_out, part_section
from service.contract.plan import MoveRef, Note, Plan, ReviewCard
from service.kit.errors import Code, Refusal
from service.repositories.staging import Staging
from tests.stage import make_repository

AUTHOR = b"Claude (conn-1) <conn-1@localhost> 1700000000 +0000"
ENDS = (b"\n", b"\r\n", b"\r\r\n", b" \n")
Files = Mapping[str, bytes | tuple[int, bytes]]


@pytest.fixture
def store(tmp_path: Path) -> Staging:
    make_repository(tmp_path / "r.git", None)
    return Staging(tmp_path / "r.git", AUTHOR)


def tree(store: Staging, files: Files) -> Oid:
    entries = {}
    for path, given in files.items():
        mode, content = given if isinstance(given, tuple) else (0o100644, given)
        entries[path.encode()] = Entry(mode=mode, oid=store.put(content))
    return store.edit(None, entries)


def change(store: Staging, before: Files, after: Files) -> Plan:
    base = store.draft((), tree(store, before), b"Begin")
    new = store.draft((base.id,), tree(store, after), b"Change")
    return Plan(kinds=("x",), build=(new,), effects=(MoveRef(ref="refs/heads/main", old=base.id, new=new.id),))


def content(store: Staging, plan: Plan) -> dict[str, tuple[int, bytes]]:
    found = store.changes(None, plan.commits[0].tree)
    return {one.path.decode(): (one.new.mode, store.blob(one.new.oid)) for one in found if one.new}


def text_of(chance: Random) -> tuple[list[tuple[bytes, bytes]], bytes]:
    """A text in pieces that change, each with what it becomes; between them lines that stay, each unlike any other."""
    pieces: list[tuple[bytes, bytes]] = []
    for number in range(chance.randint(2, 7)):
        old, new = (
            b"".join(b"%s %d %d%s" % (side, number, line, chance.choice(ENDS)) for line in range(chance.randint(0, 3)))
            for side in (b"old", b"new")
        )
        pieces.append((old, new) if old or new else (b"", b"new %d\n" % number))
    return pieces, chance.choice((b"last\n", b"last", b""))


def joined(pieces: Collection[tuple[bytes, bytes]], taken: Collection[int], last: bytes) -> bytes:
    whole = b"".join(b"stays %d\n%s" % (number, piece[number in taken]) for number, piece in enumerate(pieces))
    return whole + last


@pytest.mark.parametrize("seed", range(60))
def test_each_group_of_lines_is_taken_or_left_with_every_byte_of_it(store: Staging, seed: int) -> None:
    chance = Random(seed)  # noqa: S311  no secret comes of it
    pieces, last = text_of(chance)
    every = range(len(pieces))
    plan = change(store, {"a": joined(pieces, (), last)}, {"a": joined(pieces, every, last)})
    [part] = divide(store, plan, {})
    assert len(part.hunks) == len(pieces)
    for _ in range(5):
        taken = chance.sample(every, chance.randint(1, len(pieces) - 1))
        chosen = choose(store, plan, [part], [part.hunks[one].id for one in taken])
        assert content(store, chosen)["a"][1] == joined(pieces, taken, last)


@pytest.mark.parametrize(
    ("old", "new", "results"),
    [
        (b"a\nb\nc", b"A\nb\nc\n", {b"A\nb\nc", b"a\nb\nc\n"}),
        (b"a\nb\nc\n", b"A\nb\nc", {b"A\nb\nc\n", b"a\nb\nc"}),
        (b"a\nb\nc", b"A\nb\nc\nd", {b"A\nb\nc", b"a\nb\nc\nd"}),
        (b"a\r\nb\nc\r\n", b"a\nb\nc\n", {b"a\nb\nc\r\n", b"a\r\nb\nc\n"}),
        (b"a\nb\nc\n", b"b\n", {b"b\nc\n", b"a\nb\n"}),
        (b"\xff\nb\n\xfe", b"\xfd\nb\n\xfc", {b"\xfd\nb\n\xfe", b"\xff\nb\n\xfc"}),
    ],
)
def test_line_ends_and_a_missing_last_one_belong_to_the_lines_that_have_them(
    store: Staging, old: bytes, new: bytes, results: set[bytes]
) -> None:
    plan = change(store, {"a": old}, {"a": new})
    parts = divide(store, plan, {})
    assert {content(store, choose(store, plan, parts, [one]))["a"][1] for one in parts[0].ids} == results


TEXT, OTHER = b"1\n2\n3\n4\n", b"1!\n2\n3\n4!\n"


@pytest.mark.parametrize(
    ("before", "after", "renames", "parts"),
    [
        ({"a": TEXT}, {"a": OTHER}, {}, [["1.1", "1.2"]]),
        ({"a": TEXT}, {"a": (0o100755, OTHER)}, {}, []),
        ({"a": TEXT}, {"b": OTHER}, {b"b": b"a"}, []),
        ({"a": b"\0" + TEXT}, {"a": b"\0" + OTHER}, {}, []),
        ({"a": TEXT}, {"a": b"1!\n2\n3\n4\n"}, {}, []),
        ({"a": (0o120000, TEXT)}, {"a": (0o120000, OTHER)}, {}, []),
        ({"a": TEXT, "b": b"b"}, {"a": OTHER, "c": b"b"}, {b"c": b"b"}, [["1.1", "1.2"], ["2"]]),
        ({"a": b"a"}, {"a/x": b"x", "a/y": b"y", "z": b"z"}, {}, [["1"], ["2"]]),
        ({"a/x": b"x", "a/y": b"y"}, {"a": b"a", "z": b"z"}, {}, [["1"], ["2"]]),
        ({"Docs/x": b"x"}, {"docs/y": b"y", "z": b"z"}, {}, [["1"], ["2"]]),
        ({"read.md": b"x"}, {"READ.md": b"y", "z": b"z"}, {}, [["1"], ["2"]]),
        ({"d/a": b"a"}, {"d/b": b"b"}, {}, [["1"], ["2"]]),
        ({"a": b"a", "b": b"b"}, {"a": b"b", "b": b"a"}, {b"a": b"b", b"b": b"a"}, [["1"], ["2"]]),
        ({"a": b"a"}, {"a": b"new", "b": b"a"}, {b"b": b"a"}, [["1"], ["2"]]),
        ({"a": b"a"}, {"b": b"a", "c": b"a"}, {b"b": b"a", b"c": b"a"}, []),
    ],
)
def test_what_only_stands_together_is_chosen_together(
    store: Staging, before: Files, after: Files, renames: dict[bytes, bytes], parts: list[list[str]]
) -> None:
    plan = change(store, before, after)
    assert is_one_commit(plan)
    found = divide(store, plan, renames)
    assert [list(one.ids) for one in found] == parts
    for part in found if len(found) > 1 else ():
        others = [one.id for one in found if one != part]
        chosen, left = (content(store, choose(store, plan, found, keep)) for keep in ([part.id], others))
        was, becomes = content(store, base_of(store, plan)), content(store, plan)
        for path in paths_of(part):
            assert (chosen.get(path), left.get(path)) == (becomes.get(path), was.get(path))


def base_of(store: Staging, plan: Plan) -> Plan:
    """The plan that does nothing."""
    new = store.draft(plan.commits[0].parents, store.commit(plan.effects[0].old).tree, b"")
    return plan.model_copy(update={"build": (new,)})


def paths_of(part: Part) -> set[str]:
    return {file.path.decode() for file in part.files}


def test_what_was_left_out_is_told_by_path_and_lines(store: Staging) -> None:
    plan = change(store, {"a": TEXT, "\u202eb": b"b"}, {"a": OTHER, "c": b"c"})
    parts = divide(store, plan, {})
    section = part_section("the-whole", parts, ["1.2"])
    card = ReviewCard(headline=Note(code="x"), agent_words={}, sections=(section,), warnings=())
    assert left_out(card) == [
        {"path": "a", "hunks": [[1, 1, 1, 1]]},
        {"path": "c"},
        {"path": '"\\342\\200\\256b"'},
    ]


def test_what_is_too_much_to_choose_from_is_taken_whole(store: Staging) -> None:
    lines = [b"%d\n" % number for number in range(2 * PARTS_MOST)]
    many = b"".join(line if number % 2 else b"x" + line for number, line in enumerate(lines))
    plan = change(store, {"a": b"".join(lines), "b": TEXT}, {"a": many, "b": OTHER})
    assert [list(one.ids) for one in divide(store, plan, {})] == [["1"], ["2.1", "2.2"]]
    names = [f"{number:04}" for number in range(PARTS_MOST + 1)]
    assert divide(store, change(store, {"z": b"z"}, {"z": b"z", **dict.fromkeys(names, b"x")}), {}) == ()
    most = divide(store, change(store, {"z": b"z"}, {"z": b"z", **dict.fromkeys(names[1:], b"x")}), {})
    assert len(most) == PARTS_MOST


@pytest.mark.parametrize("keep", [[], ["1", "2"], ["1.1", "1.2", "2"], ["3"], ["2.1"], ["1.1", ""], ["01"]])
def test_nothing_everything_and_what_is_no_part_are_refused(store: Staging, keep: list[str]) -> None:
    plan = change(store, {"a": TEXT}, {"a": OTHER, "b": b"b"})
    with pytest.raises(Refusal) as refused:
        choose(store, plan, divide(store, plan, {}), keep)
    known = set(keep) <= {"1", "2", "1.1", "1.2"}
    assert refused.value.code is (Code.CHOOSE_SOME if known else Code.INVALID_ARGUMENT)
    assert refused.value.details["field"] == "keep"
