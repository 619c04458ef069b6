"""The reading tools on real repositories: every view, every limit, and walks that lose and repeat nothing."""

import base64
import json
import os
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import insert

from service.contract.paging import ANSWER_BYTES
from service.grants.manage import add_repository
from service.grants.tables import connection_repository
from service.kit.actor import system
from service.kit.errors import Code, Refusal
from service.repositories import snapshot
from service.tools.registry import discover
from tests.stage import House, Stage, git

pytestmark = pytest.mark.anyio
REGISTRY = discover()
README = b"# Orchard\n\nApples.\n"


async def call(house: House, name: str, /, **arguments: Any) -> dict[str, Any]:
    """A tool's answer as JSON; no answer is larger than the limit."""
    entry = REGISTRY.find(name)
    assert entry is not None
    answer = await entry.call(arguments, house.stage.ports(house.agent))
    found: dict[str, Any] = answer.model_dump(mode="json", exclude_none=True)
    assert len(json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode()) <= ANSWER_BYTES
    return found


async def read(house: House, view: str, **arguments: Any) -> dict[str, Any]:
    return await call(house, "read_repository", repository_id=str(house.repository), view=view, **arguments)


async def search(house: House, text: str, **arguments: Any) -> dict[str, Any]:
    return await call(house, "search_code", repository_id=str(house.repository), text=text, **arguments)


async def walk(ask: Callable[..., Any], pick: Callable[[dict[str, Any]], list[Any]], **arguments: Any) -> list[Any]:
    """All items of all pages."""
    page = await ask(**arguments)
    items = pick(page)
    while "next_cursor" in page:
        page = await ask(**arguments, cursor=page["next_cursor"])
        assert pick(page), "a page after the first has something"
        items += pick(page)
    return items


async def refused(work: Any) -> Refusal:
    with pytest.raises(Refusal) as found:
        await work
    return found.value


def fill(house: House, *entries: tuple[str, str, bytes], message: str = "Fill", ref: str = "refs/heads/main") -> str:
    """A commit with these entries (mode, content or id, raw path), as stock git makes it."""
    lines = b""
    for mode, content, path in entries:
        is_id = mode in {"160000", "040000"}
        oid = content if is_id else git(house.path, "hash-object", "-w", "--stdin", stdin=content.encode()).decode()
        lines += f"{mode} {oid.strip()}\t".encode() + path + b"\0"
    (house.path / "index").unlink(missing_ok=True)
    git(house.path, "update-index", "-z", "--index-info", stdin=lines)
    tree = git(house.path, "write-tree").decode().strip()
    parent = ("-p", house.head()) if house.head() != "0" * 40 else ()
    commit = git(house.path, "commit-tree", tree, *parent, "-m", message).decode().strip()
    git(house.path, "update-ref", ref, commit)
    return commit


