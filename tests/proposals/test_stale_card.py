"""A card that came too late shows what moved: the commits by id and subject, and the paths that both change."""

import re

import pytest

from service.contract.data import Json
from tests.stage import House, Web, git

pytestmark = pytest.mark.anyio


def push(house: House, subject: str, path: str, content: bytes) -> str:
    """Somebody's commit on main."""
    blob = git(house.path, "hash-object", "-w", "--stdin", stdin=content).decode().strip()
    lines = git(house.path, "ls-tree", "main").decode().splitlines()
    kept = [line for line in lines if not line.endswith(f"\t{path}")]
    tree = git(house.path, "mktree", stdin="\n".join([*kept, f"100644 blob {blob}\t{path}", ""]).encode())
    commit = git(house.path, "commit-tree", tree.decode().strip(), "-p", "main", "-m", subject).decode().strip()
    git(house.path, "update-ref", "refs/heads/main", commit)
    return commit


async def late(house: House) -> tuple[Json, list[str]]:
    shown = await house.propose(house.arguments({"path": "app.py", "content": "mine\n"}))
    made = [push(house, f"Change {number}\n\nMore.", "other.txt", b"%d\n" % number) for number in range(11)]
    return shown, [*made, push(house, "Hide \u202e a thing", "app.py", b"theirs\n")]


async def page_of(web: Web, house: House, shown: Json) -> str:
    browser = await web.browser(house.owner)
    return (await web.http.get(f"/proposals/{shown['proposal_id']}", headers=browser)).text


@pytest.mark.parametrize("ended", [False, True])
async def test_the_card_names_the_commits_that_moved_the_branch_and_the_paths_that_overlap(
    web: Web, house: House, ended: bool
) -> None:
    shown, made = await late(house)
    if ended:
        assert (await house.decide(shown)).state == "stale"
    page = await page_of(web, house, shown)
    assert ("Stale: the branch moved first." in page) is ended
    told = re.findall(r'<p><code title="([0-9a-f]{40})">[0-9a-f]{8}</code> <bdi>(.*?)</bdi></p>', page)
    assert [oid for oid, _ in told] == list(reversed(made))[:10]
    assert [subject for _, subject in told[1:3]] == ["Change 10", "Change 9"]
    assert "U+202E" in told[0][1]
    assert "and 2 commits before" in page
    assert "Changed there as well: <code>app.py</code>" in page


async def test_what_moved_elsewhere_names_no_path(web: Web, house: House) -> None:
    shown = await house.propose(house.arguments({"path": "app.py", "content": "mine\n"}))
    push(house, "Elsewhere", "other.txt", b"x\n")
    page = await page_of(web, house, shown)
    assert "<bdi>Elsewhere</bdi>" in page
    assert "Changed there as well" not in page
