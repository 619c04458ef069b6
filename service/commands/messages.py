"""`placet messages`: what the pages say, gathered from the code into the catalogue of each language."""

from pathlib import Path
from typing import Final

import click
from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.pofile import read_po, write_po

from service.kit.language import CATALOGUES, ENGLISH, LANGUAGES

SERVICE: Final = Path(__file__).parent.parent
_METHODS: Final = [
    ("edge/**.html", "jinja2"),
    *((f"{room}/**.py", "python") for room in ("edge", "identity", "grants", "proposals", "publish")),
    ("kit/errors.py", "python"),
]
"""Where people are spoken to; what the other rooms refuse is said to agents and operators, in English."""
_KEYWORDS: Final = {
    "_": None,
    "gettext": None,
    "later": None,
    "ngettext": (1, 2),
    "plural": (1, 2),
    "Refusal": (2,),  # a refusal's sentence, where it is one sentence
    "Wire": (3,),  # what a code says to do next
}


def spoken() -> Catalog:
    """Every message of the code, without translations."""
    found = Catalog(project="Placet", fuzzy=False)
    options = {"**.html": {"trimmed": "true"}}
    for _, _, message, _, _ in extract_from_dir(SERVICE, _METHODS, options, _KEYWORDS):
        found.add(message)
    return found


def catalogue(language: str) -> Catalog:
    """What a language says now; empty for one that says nothing yet."""
    path = CATALOGUES / f"{language}.po"
    if not path.exists():
        return Catalog(locale=language, project="Placet", fuzzy=False)
    with path.open("rb") as file:
        return read_po(file, locale=language)


@click.command()
def messages() -> None:
    """Write the catalogues under service/languages anew: what is said is kept, what is new is empty."""
    for language in LANGUAGES:
        if language == ENGLISH:
            continue
        known = catalogue(language)
        known.update(spoken(), no_fuzzy_matching=True)
        known.obsolete.clear()
        with (CATALOGUES / f"{language}.po").open("wb") as file:
            write_po(
                file, known, no_location=True, omit_header=False, sort_output=True, ignore_obsolete=True, width=120
            )
        lacks = sum(1 for message in known if message.id and not (message.string and all(message.string)))
        click.echo(f"{language}: {len(known)} messages, {lacks} of them not said yet")