class TestOverview:
    async def test_an_overview_shows_what_one_needs_to_begin(self, stage: Stage) -> None:
        house = await stage.house({"README.md": README, "src/app.py": b"x = 1\n"})
        git(house.path, "branch", "side", "main")
        git(house.path, "tag", "v1", "main")
        git(house.path, "tag", "-a", "-m", "Two", "v2", "main")
        answer = await read(house, "overview")
        overview = answer["overview"]
        assert answer["empty"] is False
        assert answer["provenance"] == {
            "origin": "repository",
            "repository_id": str(house.repository),
            "repository": "storefront",
            "ref": "main",
            "commit": house.head(),
        }
        assert overview["default_branch"] == "main"
        assert [one["name"] for one in overview["branches"]] == ["main", "side"]
        assert overview["branch_count"] == 2
        assert overview["tags"] == [{"name": name, "commit": house.head()} for name in ("v1", "v2")]
        assert overview["commits"] == [
            {
                "commit": house.head(),
                "author": "Original <original@example.org>",
                "date": "2023-11-14T22:13:20+00:00",
                "subject": "First",
            }
        ]
        assert [(one["path"], one["kind"]) for one in overview["entries"]] == [
            ("README.md", "file"),
            ("src", "directory"),
        ]
        assert overview["readme"] == {"path": "README.md", "text": README.decode(), "truncated": False}

    @pytest.mark.parametrize("view", ["overview", "tree", "file"])
    @pytest.mark.parametrize("ref", [None, "main"])
    async def test_an_empty_repository_is_empty_and_no_error(self, stage: Stage, view: str, ref: str | None) -> None:
        house = await stage.house(None)
        given = {key: value for key, value in {"ref": ref, "path": "a" if view == "file" else None}.items() if value}
        answer = await read(house, view, **given)
        assert answer["empty"] is True
        assert "commit" not in answer["provenance"]
        assert "next_cursor" not in answer
        assert (await search(house, "x"))["matches"] == []

    async def test_a_large_history_stays_within_the_limit(self, stage: Stage) -> None:
        house = await stage.house(None)
        long = "ä" * 5_000
        fill(
            house,
            ("100644", "\u0001" * 300_000, b"README"),
            *(("100644", "x", f"{n}-{'n' * 200}".encode()) for n in range(300)),
        )
        for number in range(10):
            fill(house, ("100644", str(number), b"n"), message=long)
        moves = "".join(f"create refs/heads/{n}-{'b' * 180} {house.head()}\n" for n in range(1_200))
        git(house.path, "update-ref", "--stdin", stdin=moves.encode())
        fill(
            house,
            ("100644", "\u0001" * 300_000, b"README"),
            *(("100644", "x", f"{n}-{'n' * 200}".encode()) for n in range(300)),
        )
        overview = (await read(house, "overview"))["overview"]
        assert overview["branch_count"] == 1_000
        assert overview["entries_truncated"] is True
        assert overview["readme"]["truncated"] is True
        assert all(len(one["subject"]) <= 200 for one in overview["commits"])

    async def test_odd_names_and_broken_identities_are_shown_and_readable(self, stage: Stage) -> None:
        house = await stage.house(None)
        fill(house, ("100644", "odd\n", b"a\xff\nb"), ("100644", "twin\n", b"%2e%2e"))
        git(house.path, "update-ref", os.fsdecode(b"refs/heads/\xe9t\xe9"), house.head())
        tree = git(house.path, "rev-parse", "main^{tree}").decode().strip()
        raw = f"tree {tree}\nauthor nobody\ncommitter x <y> 99999999999999999999 +0000\n\n".encode() + b"\xff\n"
        commit = (
            git(house.path, "hash-object", "-t", "commit", "-w", "--literally", "--stdin", stdin=raw).decode().strip()
        )
        git(house.path, "update-ref", "refs/heads/main", commit)
        overview = (await read(house, "overview"))["overview"]
        assert overview["commits"] == [{"commit": commit, "author": "nobody", "subject": "\ufffd"}]
        names = [one["path"] for one in overview["entries"]]
        assert names == ["%2e%2e", '"a\\377\\nb"']
        contents = [(await read(house, "file", path=name))["file"]["content"] for name in names]
        assert contents == ["twin\n", "odd\n"]
        odd = overview["branches"][1]["name"]
        assert odd == '"\\351t\\351"'
        assert (await read(house, "tree", ref=odd))["tree"]["entries"]


async def test_a_repository_begun_on_another_branch_is_read_there(stage: Stage) -> None:
    house = await stage.house(None)
    fill(house, ("100644", "a\n", b"a.txt"), ref="refs/heads/trunk")
    seen = await read(house, "overview")
    assert seen["overview"]["default_branch"] == "trunk"
    assert [one["path"] for one in seen["overview"]["entries"]] == ["a.txt"]


