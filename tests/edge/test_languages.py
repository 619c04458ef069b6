"""Every word that a page says is a message, and every message is said in every language."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from service.edge.pages import HERE, TEMPLATES

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
