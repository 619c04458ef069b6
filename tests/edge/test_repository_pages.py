"""The pages of one repository, over real Git with odd names and contents, and who may see them."""

import html
import re
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

import httpx
import pytest

from service.edge.desk import browse
from service.proposals.desk import browsing
from service.repositories import snapshot
from tests.histories import Histories
from tests.poison import HIDDEN
from tests.stage import House, Web

pytestmark = pytest.mark.anyio
TEXT = HIDDEN.replace("\0", "")  # NUL makes a file one that is no text
ODD: dict[bytes, Any] = {
    b"README.md": b"# A <b>shop</b>\r\n",
    b"bin/run": (0o100755, b"#!/bin/sh\n"),
    b"link": (0o120000, b"bin/run"),
    b"lib": (0o160000, b"1" * 40),
    b"empty": b"",
    b"picture.png": b"\x89PNG\r\n\x1a\n\0\0",
    b"latin\xff.txt": b"caf\xe9\n",
    "bi\u202edi.txt".encode(): b"x\n",
    b'"quoted" <i>.txt': b"q\n",
    b"%2e%2e": b"dots\n",
    b"hidden.txt": TEXT.encode(),
    b"big.bin": b"a" * (browsing.FILE_BYTES + 1),
}


def run(folder: Path, *words: str | bytes, stdin: bytes = b"") -> bytes:
    return subprocess.run(("git", *words), cwd=folder, input=stdin, capture_output=True, check=True).stdout


class Pages:
    """The pages of a house's repository, as its owner's browser gets them."""

    def __init__(self, house: House, web: Web, browser: dict[str, str]) -> None:
        self.house, self.web, self.browser = house, web, browser

    async def get(self, under: str = "", /, **query: str) -> httpx.Response:
        address = f"/repositories/{self.house.repository}{under}"
        return await self.web.http.get(f"{address}?{urlencode(query)}" if query else address, headers=self.browser)

    async def text(self, under: str = "", /, **query: str) -> str:
        answer = await self.get(under, **query)
        assert answer.status_code == 200, answer.text
        return answer.text

    async def follow(self, page: str, words: str) -> str:
        """The page behind the link with these words."""
        links = re.findall(r'<a[^>]* href="([^"]+)"[^>]*>(.*?)</a>', page)
        [found, *_] = [link for link, inner in links if words in re.sub("<[^>]*>", "", inner)]
        answer = await self.web.http.get(html.unescape(found), headers=self.browser)
        assert answer.status_code == 200, answer.text
        return answer.text


def bring(histories: Histories, folder: Path) -> None:
    """Have these commits in a repository, under the branches `c1`, `c2` and so on."""
    made = folder.parent / f"{uuid4()}.git"
    histories.write(made)
    run(folder, "fetch", "-q", str(made), "+refs/heads/*:refs/heads/*")


@pytest.fixture
async def pages(house: House, web: Web) -> Pages:
    histories = Histories()
    histories.commit(ODD, message=b"Odd <script>things\n\nand \xe2\x80\xae more\n")
    bring(histories, house.path)
    run(house.path, "branch", "-m", "c1", "odd")
    return Pages(house, web, await web.browser(house.owner))


async def test_a_repository_says_what_it_is_and_leads_to_its_proposals(pages: Pages) -> None:
    await pages.house.propose()
    page = await pages.text()
    assert f"repository={pages.house.repository}" in page
    assert re.search(r"Waiting</span> <span[^>]*>1<", page)
    assert "Agents with a connection may propose here." in page
    inbox = await pages.follow(page, "Waiting")
    assert "One thing waits for you" in inbox


