"""`/language`: in which language the pages of this browser speak. What an agent reads is English."""

from typing import Final

from starlette.responses import Response

from service.edge.entering import check_origin, keep, local, see
from service.edge.guard import LANGUAGE_COOKIE, Call, Endpoint
from service.kit.errors import Code, Refusal
from service.kit.language import LANGUAGES

SECONDS: Final = 365 * 24 * 3600


async def choose(call: Call) -> Response:
    """Keep the choice in the browser, and go back to where it was made."""
    check_origin(call)
    form = await call.form()
    chosen = form.get("language", [""])[0]
    if chosen not in LANGUAGES:
        raise Refusal(Code.INVALID_ARGUMENT, "Choose one of the languages.", field="language", allowed=[*LANGUAGES])
    response = see(local(form.get("next", [""])[0]) or "/")
    keep(response, LANGUAGE_COOKIE, chosen, SECONDS)
    return response


ENDPOINTS: Final = (Endpoint("POST", "/language", "session.open", choose, page=True),)