class TestRefs:
    async def test_a_branch_a_tag_and_a_commit_id_lead_to_their_commits(self, stage: Stage) -> None:
        house = await stage.house()
        first = house.head()
        git(house.path, "tag", "old", first)
        fill(house, ("100644", "2", b"two"))
        refs = {
            "main": house.head(),
            "old": first,
            "refs/tags/old": first,
            first: first,
            "refs/heads/main": house.head(),
        }
        for ref, commit in refs.items():
            assert (await read(house, "overview", ref=ref))["provenance"]["commit"] == commit

    async def test_a_branch_that_looks_like_a_commit_id_hides_no_commit(self, stage: Stage) -> None:
        house = await stage.house()
        first = house.head()
        second = fill(house, ("100644", "2", b"two"))
        git(house.path, "update-ref", f"refs/heads/{first}", second)
        assert (await read(house, "overview", ref=first))["provenance"]["commit"] == first

    @pytest.mark.parametrize(
        ("ref", "code"),
        [
            ("HEAD~1", Code.REF_REJECTED),
            ("main..x", Code.REF_REJECTED),
            ("@{-1}", Code.REF_REJECTED),
            (":/First", Code.REF_REJECTED),
            ("--all", Code.REF_REJECTED),
            ("refs/proposals/x", Code.REF_REJECTED),
            ("", Code.REF_REJECTED),
            ("absent", Code.NOT_FOUND),
            ("abc1234", Code.NOT_FOUND),
            ("f" * 40, Code.NOT_FOUND),
        ],
    )
    async def test_no_expression_is_a_ref_and_an_absent_one_is_not_found(
        self, house: House, ref: str, code: Code
    ) -> None:
        for work in (read(house, "overview", ref=ref), search(house, "x", ref=ref)):
            refusal = await refused(work)
            assert (refusal.code, refusal.details["field"]) == (code, "ref")

    async def test_a_tree_or_blob_id_is_no_commit(self, house: House) -> None:
        for name in ("main^{tree}", "main:app.py"):
            oid = git(house.path, "rev-parse", name).decode().strip()
            assert (await refused(read(house, "tree", ref=oid))).code is Code.NOT_FOUND