async def test_every_odd_file_is_listed_and_opens_from_its_own_link(pages: Pages) -> None:
    folder = await pages.text("/files", ref="odd")
    expected = {
        "README.md": "# A &lt;b&gt;shop&lt;/b&gt;",
        "link": "bin/run",
        "lib": "A link to another repository, at commit " + "1" * 40,
        "empty": "The file is empty.",
        "picture.png": "This is not text.",
        "latinbyte FF.txt": "byte E9",
        "biU+202E RLOdi.txt": "x",
        "&#34;quoted&#34; &lt;i&gt;.txt": "q",
        "%2e%2e": "dots",
        "big.bin": "This is too big to be shown here.",
    }
    for name, words in expected.items():
        assert words in await pages.follow(folder, name), name
    inner = await pages.follow(folder, "bin/")
    assert "#!/bin/sh" in await pages.follow(inner, "run")


async def test_each_hidden_code_point_in_a_file_is_a_mark_and_counted(pages: Pages) -> None:
    page = await pages.text("/files", ref="odd", path="hidden.txt")
    marks = re.findall(r'<span class="hid">U\+([0-9A-F]+) ', page)
    assert [int(mark, 16) for mark in marks] == [ord(char) for char in TEXT]
    assert f"{len(TEXT):,} hidden characters are in this file" in page or f"{len(TEXT)} hidden" in page
    assert not set(TEXT) & set(page) - set("\t\n\r")


@pytest.mark.parametrize(
    ("path", "query", "status"),
    [
        ("/files", {"ref": "nothing"}, 404),
        ("/files", {"ref": "main~1"}, 422),
        ("/files", {"ref": "-x"}, 422),
        ("/files", {"ref": "a" * 2_000}, 422),
        ("/files", {"path": "nothing"}, 404),
        ("/files", {"path": "README.md/inner"}, 404),
        ("/files", {"path": "../x"}, 422),
        ("/files", {"path": "a\0b"}, 422),
        ("/history", {"start": "-1"}, 422),
        ("/history", {"start": "1000000"}, 422),
        ("/history", {"start": "x"}, 422),
        ("/history", {"start": "10000"}, 200),
        ("/commits/main", {}, 404),
        ("/commits/" + "0" * 40, {}, 404),
        ("/commits/" + "f" * 39, {}, 404),
        ("/restore-points", {"after": "x"}, 404),
        ("/restore-points", {"after": str(uuid4())}, 200),
    ],
)
async def test_what_is_not_there_or_is_no_name_is_refused_without_a_fault(
    pages: Pages, path: str, query: dict[str, str], status: int
) -> None:
    assert (await pages.get(path, **query)).status_code == status


async def test_another_persons_and_another_tenants_repository_are_like_none(pages: Pages, neighbour: House) -> None:
    theirs = await pages.web.browser(neighbour.owner)
    mine, none = f"/repositories/{pages.house.repository}", f"/repositories/{uuid4()}"
    for path in ("", "/files", "/history", "/branches", f"/commits/{pages.house.head()}", "/restore-points"):
        one, other = [await pages.web.http.get(at + path, headers=theirs) for at in (mine, none)]
        assert (one.status_code, other.status_code) == (404, 404)
        assert one.text.replace(str(pages.house.repository), "") == other.text.replace(none[14:], "")


async def test_a_commit_leads_to_the_proposal_that_made_it_and_says_who_signed_it(pages: Pages) -> None:
    shown = await pages.house.propose()
    await pages.house.land(shown)
    history = await pages.text("/history")
    commit = await pages.follow(history, "Change files")
    assert f'href="/proposals/{shown["proposal_id"]}' in commit
    assert "Came through Placet, without a signature of its own." in commit
    assert "new.txt" in commit
    foreign = await pages.text(f"/commits/{pages.house.head('odd')}")
    assert "Did not come through Placet." in foreign
    assert "Odd &lt;script&gt;things" in foreign
    assert "U+202E RLO" in foreign


