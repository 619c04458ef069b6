"""Every word that a page says is a message, and every message is said in every language."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog, Message

from service.commands.messages import catalogue, spoken
from service.edge.pages import HERE, TEMPLATES
from service.kit.errors import Code
from service.kit.language import ENGLISH, LANGUAGES, figure, gettext, later, ngettext, preferred, speaking
from tests.stage import House, Web

NAMES = {"placet", "Placet", "https", "slim", "wide", "has-bar"}
"""What is a name in every language, and the shapes of pages."""
SAID = {
    "aria-label",
    "placeholder",
    "title",
    "alt",
    "data-asks",
    "data-refused",
    "data-lost",
    "data-changed",
    "data-show",
}


def outside(source: str) -> str:
    """A template's own text, without what Jinja computes and without messages."""
    found, told = [], False
    for _, kind, value in TEMPLATES.lex(source):
        if kind == "name" and value in {"trans", "endtrans"}:
            told = value == "trans"
        elif kind == "data" and not told:
            found.append(value)
        elif kind in {"variable_begin", "block_begin"} and not told:
            found.append(" ")
    return "".join(found)


class Words(HTMLParser):
    """The words of a page: its text, and the attributes that are read out or shown."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.silent += tag in {"kbd", "code", "script", "style"}
        self.found += [value for name, value in attrs if name in SAID and value]

    def handle_endtag(self, tag: str) -> None:
        self.silent -= tag in {"kbd", "code", "script", "style"}

    def handle_data(self, data: str) -> None:
        self.found += [] if self.silent else [data]


def unspoken(source: str) -> Iterator[str]:
    words = Words()
    words.feed(outside(source))
    for text in words.found:
        if said := " ".join(word for word in re.findall(r"[A-Za-z][\w-]*", text) if word not in NAMES):
            yield said


@pytest.mark.parametrize("template", sorted((HERE / "templates").glob("*.html")), ids=lambda path: path.name)
def test_every_text_of_a_template_is_a_message(template: Path) -> None:
    assert not list(unspoken(template.read_text()))


OTHERS = [name for name in LANGUAGES if name != ENGLISH]
PLACE = re.compile(r"\{\w+\}|%\(\w+\)s|</?\w+[^>]*>")


@pytest.fixture(scope="module")
def said() -> Catalog:
    return spoken()


def forms(message: Message) -> Iterator[tuple[str, str]]:
    """Each form of a message with what stands for it."""
    if isinstance(message.id, str):
        yield message.id, str(message.string)
        return
    one, many = message.id
    first, *rest = message.string
    yield from ((one, first), *((many, other) for other in rest))


@pytest.mark.parametrize("language", OTHERS)
def test_a_catalogue_holds_what_is_said_and_nothing_else(language: str, said: Catalog) -> None:
    assert {message.id for message in catalogue(language) if message.id} == {m.id for m in said if m.id}


@pytest.mark.parametrize("language", OTHERS)
def test_every_message_is_said_whole_in_every_language(language: str) -> None:
    for message in (one for one in catalogue(language) if one.id):
        for text, other in forms(message):
            assert other.strip(), text
            assert not message.fuzzy, text
            assert (other[0] == " ") == (text[0] == " "), text
            lost = set(PLACE.findall(text)) - set(PLACE.findall(other))
            assert set(PLACE.findall(other)) <= set(PLACE.findall(text)), text
            assert lost <= {"{count}", "%(count)s", "{number}"}, (
                text
            )  # "una cosa": its number is a word of the sentence


def test_a_message_is_found_by_its_english_text_and_its_places_are_filled_once() -> None:
    with speaking("es"):
        assert gettext("Sign out") == "Salir"
        assert gettext("Moved to the moon by {who}", who="{nobody}") == "Moved to the moon by {nobody}"
        assert (ngettext("{count} byte", "{count} bytes", 1), ngettext("{count} byte", "{count} bytes", 1400)) == (
            "1 byte",
            "1.400 bytes",
        )
        assert figure(1_234_567) == "1.234.567"
    assert (later("Sign out"), gettext("Sign out"), figure(1400)) == ("Sign out", "Sign out", "1,400")


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", "en"),
        ("es", "es"),
        ("es-MX,es;q=0.9,en;q=0.8", "es"),
        ("en-GB,es;q=0.9", "en"),
        ("de, es;q=0.5", "es"),
        ("de", "en"),
        ("es;q=0", "en"),
        ("*", "en"),
        (";;;,q=1,es;q=abc", "en"),
        ("x," * 100 + "es", "en"),
        ("ES", "es"),
    ],
)
def test_a_browser_is_spoken_to_in_the_best_of_its_languages(accept: str, expected: str) -> None:
    assert preferred(accept) == expected


@pytest.mark.anyio
async def test_pages_speak_what_the_browser_asks_for_until_somebody_chooses(house: House, web: Web) -> None:
    browser = {**await web.browser(house.owner), "accept-language": "es-ES,es;q=0.9"}
    shown = await house.propose()
    card = await web.http.get(f"/proposals/{shown['proposal_id']}", headers=browser)
    assert '<html lang="es">' in card.text
    assert "Tu decisión" in card.text
    assert "El agente dice" in card.text
    data = {"csrf": browser["x-csrf-token"], "language": "en", "next": "/settings/sign-in"}
    chosen = await web.http.post("/language", data=data, headers=browser)
    assert (chosen.status_code, chosen.headers["location"]) == (303, "/settings/sign-in")
    cookie = chosen.headers["set-cookie"]
    assert cookie.startswith("__Host-placet-language=en; ")
    again = {**browser, "cookie": f"{browser['cookie']}; {cookie.partition(';')[0]}"}
    assert "Your decision" in (await web.http.get(f"/proposals/{shown['proposal_id']}", headers=again)).text


@pytest.mark.anyio
async def test_a_refusal_is_said_in_the_language_of_its_page_and_keeps_its_code(house: House, web: Web) -> None:
    browser = {**await web.browser(house.owner), "accept-language": "es"}
    nowhere = await web.http.get("/proposals/x", headers=browser)
    assert nowhere.status_code == Code.NOT_FOUND.value.status
    assert "No hay tal propuesta." in nowhere.text
    told = (await web.http.get("/api/v1/proposals/x", headers=browser)).json()["error"]
    assert (told["code"], told["message"]) == ("not_found", "No hay tal propuesta.")


@pytest.mark.anyio
async def test_an_agent_is_answered_in_english_whatever_it_asks_for(house: House, web: Web) -> None:
    token = await web.token(house.agent)
    asked = {"authorization": f"Bearer {token}", "accept-language": "es"}
    answer = await web.http.get("/api/v1/session", headers=asked)
    assert answer.json()["error"]["message"] == "No agent token reaches this address."


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("form", "headers", "code"),
    [
        ({"language": "xx"}, {}, Code.INVALID_ARGUMENT),
        ({}, {}, Code.INVALID_ARGUMENT),
        ({"language": "es"}, {"origin": "https://elsewhere.example"}, Code.ORIGIN_REJECTED),
    ],
)
async def test_a_choice_that_is_none_or_is_made_elsewhere_is_refused(
    web: Web, form: dict[str, str], headers: dict[str, str], code: Code
) -> None:
    answer = await web.http.post("/language", data=form, headers=headers)
    assert answer.status_code == code.value.status
    assert code.value.name.replace("_", " ") in answer.text


@pytest.mark.anyio
@pytest.mark.parametrize("place", ["https://elsewhere.example/", "//elsewhere.example", "/\\elsewhere", ""])
async def test_a_choice_leads_back_to_a_page_of_ours_alone(web: Web, place: str) -> None:
    answer = await web.http.post("/language", data={"language": "es", "next": place})
    assert answer.headers["location"] == "/"