class TestTree:
    async def test_entries_are_named_for_what_they_are_and_never_followed(self, stage: Stage) -> None:
        house = await stage.house(None)
        fill(
            house,
            ("100644", "x", b"dir/file"),
            ("100755", "x", b"run"),
            ("120000", "/etc/passwd", b"link"),
            ("160000", "1" * 40, b"sub"),
        )
        listed = (await read(house, "tree"))["tree"]["entries"]
        kinds = {one["path"]: (one["kind"], one["mode"], one.get("size")) for one in listed}
        assert kinds == {
            "dir": ("directory", "040000", None),
            "link": ("symlink", "120000", 11),
            "run": ("file", "100755", 1),
            "sub": ("submodule", "160000", None),
        }
        assert (await read(house, "file", path="link"))["file"]["content"] == "/etc/passwd"
        assert "content" not in (await read(house, "file", path="sub"))["file"]
        assert (await refused(read(house, "tree", path="link"))).details["field"] == "path"
        assert (await refused(read(house, "file", path="dir"))).details["field"] == "path"
        assert (await refused(read(house, "file", path="link/passwd"))).code is Code.NOT_FOUND

    async def test_5000_files_are_each_listed_once(self, stage: Stage) -> None:
        house = await stage.house(None)
        blob = git(house.path, "hash-object", "-w", "--stdin").decode().strip()
        paths = [f"{number % 7}/{number % 3}/{number}.txt" for number in range(5_000)]
        git(house.path, "update-index", "--index-info", stdin="".join(f"100644 {blob}\t{p}\n" for p in paths).encode())
        tree = git(house.path, "write-tree").decode().strip()
        git(
            house.path,
            "update-ref",
            "refs/heads/main",
            git(house.path, "commit-tree", tree, "-m", "x").decode().strip(),
        )

        async def ask(**more: Any) -> dict[str, Any]:
            return await read(house, "tree", recursive=True, **more)

        found = await walk(ask, lambda page: [one["path"] for one in page["tree"]["entries"]])
        assert found == sorted(paths)

    @pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 20, 21])
    async def test_a_walk_is_whole_at_any_size(self, stage: Stage, count: int) -> None:
        house = await stage.house(None)
        fill(house, ("100644", "x", b"z"), *(("100644", "x", f"d/{n:03}".encode()) for n in range(count)))
        if count == 0:
            assert (await refused(read(house, "tree", path="d"))).code is Code.NOT_FOUND
            return

        async def ask(**more: Any) -> dict[str, Any]:
            return await read(house, "tree", path="d", limit=10, **more)

        found = await walk(ask, lambda page: [one["path"] for one in page["tree"]["entries"]])
        assert found == [f"d/{n:03}" for n in range(count)]

    async def test_a_walk_stays_at_its_commit_when_the_branch_moves(self, stage: Stage) -> None:
        house = await stage.house(None)
        fill(house, *(("100644", "x", f"{n:03}".encode()) for n in range(4)))
        page = await read(house, "tree", limit=2)
        fill(house, ("100644", "x", b"000a"), ("100644", "x", b"002a"))
        rest = await read(house, "tree", limit=2, cursor=page["next_cursor"])
        assert [one["path"] for one in rest["tree"]["entries"]] == ["002", "003"]
        assert rest["provenance"]["commit"] == page["provenance"]["commit"]

    async def test_long_names_do_not_break_the_limit(self, stage: Stage) -> None:
        house = await stage.house(None)
        folder = "/".join("ä" * 120 for _ in range(15))
        paths = [f"{folder}/{number:03}-{'ä' * 100}" for number in range(40)]
        fill(house, *(("100644", "x", path.encode()) for path in paths))

        async def ask(**more: Any) -> dict[str, Any]:
            return await read(house, "tree", recursive=True, **more)

        assert await walk(ask, lambda page: [one["path"] for one in page["tree"]["entries"]]) == paths

    async def test_a_cursor_serves_no_other_question(self, stage: Stage, neighbour: House) -> None:
        house = await stage.house(None)
        fill(house, *(("100644", "x", f"{n}".encode()) for n in range(3)))
        cursor = (await read(house, "tree", limit=1))["next_cursor"]
        for work in (
            read(house, "tree", recursive=True, cursor=cursor),
            read(house, "file", path="1", cursor=cursor),
            search(house, "x", cursor=cursor),
            call(house, "list_repositories", cursor=cursor),
            read(neighbour, "tree", limit=1, cursor=cursor),
            read(house, "tree", cursor=cursor[:-1]),
        ):
            assert (await refused(work)).code is Code.INVALID_CURSOR


