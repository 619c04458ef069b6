"""Pages for people: templates that escape everything, and headers that let nothing in."""

from pathlib import Path
from typing import Any, Protocol

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import Response

from service.edge.advice import for_people
from service.edge.errors import retry
from service.identity.sessions import Session
from service.kit.errors import Refusal
from service.kit.language import LANGUAGES, gettext, language, translated

HERE = Path(__file__).parent
PAGE_HEADERS = {
    "cache-control": "private, no-store",
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # with no-referrer a browser posts our own forms with `Origin: null`
    "x-content-type-options": "nosniff",
    "cross-origin-opener-policy": "same-origin",
}
TEMPLATES = Environment(
    loader=FileSystemLoader(HERE / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    enable_async=False,
    extensions=["jinja2.ext.i18n"],
)
TEMPLATES.globals["languages"] = LANGUAGES
TEMPLATES.policies["ext.i18n.trimmed"] = True
TEMPLATES.install_gettext_callables(gettext, translated, newstyle=True)  # type: ignore[attr-defined]


class Asked(Protocol):
    """What a page needs to know of its request: who is signed in."""

    @property
    def session(self) -> Session | None: ...


def page(
    call: Asked, template: str, status: int = 200, headers: dict[str, str] | None = None, **values: Any
) -> Response:
    """Render a template; `session` is the signed-in person or None."""
    html = TEMPLATES.get_template(template).render(session=call.session, language=language(), **values)
    return Response(html, status, {**PAGE_HEADERS, **(headers or {})}, "text/html; charset=utf-8")


def error_page(call: Asked, refusal: Refusal, headers: dict[str, str] | None = None) -> Response:
    """A refusal as a page: what is wrong and what to do next."""
    error = {**refusal.body(), "next": for_people(refusal)}
    return page(call, "error.html", refusal.code.value.status, {**retry(refusal), **(headers or {})}, error=error)
