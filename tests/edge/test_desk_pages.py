"""The owner's pages as a browser gets them: what they say, what they send, and what can never be in them."""

import re
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import desk_views as views
import httpx
import pytest

from service.contract.hidden import HIDDEN_RANGES
from service.edge.desk import ENDPOINTS
from service.identity.permissions import admits
from service.kit.errors import Code, Refusal
from service.proposals.view import Outcome, Verdicts

pytestmark = pytest.mark.anyio
TEMPLATES = Path(__file__).parents[2] / "service" / "edge" / "templates"
CSS = (TEMPLATES.parent / "assets" / "placet.css").read_text()
CARD = f"/proposals/{views.PROPOSAL}"
VOID = {"meta", "link", "input", "col", "br", "img", "hr"}
HIDDEN = re.compile(f"[{HIDDEN_RANGES}]")
Client = httpx.AsyncClient
Opened = Callable[..., Client]


@pytest.fixture
async def opened() -> AsyncIterator[Opened]:
    """A browser on a desk of crafted views."""
    clients: list[Client] = []

    def opened_on(crafted: views.CraftedDesk | None = None) -> Client:
        transport = httpx.ASGITransport(views.crafted_app(crafted or views.CraftedDesk()))
        clients.append(Client(transport=transport, base_url=views.ISSUER))
        return clients[-1]

    yield opened_on
    for client in clients:
        await client.aclose()


def on_card(card: Any) -> views.CraftedDesk:
    return views.CraftedDesk(cards={views.PROPOSAL: card})


def words(page: str) -> str:
    """The text of a page, white space made single."""
    return " ".join(re.sub(r"<[^>]*>", " ", page).split())