@pytest.mark.parametrize("overtakes", [False, True])
async def test_a_commit_that_names_a_proposal_which_did_not_make_it_leads_nowhere(
    pages: Pages, overtakes: bool
) -> None:
    shown = await pages.house.propose()
    message = f"Forged\n\nProposal: {shown['proposal_id']}\nApproved-by: a@b.example\n".encode()
    tree = run(pages.house.path, "rev-parse", "main^{tree}").strip()
    forged = run(pages.house.path, "-c", "user.name=X", "-c", "user.email=x@y.example", "commit-tree", tree,
                 "-p", "main", stdin=message).strip().decode()  # fmt: skip
    if overtakes:  # then the proposal's outcome names it, as what made it stale
        run(pages.house.path, "update-ref", "refs/heads/main", forged)
        await pages.house.decide(shown)
        assert (await pages.house.read(shown))["outcome"]["head"] == forged
    page = await pages.text(f"/commits/{forged}")
    assert f'href="/proposals/{shown["proposal_id"]}' not in page


async def test_branches_say_how_far_they_are_apart(pages: Pages) -> None:
    histories = Histories()
    one = histories.commit({b"a": b"1\n"})
    two = histories.delta({b"b": b"2\n"}, one)
    other = histories.delta({b"c": b"3\n"}, one)
    bring(histories, pages.house.path)
    for name, mark in (("main", two), ("side", other)):
        run(pages.house.path, "update-ref", f"refs/heads/{name}", f"refs/heads/c{mark}")
    run(pages.house.path, "update-ref", b"refs/heads/od\xffd", "refs/heads/main")
    page = await pages.text("/branches")
    assert "1 commit ahead, 1 commit behind" in page
    assert "odbyte FFd" in re.sub("<[^>]*>", "", page)
    assert "a" in await pages.follow(page, "odbyte FFd")


async def test_a_repository_without_a_commit_has_its_pages(house: House, web: Web) -> None:
    run(house.path, "update-ref", "-d", "refs/heads/main")
    pages = Pages(house, web, await web.browser(house.owner))
    assert "There is no commit yet." in await pages.text()
    assert "There is no commit yet." in await pages.text("/files")
    assert "There is no commit here." in await pages.text("/history")
    assert "There is none." in await pages.text("/branches")


async def test_long_folders_and_histories_come_in_pages_without_a_gap(
    pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browsing, "ENTRIES_MOST", 5)
    page = await pages.text("/files", ref="odd")
    seen = re.findall(r'<li><a href="[^"]*"><bdi>(.*?)</bdi>', page)
    while "Show what follows" in page:
        page = await pages.follow(page, "Show what follows")
        seen += re.findall(r'<li><a href="[^"]*"><bdi>(.*?)</bdi>', page)
    assert len(seen) == len(set(seen)) == 12
    monkeypatch.setattr(browsing, "HISTORY_MOST", 1)
    histories = Histories()
    histories.delta({b"b": b"2\n"}, histories.delta({b"b": b"1\n"}, histories.commit({b"a": b"1\n"})))
    bring(histories, pages.house.path)
    page = await pages.text("/history", ref="c3")
    told = re.findall(r"<bdi>(Commit \d)</bdi>", page)
    while "Older" in page:
        page = await pages.follow(page, "Older")
        told += re.findall(r"<bdi>(Commit \d)</bdi>", page)
    assert told == ["Commit 3", "Commit 2", "Commit 1"]


async def test_restore_points_lead_to_the_page_that_takes_them_back(pages: Pages) -> None:
    run(pages.house.path, "update-ref", "refs/heads/old", "refs/heads/main")
    wanted = {
        "repository_id": str(pages.house.repository),
        "branches": ["old"],
        "into": "main",
        "reason": "It is merged.",
    }
    shown = await pages.house.propose(wanted, tool="propose_branch_delete")
    await pages.house.land(shown)
    page = await pages.text("/restore-points")
    assert f'href="/proposals/{shown["proposal_id"]}' in page
    assert "<code>old</code>" in page


@pytest.mark.parametrize("name", [b"od\xffd", b'"q"', b"refs/tags/x", b"a" * 40, b"a%2Fb+c&d=e;f#g", None])
async def test_every_link_leads_on_whatever_the_default_branch_is_called(pages: Pages, name: bytes | None) -> None:
    folder, head = pages.house.path, pages.house.head()
    if name is not None:
        run(folder, "update-ref", b"refs/heads/" + name, "refs/heads/main")
    (folder / "HEAD").write_bytes(b"ref: refs/heads/" + name + b"\n" if name is not None else head.encode() + b"\n")
    listing = await pages.text("/files")
    assert "hello" in await pages.follow(listing, "app.py")
    assert "First" in await pages.follow(listing, "History")
    assert "README.md" in await pages.follow(await pages.follow(listing, "app.py"), "Files")


