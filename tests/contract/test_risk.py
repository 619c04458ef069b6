"""What is warned of by its path alone, and paths that cannot be together."""

import time

import pytest

from service.contract.changes import ChangedFile
from service.contract.data import Entry
from service.contract.placing import crossed
from service.contract.risk import path_warnings
from service.contract.world import Store


def kinds(path: bytes) -> list[str]:
    return [note.params["kind"] for note in path_warnings(path) if note.code == "runs_or_redirects"]


@pytest.mark.parametrize(
    "path",
    [
        *(b".gitmodules", b"a/b/.gitmodules", b".GITMODULES", b".gitmodules.", b".gitmodules ", b".gitmodules:x"),
        *(
            b"a\\.gitmodules",
            b"gitmod~1",
            b"GI7EBA~1",
            b"gi7eb~10",
            ".git\u200cmodules".encode(),
            b".claude/.gitmodules",
        ),
    ],
)
def test_what_passes_for_the_settings_of_submodules_redirects(path: bytes) -> None:
    assert kinds(path) == ["submodules"]


@pytest.mark.parametrize("path", [b"gitmodules", b".gitmodules/x", b".gitmodules.txt", b"github~1", b"\xff.gitmodules"])
def test_what_only_looks_like_it_does_not(path: bytes) -> None:
    assert kinds(path) == []


class _Nothing:
    def blob(self, _oid: str) -> bytes:
        return b""


def test_a_file_that_is_moved_away_is_warned_of_where_it_was() -> None:
    entry = Entry(mode=0o100644, oid="1" * 40)
    store: Store = _Nothing()  # type: ignore[assignment]
    found = ChangedFile(b"x", entry, entry, b".gitmodules").warnings(store)
    assert [note.name for note in found] == ["runs_or_redirects:.gitmodules"]


def test_thousands_of_deep_paths_are_compared_at_once() -> None:
    paths = [b"/".join([b"d%d" % number, *[b"a"] * 30]) for number in range(10_000)]
    before = time.process_time()
    assert list(crossed(paths)) == []
    assert [note.at for note in crossed([*paths[:3], b"D1/a", b"d2/a"])] == ["d2/" + "a/" * 29 + "a", "D1/a"]
    assert time.process_time() - before < 30