class TestFile:
    async def test_lines_are_numbered_from_one_and_the_last_is_included(self, stage: Stage) -> None:
        house = await stage.house({"f": b"1\n2\r\n3\n4"})
        whole = (await read(house, "file", path="f"))["file"]
        assert whole["content"] == "1\n2\r\n3\n4"
        assert (whole["start_line"], whole["end_line"], whole["line_count"], whole["size"]) == (1, 4, 4, 8)
        cases = {(2, 3): "2\r\n3\n", (4, 4): "4", (3, 99): "3\n4", (5, 9): "", (1, 1): "1\n"}
        for (start, end), content in cases.items():
            piece = (await read(house, "file", path="f", start_line=start, end_line=end))["file"]
            assert (piece["content"], piece["truncated"]) == (content, False)
            assert piece.get("end_line") == (min(end, 4) if content else None)

    async def test_an_empty_file_has_no_lines(self, stage: Stage) -> None:
        house = await stage.house({"f": b""})
        piece = (await read(house, "file", path="f"))["file"]
        assert (piece["content"], piece["line_count"], piece["truncated"]) == ("", 0, False)
        assert "end_line" not in piece

    @pytest.mark.parametrize(
        "content",
        [
            "a" * 400_000,
            "ä€😀" * 40_000 + "\n",
            '"\\\t\u0001' * 20_000,
            "".join(f"line {number}\n" for number in range(30_000)),
            "x\r\n" * 50_000 + "y" * 100_000 + "\nend",
            "\n" * 150_000,
        ],
        ids=["one-line", "wide", "escapes", "lines", "mixed", "breaks"],
    )
    async def test_pieces_put_together_are_the_file(self, stage: Stage, content: str) -> None:
        house = await stage.house({"f": content.encode()})

        async def ask(**more: Any) -> dict[str, Any]:
            return await read(house, "file", path="f", **more)

        pieces = await walk(ask, lambda page: [page["file"]])
        assert "".join(one["content"] for one in pieces) == content
        assert [one["truncated"] for one in pieces] == [True] * (len(pieces) - 1) + [False]
        seen = ""
        for one in pieces:
            assert one["start_line"] == seen.count("\n") + 1
            assert one["starts_within_line"] == bool(seen and not seen.endswith("\n"))
            seen += one["content"]
            assert one["end_line"] == seen.count("\n") + (not seen.endswith("\n"))

    async def test_a_range_in_a_long_file_is_read_to_its_end_and_no_further(self, stage: Stage) -> None:
        content = "".join(f"line {number}\n" for number in range(1, 30_001))
        house = await stage.house({"f": content.encode()})

        async def ask(**more: Any) -> dict[str, Any]:
            return await read(house, "file", path="f", start_line=5_000, end_line=20_000, **more)

        pieces = await walk(ask, lambda page: [page["file"]["content"]])
        assert "".join(pieces) == "".join(f"line {number}\n" for number in range(5_000, 20_001))

    @pytest.mark.parametrize("size", [1, 35_999, 36_000, 36_001, 72_000, 100_000])
    async def test_content_that_is_no_text_comes_as_base64_in_pieces(self, stage: Stage, size: int) -> None:
        content = (b"\x89PNG\0\xff" * size)[:size]
        house = await stage.house({"p.png": content})

        async def ask(**more: Any) -> dict[str, Any]:
            return await read(house, "file", path="p.png", **more)

        pieces = await walk(ask, lambda page: [page["file"]])
        assert {one["encoding"] for one in pieces} == {"base64"}
        assert b"".join(base64.b64decode(one["content"]) for one in pieces) == content
        assert pieces[0]["size"] == size

    async def test_a_file_beyond_the_limit_is_not_read(self, stage: Stage) -> None:
        house = await stage.house({"big": b"x" * 10_000_001})
        refusal = await refused(read(house, "file", path="big"))
        assert (refusal.details["limit"], refusal.details["value"]) == (10_000_000, 10_000_001)
        assert (await read(house, "tree"))["tree"]["entries"][0]["size"] == 10_000_001

    @pytest.mark.parametrize(
        "path", ["", "../x", "/etc/passwd", "a//b", "./a", ".git/config", "a/..", "x/.GIT/y", "a/"]
    )
    async def test_paths_that_no_tree_can_hold_are_refused(self, house: House, path: str) -> None:
        for work in (read(house, "file", path=path), read(house, "tree", path=path), search(house, "x", path=path)):
            refusal = await refused(work)
            assert (refusal.code, refusal.details["field"]) == (Code.PATH_REJECTED, "path")

    @pytest.mark.parametrize(
        ("view", "given", "field"),
        [
            ("file", {}, "path"),
            ("file", {"path": "app.py", "recursive": True}, "recursive"),
            ("file", {"path": "app.py", "limit": 5}, "limit"),
            ("file", {"path": "app.py", "start_line": 3, "end_line": 2}, "end_line"),
            ("file", {"path": "app.py", "start_line": 0}, "start_line"),
            ("file", {"path": "app.py", "end_line": 10**10}, "end_line"),
            ("tree", {"start_line": 2}, "start_line"),
            ("tree", {"limit": 0}, "limit"),
            ("tree", {"limit": -1}, "limit"),
            ("tree", {"limit": 10**9}, "limit"),
            ("overview", {"path": "app.py"}, "path"),
            ("everything", {}, "view"),
        ],
    )
    async def test_arguments_that_do_not_fit_are_refused_by_name(
        self, house: House, view: str, given: dict[str, Any], field: str
    ) -> None:
        refusal = await refused(read(house, view, **given))
        assert (refusal.code, refusal.details["field"]) == (Code.INVALID_ARGUMENT, field)

    async def test_arguments_of_another_view_may_be_there_with_their_defaults(self, house: House) -> None:
        given = {"recursive": False, "start_line": 1, "end_line": None, "cursor": None}
        assert (await read(house, "overview", **given))["overview"]


