"""Names that pass for another one beside them are told of with that one, whatever brings them."""

from pathlib import Path
from typing import Any

import pytest

from service.contract.data import Json
from service.contract.twins import skeleton
from service.proposals.planning import Planned, load_card
from tests.planned import Bench
from tests.stage import REGISTRY, git

OPERATIONS = REGISTRY.operations()
CYRILLIC = "\u0430dmin.py"
BASE = {
    "admin.py": ("100644", b"a\n"),
    "src/paypal.py": ("100644", b"p\n"),
    "README": ("100644", b"r\n"),
    "caf\u00e9/x": ("100644", b"x\n"),
}


@pytest.fixture(scope="module", name="bench")
def bench_fixture(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench.made(tmp_path_factory.mktemp("twins"), OPERATIONS["propose_file_import"], BASE)


def imports(bench: Bench, *files: Json) -> Planned:
    return bench.plan(bench.ask({"message": "Change files", "files": list(files)}))


def alike(planned: Planned) -> list[tuple[str, Any, Any]]:
    found = [note for note in load_card(planned.card).warnings if note.code == "looks_alike"]
    return [(note.at, note.params["other"], note.params["how"]) for note in found]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("admin", "\u0430dmin"),
        ("paypal", "\u0440\u0430\u0443\u0440\u0430l"),
        ("paypal", "paypa1"),
        ("modern", "modem"),
        ("file", "\uff46ile"),
        ("scope", "\u0455\u0441\u043e\u0440\u0435"),
        ("a", "a\u200b"),
        ("x", "\U0001d431"),
    ],
)
def test_what_looks_alike_has_one_skeleton(one: str, other: str) -> None:
    assert skeleton(one) == skeleton(other)


@pytest.mark.parametrize(("one", "other"), [("a", "b"), ("na\u00efve", "naive"), ("README", "readme"), ("n", "m")])
def test_what_looks_otherwise_has_another(one: str, other: str) -> None:
    assert skeleton(one) != skeleton(other)


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ([{"path": CYRILLIC, "content": "x\n"}], [(CYRILLIC, "admin.py", "letters")]),
        ([{"path": CYRILLIC, "from_path": "admin.py", "action": "rename"}], [(CYRILLIC, "admin.py", "letters")]),
        ([{"path": "src/paypa1.py", "content": "x\n"}], [("src/paypa1.py", "src/paypal.py", "letters")]),
        ([{"path": "\u0455rc/x.py", "content": "x\n"}], [("\u0455rc", "src", "letters")]),
        (
            [{"path": "new/l.py", "content": "x\n"}, {"path": "new/1.py", "content": "x\n"}],
            [("new/l.py", "new/1.py", "letters")],
        ),
        ([{"path": "paypa1.py", "content": "x\n"}], []),
        ([{"path": "src/paypal.py", "content": "x\n", "action": "update"}], []),
    ],
)
def test_a_new_name_is_compared_with_those_beside_it(bench: Bench, files: list[Json], found: object) -> None:
    assert alike(imports(bench, *files)) == found


def side(bench: Bench, path: str, branch: str) -> None:
    head = f"commit refs/heads/{branch}\ncommitter C <c@example.org> 1 +0000\ndata 0\n\nfrom refs/heads/main\n"
    git(bench.path, "fast-import", "--quiet", stdin=f'{head}M 100644 inline "{path}"\ndata 2\nx\n\n'.encode())


@pytest.mark.parametrize(
    ("path", "at", "other", "how"),
    [
        ("readme", "readme", "README", "case"),
        ("cafe\u0301/y", "cafe\u0301", "caf\u00e9", "form"),
        (CYRILLIC, CYRILLIC, "admin.py", "letters"),
    ],
)
@pytest.mark.parametrize("kind", ["propose_merge", "propose_cherry_pick"])
def test_what_a_merge_or_a_pick_brings_is_compared_too(
    bench: Bench, tmp_path: Path, path: str, at: str, other: str, how: str, kind: str
) -> None:
    copy = bench.copy(tmp_path)
    side(copy, path, "side")
    tries = Bench(copy.path, OPERATIONS[kind])
    sent = {"source": "side"} if kind == "propose_merge" else {"commits": [copied(copy, "side")]}
    assert alike(tries.plan(tries.ask(sent))) == [(at, other, how)]


def copied(bench: Bench, branch: str) -> str:
    return git(bench.path, "rev-parse", branch).decode().strip()


@pytest.mark.parametrize("name", ["ReadMe", "readme"])
def test_a_name_that_changes_its_case_passes_for_no_other(bench: Bench, tmp_path: Path, name: str) -> None:
    copy = bench.copy(tmp_path)
    patches = Bench(copy.path, OPERATIONS["propose_patch"])
    patch = f"diff --git a/README b/{name}\nsimilarity index 100%\nrename from README\nrename to {name}\n"
    assert alike(patches.plan(patches.ask({"message": "Rename", "patch": patch}))) == []