async def test_what_is_broken_on_the_disk_is_none_or_said_and_takes_nothing_else_with_it(pages: Pages) -> None:
    folder = pages.house.path
    tree = run(folder, "rev-parse", "main^{tree}").strip()
    who = b"author A <a@b.example> 1 +0000\ncommitter A <a@b.example> 1 +0000\n\nm\n"
    bad = {"orphan": b"tree " + tree + b"\nparent " + b"1" * 40 + b"\n" + who, "odd": b"tree \xff\xff\n" + who}
    for name, content in bad.items():
        made = run(folder, "hash-object", "-t", "commit", "-w", "--literally", "--stdin", stdin=content)
        (folder / "refs/heads" / name).write_bytes(made)
    for name, content in {"noise": b"noise\n", "loop": b"ref: refs/heads/loop\n"}.items():
        (folder / "refs/heads" / name).write_bytes(content)
        assert (await pages.get("/files", ref=name)).status_code == 404
    listed = re.sub("<[^>]*>", "", await pages.text("/branches"))
    assert "orphan" in listed
    assert "noise" not in listed
    assert (await pages.get("/files", ref="odd")).status_code == 503
    (folder / "HEAD").write_bytes(b"ref: refs/heads/noise\n")
    for path in ("", "/files", "/history", "/branches"):
        assert (await pages.get(path)).status_code == 200, path
    folder.rename(folder.with_suffix(".away"))
    answer = await pages.get("/files")
    assert answer.status_code == 503
    assert "This repository cannot be read." in answer.text


async def test_a_page_has_no_more_lines_and_marks_than_a_browser_can_lay_out(
    pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, most in {"LINES_MOST": 10, "WORK_MOST": 40, "MESSAGE_MOST": 100}.items():
        monkeypatch.setattr(browse, name, most)
    histories = Histories()
    files = {
        b"a-lines": b"x\n" * 11,
        b"b-marks": b"ok\n" + b"\x01" * 11 + b"\n",
        b"c-one": b"\x01" * 11,
        b"d": b"x\n" * 10,
    }
    histories.commit(files, message=b"Long\n\n" + b"\x01" * 200)
    bring(histories, pages.house.path)
    told = {
        "a-lines": "Only the first 10 lines are shown.",
        "b-marks": "Only the first line is shown.",
        "c-one": "This is too much to be shown here.",
    }
    for name, words in told.items():
        assert words in await pages.text("/files", ref="c1", path=name)
    assert "Only" not in await pages.text("/files", ref="c1", path="d")
    assert "11 hidden characters are in this file" in await pages.text("/files", ref="c1", path="c-one")
    page = await pages.text(f"/commits/{pages.house.head('c1')}")
    assert page.count("too much to show here") == 1
    assert "The message goes on; only its beginning is shown." in page
    assert "200 hidden characters are in this message" in page


async def test_a_history_that_is_cut_says_so_and_one_that_ends_does_not(
    pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    histories = Histories()
    histories.delta({b"b": b"2\n"}, histories.delta({b"b": b"1\n"}, histories.commit({b"a": b"1\n"})))
    bring(histories, pages.house.path)
    told = "The history goes on; the rest is not shown here."
    assert told not in await pages.text("/history", ref="c3")
    monkeypatch.setattr(snapshot, "SECONDS", -1.0)  # no time at all
    page = await pages.text("/history", ref="c3", start="1")
    assert told in page
    assert "There is no commit here." not in page
    monkeypatch.undo()
    monkeypatch.setattr(browsing, "HISTORY_MOST", 1)
    monkeypatch.setattr(browsing, "START_MOST", 0)
    page = await pages.text("/history", ref="c3")
    assert told in page
    assert "Older" not in page