class TestSearch:
    @pytest.fixture(autouse=True)
    def there_is_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """What is found is asked here, not how quickly; that a search ends in time is tried elsewhere."""
        monkeypatch.setattr(snapshot, "SECONDS", 60.0)

    async def test_a_fixed_string_is_found_letter_by_letter(self, stage: Stage) -> None:
        house = await stage.house({"a/x.py": b"foo(.*)\nFOO\n", "b.py": b"foo()\n", "bin": b"foo(.*)\0"})
        found = (await search(house, "foo(.*)"))["matches"]
        assert found == [{"path": "a/x.py", "line": 1, "text": "foo(.*)"}]
        assert len((await search(house, "foo", ignore_case=True))["matches"]) == 3
        assert [one["path"] for one in (await search(house, "foo", path="a"))["matches"]] == ["a/x.py"]
        assert (await search(house, "absent"))["matches"] == []
        assert (await refused(search(house, "foo", path="no"))).code is Code.NOT_FOUND

    @pytest.mark.parametrize(("limit", "lines"), [(1, 1), (7, 3), (10, 3), (100, 100)])
    async def test_hits_are_each_found_once_also_at_an_exact_multiple(
        self, stage: Stage, limit: int, lines: int
    ) -> None:
        files = {f"d/{number}.txt": b"needle here\n" * lines for number in range(10)}
        house = await stage.house(files)

        async def ask(**more: Any) -> dict[str, Any]:
            return await search(house, "needle", limit=limit, **more)

        found = await walk(ask, lambda page: [(one["path"], one["line"]) for one in page["matches"]])
        assert found == [(path, line) for path in sorted(files) for line in range(1, lines + 1)]

    async def test_long_lines_are_cut_and_said_to_be(self, stage: Stage) -> None:
        house = await stage.house({f"{n}": b"needle" + b"\x01" * 5_000 + b"\n" for n in range(60)})

        async def ask(**more: Any) -> dict[str, Any]:
            return await search(house, "needle", limit=100, **more)

        found = await walk(ask, lambda page: [one["text"] for one in page["matches"]])
        assert [len(one) for one in found] == [500] * 60

    @pytest.mark.parametrize("text", ["", "a\nb", "a\rb", "x" * 201, "a\u0007"])
    async def test_a_text_that_no_line_holds_is_refused(self, house: House, text: str) -> None:
        assert (await refused(search(house, text))).details["field"] == "text"

    @pytest.mark.parametrize("text", ["--all", "-e", ":(top)", "\\", "*", "$(id)", "ä", "a\tb"])
    async def test_no_text_is_an_option_or_a_pattern(self, stage: Stage, text: str) -> None:
        house = await stage.house({"f": f"has {text} in it\nnot\n".encode()})
        assert [one["line"] for one in (await search(house, text))["matches"]] == [1]

    @pytest.mark.parametrize("path", [":(top)f", ":!f", "*", "f*", "--"])
    async def test_no_path_is_a_pattern(self, stage: Stage, path: str) -> None:
        house = await stage.house({"f": b"x\n", "d/f": b"x\n"})
        assert (await refused(search(house, "x", path=path))).code is Code.NOT_FOUND