class Elements(HTMLParser):
    """Every element with its attributes; fails where elements are not properly nested."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs)
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def all(self, tag: str) -> Iterator[dict[str, str | None]]:
        return (attributes for name, attributes in self.found if name == tag)


CARDS = {
    "everyday": views.CARD_VIEW,
    "kinds": views.ALL_KINDS,
    "hostile": views.hostile_card(),
    **{f"hostile {state}": replace(views.hostile_card(), state=state) for state in ("executed", "stale", "failed")},
    **views.STATES,
}
HOSTILE_LISTS = views.CraftedDesk(
    inbox=replace(
        views.INBOX,
        lines=(
            views.inbox_line(
                1,
                project=views.HOSTILE,
                repository=views.HOSTILE,
                connection=views.HOSTILE,
                client=views.HOSTILE,
                message=views.HOSTILE,
                headline=views.hostile_card().card.headline,
                warnings=views.hostile_card().card.warnings,
            ),
        ),
    ),
    connections=replace(
        views.CONNECTIONS,
        lines=(
            views.connection_line(
                1,
                name=views.HOSTILE,
                client=views.HOSTILE,
                granted_by=views.HOSTILE,
                scopes=(views.HOSTILE,),
                repositories=(views.HOSTILE,),
            ),
        ),
    ),
    repositories=replace(
        views.REPOSITORIES, lines=(replace(views.REPOSITORIES.lines[0], project=views.HOSTILE, name=views.HOSTILE),)
    ),
    ledger=replace(
        views.LEDGER,
        lines=(
            replace(
                views.LEDGER.lines[0],
                kind=views.HOSTILE,
                subject=views.HOSTILE,
                actor=views.HOSTILE,
                actor_kind=views.HOSTILE,
            ),
        ),
    ),
)
EMPTY = views.CraftedDesk(
    inbox=views.NOTHING,
    connections=replace(views.CONNECTIONS, lines=()),
    repositories=replace(views.REPOSITORIES, lines=()),
    ledger=replace(views.LEDGER, lines=(), before=None),
)
LISTS = (
    "/",
    "/?show=missed",
    "/?show=decided",
    "/?show=stale",
    "/?show=ended",
    "/connections",
    "/repositories",
    "/ledger",
    f"/connections/{views.CONNECTIONS.lines[0].id}",
)
PAGES = {
    **{f"card {name}": (on_card(card), CARD) for name, card in CARDS.items()},
    **{
        f"{path} {name}": (desk, path)
        for path in LISTS
        for name, desk in (("hostile", HOSTILE_LISTS), ("empty", EMPTY))
    },
    **{f"card {name} split": (on_card(CARDS[name]), f"{CARD}?view=split") for name in ("everyday", "kinds", "hostile")},
    **{path: (views.CraftedDesk(), path) for path in (*LISTS, "/proposals/nothing", "/?show=nothing")},
}


@pytest.mark.parametrize("name", [*PAGES, *views.ASKING])
async def test_a_page_is_well_formed_and_runs_nothing(opened: Opened, name: str) -> None:
    desk, path = PAGES.get(name, (None, f"/asking/{name}"))
    page = (await opened(desk).get(path)).text
    elements = Elements(page)
    for tag, attributes in elements.found:
        assert tag not in {"style", "iframe", "object", "embed", "base"}
        assert tag != "script" or (attributes.get("src") or "").startswith("/assets/")
        assert not any(key.startswith("on") or key == "style" for key in attributes)
        assert not (attributes.get("href") or "/").startswith(("javascript:", "data:"))
    ids = [attributes["id"] for _, attributes in elements.found if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert next(elements.all("html"))["lang"] == "en"


@pytest.mark.parametrize("name", PAGES)
async def test_nothing_hides_on_a_page(opened: Opened, name: str) -> None:
    desk, path = PAGES[name]
    page = (await opened(desk).get(path)).text
    values = re.sub(r'(<input type="checkbox" name="acknowledged" value=")[^"]*', r"\1", page)  # sent, never shown
    assert [hex(ord(found)) for found in HIDDEN.findall(values)] == []


@pytest.mark.parametrize("name", PAGES)
async def test_every_form_posts_to_a_route_and_carries_the_token(opened: Opened, name: str) -> None:
    desk, path = PAGES[name]
    page = (await opened(desk).get(path)).text
    posted = [endpoint.path for endpoint in ENDPOINTS if endpoint.method == "POST"]
    for form in re.findall(r"<form.*?</form>", page, re.DOTALL):
        start = next(Elements(form).all("form"))
        if start["method"] == "get" and start["role"] == "search":
            continue  # a search changes nothing and needs no token
        target = (start["action"] or "").split("?")[0]
        assert start["method"] == "post"
        assert target == "/sign-out" or any(
            re.fullmatch(re.sub(r"\{.*?\}", "[0-9a-f-]{1,36}", route), target) for route in posted
        )
        assert ("csrf", views.SESSION.csrf) in {
            (one.get("name"), one.get("value")) for one in Elements(form).all("input")
        }


async def test_a_page_that_counts_nothing_shows_no_number_beside_the_inbox(opened: Opened) -> None:
    for path in ("/asking/consent", "/proposals/nothing"):
        assert re.findall(r'<a href="/"[^>]*>(.*?)</a>', (await opened().get(path)).text)[0] == "Inbox"


def test_no_template_switches_escaping_off_or_styles_inline() -> None:
    for template in TEMPLATES.glob("*.html"):
        source = template.read_text()
        bad = r"""\|\s*safe|autoescape|<script(?! src="/assets/[a-z.]+" defer></script>)|<style|\sstyle=|\son\w+="""
        assert not re.search(bad, source), template.name


def test_only_assets_are_open_to_agents_and_strangers() -> None:
    for endpoint in ENDPOINTS:
        expected = endpoint.permission == "asset.read"
        assert admits(endpoint.permission, "agent") is expected, endpoint.path
        assert admits(endpoint.permission, "none") is expected, endpoint.path


# The card ------------------------------------------------------------------------------------------------------------


async def test_a_card_says_what_would_happen_in_the_order_of_its_weight(opened: Opened) -> None:
    page = words((await opened().get(CARD)).text)
    parts = (
        "Change 2 files on main ; one becomes executable",
        "by Claude through claude-research · message “ Pin install version ”",
        "The agent says",
        "Runs on your machines.",
        "README.md +2",
        "scripts/install.sh +7",
        "100644 → 100755",
        "Your decision",
        "still the tip",
        "in 23 h 56 min",
        "Reviewed-digest",
        "touches the same",
    )
    places = [page.index(part) for part in parts]
    assert places == sorted(places)


async def test_each_warning_is_a_box_that_approve_needs_and_decline_does_not(opened: Opened) -> None:
    elements = Elements((await opened().get(CARD)).text)
    boxes = [one for one in elements.all("input") if one.get("name") == "acknowledged"]
    assert [one["value"] for one in boxes] == [note.name for note in views.WARNINGS]
    assert all("required" in one and one["form"] == "decision" and "checked" not in one for one in boxes)
    buttons = {one["value"]: "formnovalidate" in one for one in elements.all("button") if one.get("name") == "verdict"}
    assert buttons == {"approve": False, "changes": True, "decline": True}


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("executing", "The writer is at work."),
        ("executed", "Done. What you see below has been done. Commit 5be01d7a"),
        ("stale", "The agent can propose it again on the new head. The head is now 5be01d7a"),
        ("failed", "Nothing was changed. The connection is revoked. forbidden"),
        ("declined", "Declined by owner@example.org just now . “ Pin it in the lock file instead. ”"),
        ("cancelled", "The agent took this back"),
        ("expired", "Nobody decided in time."),
        ("reader", "An owner or maintainer of orchard decides this."),
    ],
)
async def test_a_card_on_which_nothing_can_be_decided_says_why_and_has_no_form(
    opened: Opened, state: str, said: str
) -> None:
    page = (await opened(on_card(views.STATES[state])).get(CARD)).text
    assert said in words(page)
    assert 'id="decision"' not in page
    assert 'name="acknowledged"' not in page


async def test_a_waiting_card_whose_time_is_over_has_no_form(opened: Opened) -> None:
    page = (await opened(on_card(replace(views.CARD_VIEW, expires_at=views.NOW))).get(CARD)).text
    assert "Nobody decided in time." in page
    assert 'id="decision"' not in page


async def test_a_moved_branch_is_said_before_the_decision(opened: Opened) -> None:
    page = words((await opened(on_card(views.STATES["moved"])).get(CARD)).text)
    assert "The branch has moved by 2 commits since this was proposed." in page
    assert "moved by 2" in page.split("Your decision")[1]


async def test_many_files_have_an_index_that_leads_to_each(opened: Opened) -> None:
    page = (await opened(on_card(views.ALL_KINDS)).get(CARD)).text
    assert re.findall(r'<a href="#(file-\d+)">', page) == re.findall(r'<section class="panel file" id="(.*?)"', page)


async def test_a_note_on_a_path_without_a_file_is_shown(opened: Opened) -> None:
    lonely = views.with_files(views.file_view(b"a", None, b"a\n"))
    page = words((await opened(on_card(replace(lonely, files=()))).get(CARD)).text)
    assert "Files Change a" in page


async def test_hidden_characters_are_counted_once_each(opened: Opened) -> None:
    card = views.change(views.CARD_VIEW, agent_words={"reason": "a\u200bb", "message": "c\u202ed"})
    page = words((await opened(on_card(card)).get(CARD)).text)
    assert "3 hidden characters are in this proposal." in page


async def test_the_commit_is_shown_byte_for_byte(opened: Opened) -> None:
    page = (await opened().get(CARD)).text
    shown = re.search(r'<pre class="commit"[^>]*>(.*?)</pre>', page, re.DOTALL)
    assert shown
    assert shown[1].replace("&lt;", "<").replace("&gt;", ">") == views.PREVIEW


async def test_an_unknown_proposal_and_a_malformed_id_are_the_same_page(opened: Opened) -> None:
    client = opened()
    pages = [await client.get(f"/proposals/{name}") for name in ("nothing", "0" * 36, str(views.TENANT), "é")]
    assert {page.status_code for page in pages} == {404}
    assert len({page.text for page in pages}) == 1


# The decision --------------------------------------------------------------------------------------------------------


def sent(**more: Any) -> dict[str, Any]:
    return {"csrf": views.SESSION.csrf, "card_digest": views.DIGEST, "verdict": "approve", **more}


async def test_a_decision_reaches_the_desk_as_it_was_made_and_leads_back_to_the_card(opened: Opened) -> None:
    desk = views.CraftedDesk()
    names = [note.name for note in views.WARNINGS]
    answer = await opened(desk).post(f"{CARD}/decision", data=sent(acknowledged=names, note="one\r\ntwo"))
    assert desk.asked == [
        (views.TENANT, views.PROPOSAL, Verdicts("approve", views.DIGEST, frozenset(names), "one\ntwo"))
    ]
    assert (answer.status_code, answer.headers["location"]) == (303, f"{CARD}?tenant={views.TENANT}")


async def test_a_decline_needs_no_ticks_and_no_note(opened: Opened) -> None:
    desk = views.CraftedDesk()
    await opened(desk).post(f"{CARD}/decision", data=sent(verdict="decline", note=""))
    assert desk.asked == [(views.TENANT, views.PROPOSAL, Verdicts("decline", views.DIGEST))]


@pytest.mark.parametrize("code", [Code.WARNINGS_OPEN, Code.CARD_CHANGED, Code.PROPOSAL_ENDED])
async def test_a_refused_decision_shows_the_card_again_with_what_was_sent(opened: Opened, code: Code) -> None:
    desk = views.CraftedDesk()
    desk.answer = refuse(code)
    ticked = views.WARNINGS[1].name
    answer = await opened(desk).post(f"{CARD}/decision", data=sent(acknowledged=[ticked], note="<b>because"))
    boxes = [one for one in Elements(answer.text).all("input") if one.get("name") == "acknowledged"]
    assert answer.status_code == 409
    assert f"Nothing was decided. A reason. {code.value.todo}" in words(answer.text)
    assert [one["value"] for one in boxes if "checked" in one] == [ticked]
    assert "&lt;b&gt;because</textarea>" in answer.text


def refuse(code: Code) -> Callable[[], Any]:
    def answer() -> None:
        raise Refusal(code, "A reason.")

    return answer


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({"verdict": "maybe"}, "verdict"),
        ({"card_digest": "7c41"}, "card_digest"),
        ({"verdict": ["approve", "decline"]}, "verdict"),
        ({"note": "a" * 2_001}, "note"),
        ({"note": "bell\x07"}, "note"),
    ],
)
async def test_a_decision_that_is_not_clear_is_refused(opened: Opened, data: dict[str, Any], field: str) -> None:
    desk = views.CraftedDesk()
    page = await opened(desk).post(f"{CARD}/decision", data=sent(**data))
    told = await opened(desk).post(
        f"/api/v1{CARD}/decision", json={key: value for key, value in sent(**data).items() if key != "csrf"}
    )
    assert (page.status_code, told.status_code) == (422, 422)
    assert told.json()["error"]["field"] == field
    assert desk.asked == []


# Lists ---------------------------------------------------------------------------------------------------------------


async def test_the_inbox_groups_by_repository_and_connection_oldest_first(opened: Opened) -> None:
    page = words((await opened().get("/")).text)
    parts = (
        "Three things wait for you",
        "Waiting 3 Missed 1 Decided in 24 h 3 Decided 8 Stale 2 Withdrawn 1",
        "orchard / docs codex-nightly · Codex",
        "Delete 4 files on main Housekeeping … · \N{MINUS SIGN}180 deletes files expires in 40 min 23 hours ago",
        "orchard / storefront claude-research · Claude",
        "Cart redesign is complete; tests pass · +412 \N{MINUS SIGN}88 the branch has moved 20 minutes ago",
        "Pin install version · +14 \N{MINUS SIGN}3 runs code hidden character 4 minutes ago",
    )
    places = [page.index(part) for part in parts]
    assert places == sorted(places)


async def test_an_empty_inbox_says_so(opened: Opened) -> None:
    page = words((await opened(EMPTY).get("/")).text)
    assert "Nothing waits for you. Waiting 0" in page
    assert "<title>Inbox · Placet</title>" in (await opened(EMPTY).get("/")).text


async def test_an_executed_card_leads_to_its_commit_and_every_card_to_its_repository(opened: Opened) -> None:
    page = (await opened(on_card(views.STATES["executed"])).get(CARD)).text
    at = f"/repositories/{views.REPOSITORY}"
    assert f'<a href="{at}/commits/{views.HEAD}?tenant={views.TENANT}">' in page
    assert f'<a href="{at}?tenant={views.TENANT}">' in page


async def test_links_carry_the_tenant(opened: Opened) -> None:
    for path in ("/", CARD):
        links = re.findall(r'href="(/proposals/[^"]*)"', (await opened().get(path)).text)
        assert links
        assert all(link.split("&")[0].endswith(f"?tenant={views.TENANT}") for link in links)


@pytest.mark.parametrize("action", ["pause", "resume", "revoke"])
async def test_a_connection_is_changed_by_a_form(opened: Opened, action: str) -> None:
    desk = views.CraftedDesk()
    line = views.CONNECTIONS.lines[0]
    answer = await opened(desk).post(f"/connections/{line.id}", data={"action": action})
    assert desk.asked == [(views.TENANT, line.id, action)]
    assert (answer.status_code, answer.headers["location"]) == (303, f"/connections/{line.id}?tenant={views.TENANT}")


async def test_a_revocation_says_what_it_could_not_stop(opened: Opened) -> None:
    desk = views.CraftedDesk(late=(views.PROPOSAL,))
    answer = await opened(desk).post(f"/connections/{views.CONNECTIONS.lines[0].id}", data={"action": "revoke"})
    assert "1 approved proposal was already being executed and could not be stopped." in words(answer.text)


async def test_a_revoked_connection_and_one_of_others_offer_nothing(opened: Opened) -> None:
    lines = (views.connection_line(1, state="revoked"), views.connection_line(2, may_manage=False))
    desk = views.CraftedDesk(connections=replace(views.CONNECTIONS, lines=lines))
    assert 'action="/connections' not in (await opened(desk).get("/connections")).text


async def test_a_repository_is_opened_to_agents_by_a_form(opened: Opened) -> None:
    desk = views.CraftedDesk()
    line = views.REPOSITORIES.lines[0]
    answer = await opened(desk).post(f"/repositories/{line.id}", data={"action": "refuse_agents"})
    assert desk.asked == [(views.TENANT, line.id, "refuse_agents")]
    assert answer.headers["location"] == f"/repositories?tenant={views.TENANT}"


async def test_the_ledger_is_turned_page_by_page(opened: Opened) -> None:
    desk = views.CraftedDesk()
    client = opened(desk)
    first, second = await client.get("/ledger"), await client.get("/ledger?before=210")
    assert desk.asked == [(None, 100), (210, 100)]
    newest = f'<a class="button" href="/ledger?tenant={views.TENANT}"'
    assert f'href="/ledger?tenant={views.TENANT}&amp;before=210"' in first.text
    assert newest not in first.text
    assert newest in second.text


@pytest.mark.parametrize("before", ["-1", "1e3", "٣", "9" * 19, ""])
async def test_a_place_in_the_ledger_that_is_no_number_is_refused(opened: Opened, before: str) -> None:
    assert (await opened().get("/ledger", params={"before": before})).status_code == 422


# The owner API -------------------------------------------------------------------------------------------------------


async def test_the_session_tells_its_own_browser_the_token(opened: Opened) -> None:
    assert (await opened().get("/api/v1/session")).json() == {
        "email": "owner@example.org",
        "tenant": str(views.TENANT),
        "csrf": "c5rf-token",
    }


async def test_the_api_gives_a_card_that_can_be_decided_on(opened: Opened) -> None:
    desk = views.CraftedDesk()
    client = opened(desk)
    card = (await client.get(f"/api/v1{CARD}")).json()
    body = {
        "verdict": "approve",
        "card_digest": card["card_digest"],
        "acknowledged": [warning["name"] for warning in card["warnings"]],
    }
    desk.answer = lambda: views.desk.DecisionResult(views.PROPOSAL, "executed", False, Outcome(commit=views.HEAD))
    answer = await client.post(f"/api/v1{CARD}/decision", json=body)
    assert answer.status_code == 200
    assert answer.json() == {
        "proposal_id": str(views.PROPOSAL),
        "status": "executed",
        "replayed": False,
        "commit": views.HEAD,
        "head": None,
        "reason": None,
        "message": None,
        "approved_part": None,
    }
    assert card["headline"]["says"] == "Change 2 files on main; one becomes executable"
    assert card["files"][1]["new"]["mode"] == "100755"


@pytest.mark.parametrize("state", ["approved", "executing"])
async def test_an_outcome_that_is_not_known_yet_says_where_to_ask(opened: Opened, state: Any) -> None:
    desk = views.CraftedDesk()
    desk.answer = lambda: views.desk.DecisionResult(views.PROPOSAL, state, replayed=False)
    answer = await opened(desk).post(
        f"/api/v1{CARD}/decision", json={"verdict": "approve", "card_digest": views.DIGEST}
    )
    assert answer.status_code == 202
    assert answer.json()["code"] == "outcome_unknown"
    assert answer.json()["ask"] == f"{views.ISSUER}/api/v1{CARD}?tenant={views.TENANT}"


async def test_a_stale_one_carries_the_head(opened: Opened) -> None:
    desk = views.CraftedDesk()
    desk.answer = lambda: views.desk.DecisionResult(views.PROPOSAL, "stale", False, Outcome(head=views.HEAD))
    answer = await opened(desk).post(
        f"/api/v1{CARD}/decision", json={"verdict": "approve", "card_digest": views.DIGEST}
    )
    assert (answer.json()["status"], answer.json()["head"], answer.json()["commit"]) == ("stale", views.HEAD, None)


@pytest.mark.parametrize(
    "body",
    [[], "approve", {}, {"verdict": "approve"}, {**sent(), "_confirmed": True}, {**sent(), "acknowledged": "all"}],
)
async def test_a_body_of_another_shape_is_refused(opened: Opened, body: Any) -> None:
    desk = views.CraftedDesk()
    answer = await opened(desk).post(f"/api/v1{CARD}/decision", json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid_argument")
    assert desk.asked == []


async def test_hostile_values_leave_the_api_as_plain_json(opened: Opened) -> None:
    answer = await opened(on_card(views.hostile_card())).get(f"/api/v1{CARD}")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["agent_words"]["reason"] == views.HOSTILE
    assert HIDDEN.search(answer.json()["headline"]["says"]) is None


# Assets and the look -------------------------------------------------------------------------------------------------


async def test_an_asset_is_asked_for_again_only_to_compare(opened: Opened) -> None:
    client = opened()
    first = await client.get("/assets/placet.css")
    again = await client.get("/assets/placet.css", headers={"if-none-match": first.headers["etag"]})
    assert (first.status_code, first.headers["content-type"]) == (200, "text/css; charset=utf-8")
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    "name", ["nothing.css", "..%2fasset.py", "%2e%2e%2fasset.py", "..\\asset.py", "placet.css%00", "/etc/passwd", ""]
)
async def test_only_files_of_the_folder_are_assets(opened: Opened, name: str) -> None:
    assert (await opened().get(f"/assets/{name}")).status_code == 404


def themes() -> dict[str, dict[str, str]]:
    light, dark = re.findall(r":root \{(.*?)\}", CSS, re.DOTALL)
    colours = [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block)) for block in (light, dark)]
    return {"light": colours[0], "dark": {**colours[0], **colours[1]}}


def luminance(colour: str) -> float:
    """Relative luminance (WCAG 2.2)."""
    parts = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


CODE = ("ink", "t-comment", "t-keyword", "t-string", "t-number", "t-name")
PAIRS = [
    *((text, page) for text in ("ink", "soft", "yes", "mind", "lost") for page in ("page", "paper", "shade")),
    *((text, page) for text in CODE for page in ("paper", "add", "del", "add-mark", "del-mark")),
    *((text, "yes-page") for text in ("ink", "soft", "yes", "lost", "mind")),
    *((text, "mind-page") for text in ("ink", "mind", "soft")),
    *((text, "lost-page") for text in ("ink", "lost")),
    *((text, "hides-page") for text in ("ink", "hides")),
    *((text, page) for text in ("soft", "yes", "lost", "mind") for page in ("add", "del")),
    ("on-yes", "yes"),
    ("on-hides", "hides"),
    ("paper", "ink"),
    ("paper", "mind"),
]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_text_has_a_contrast_of_four_and_a_half(theme: str) -> None:
    colours = themes()[theme]
    weak = {}
    for text, page in PAIRS:
        dark, light = sorted((luminance(colours[text]), luminance(colours[page])))
        ratio = (light + 0.05) / (dark + 0.05)
        if ratio < 4.5:
            weak[text, page] = round(ratio, 2)
    assert weak == {}


def test_every_class_of_the_style_sheet_is_used_somewhere() -> None:
    sources = [*TEMPLATES.glob("*.html"), *(TEMPLATES.parent / "desk").glob("*.py")]
    used = set(re.findall(r"[\w-]+", "\n".join(source.read_text() for source in sources)))
    styled = set(re.findall(r"\.([a-z][\w-]*)(?=[^{}]*\{)", re.sub(r"/\*.*?\*/", "", CSS, flags=re.DOTALL)))
    assert {name for name in styled if not name.startswith("t-")} - used == set()


def test_the_style_sheet_loads_nothing() -> None:
    assert not re.search(r"url\(|@import|@font-face|expression\(", CSS)