class TestLists:
    @pytest.mark.parametrize("count", [1, 4, 5, 6, 10, 11])
    async def test_repositories_are_each_listed_once(self, house: House, count: int) -> None:
        async with house.stage.owner_db.bound(house.tenant) as tx:
            for number in range(count - 1):
                one = uuid4()
                await add_repository(tx, system(house.tenant), house.project, one, f"r{number}")
                await tx.execute(
                    insert(connection_repository).values(tenant=house.tenant, connection=house.agent.id, repository=one)
                )

        async def ask(**more: Any) -> dict[str, Any]:
            return await call(house, "list_repositories", limit=5, **more)

        found = await walk(ask, lambda page: [one["repository_id"] for one in page["repositories"]])
        assert found == sorted(set(found))
        assert len(found) == count

    @pytest.mark.parametrize("count", [0, 1, 2, 3, 4])
    async def test_proposals_are_each_listed_once_in_the_order_they_were_made(self, house: House, count: int) -> None:
        made = [(await house.propose())["proposal_id"] for _ in range(count)]

        async def ask(**more: Any) -> dict[str, Any]:
            return await call(house, "list_proposals", limit=2, **more)

        assert await walk(ask, lambda page: [one["proposal_id"] for one in page["proposals"]]) == made

    async def test_proposals_are_listed_by_state_and_repository(self, house: House) -> None:
        first, second = await house.propose(), await house.propose()
        await call(house, "cancel_proposal", proposal_id=first["proposal_id"])
        waiting = (await call(house, "list_proposals", state="pending"))["proposals"]
        assert [one["proposal_id"] for one in waiting] == [second["proposal_id"]]
        assert not (await call(house, "list_proposals", repository_id=str(uuid4())))["proposals"]
        assert len((await call(house, "list_proposals", repository_id=str(house.repository)))["proposals"]) == 2

    async def test_long_proposals_are_listed_within_the_limit(self, house: House) -> None:
        words = {"message": "ä" * 9_000, "reason": "ä" * 1_900}
        made = [(await house.propose(house.arguments(**words)))["proposal_id"] for _ in range(8)]

        async def ask(**more: Any) -> dict[str, Any]:
            return await call(house, "list_proposals", **more)

        assert await walk(ask, lambda page: [one["proposal_id"] for one in page["proposals"]]) == made


class TestProposals:
    async def test_a_proposal_is_read_and_withdrawn_in_one_shape(self, house: House) -> None:
        made = await house.propose()
        own = {"proposal_id": made["proposal_id"]}
        seen = await call(house, "read_proposal", **own)
        assert (seen["status"], seen["tool"]) == ("pending", "propose_file_import")
        assert (await call(house, "cancel_proposal", **own))["status"] == "cancelled"
        assert (await call(house, "cancel_proposal", **own))["status"] == "cancelled"
        assert (await call(house, "read_proposal", **own, wait_seconds=25))["status"] == "cancelled"

    @pytest.mark.parametrize("seconds", [-1, 26, 10**9])
    async def test_waiting_has_a_limit(self, house: House, seconds: int) -> None:
        refusal = await refused(call(house, "read_proposal", proposal_id=str(uuid4()), wait_seconds=seconds))
        assert refusal.details["field"] == "wait_seconds"
        assert refusal.details["limit"] in {0, 25}

    async def test_what_is_anothers_is_not_there(self, house: House, neighbour: House) -> None:
        made = await neighbour.propose()
        absent = str(uuid4())
        for tool, name, own in (
            ("read_proposal", "proposal_id", made["proposal_id"]),
            ("cancel_proposal", "proposal_id", made["proposal_id"]),
            ("read_repository", "repository_id", str(neighbour.repository)),
        ):
            bodies = [(await refused(call(house, tool, **{name: one}))).body() for one in (own, absent)]
            assert bodies[0] == bodies[1]
            assert bodies[0]["code"] == "not_found"
        assert not (await call(house, "list_proposals"))["proposals"]
        listed = (await call(house, "list_repositories"))["repositories"]
        assert [one["repository_id"] for one in listed] == [str(house.repository)]
