"""Where an authorization answer may be sent.

`https` to any host, `http` to the loopback interface only (RFC 8252, 7.3), and an exact list of the private schemes of
known applications. A request names one of the client's registered addresses byte for byte (RFC 9700, 2.1); only the
port of a loopback address may differ, since the system picks it anew each time.
"""

import re
from collections.abc import Iterable
from typing import Any, Final

from authlib.oauth2 import OAuth2Error

URIS_MOST: Final = 10
URI_CHARACTERS_MOST: Final = 2_000

KNOWN_PRIVATE: Final = {
    "cursor://anysphere.cursor-mcp/oauth/callback": "https://github.com/makeplane/plane-mcp-server/issues/159",
    "cursor://anysphere.cursor-retrieval/oauth/callback": "Cursor before it changed to the one above",
    "warp://mcp/oauth2callback": "https://github.com/warpdotdev/warp/issues/9088",
}
"""Callbacks with a scheme of their own, each with where it was reported. VS Code needs none: it registers
https://vscode.dev/redirect and loopback (https://github.com/microsoft/vscode/issues/278512)."""

_CHARACTERS = re.compile(r"[A-Za-z0-9\-._~:/?\[\]@!$&'()*+,;=%]+")  # RFC 3986 without the fragment's mark
_WEB = re.compile(r"(https://[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]{1,5})?)(?:[/?].*)?")
_LOOPBACK = re.compile(r"(http://(127\.0\.0\.1|\[::1\]|localhost)(?::([0-9]{1,5}))?)((?:[/?].*)?)")
_PRIVATE = re.compile(r"(?!https?:)[a-z][a-z0-9+.-]*://[^/].*")
_PORTS = range(1, 65_536)


def check_redirects(given: Any) -> list[str]:
    """The addresses of a registration that can be used.

    A private address that is not on the list is left out when another one remains: clients register several, and use
    the one that was accepted (RFC 7591, 3.2.1).

    Raises:
        OAuth2Error: `invalid_redirect_uri`.
    """
    if not isinstance(given, list) or not 1 <= len(given) <= URIS_MOST:
        raise _bad(f"redirect_uris must be a list of 1 to {URIS_MOST} addresses.")
    for uri in given:
        _check_form(uri)
    usable = [uri for uri in given if is_usable(uri)]
    if not usable:
        raise _bad("No redirect URI is https, http to the loopback interface, or one of a known application.")
    return usable


def is_usable(uri: str) -> bool:
    """Whether an answer may ever be sent to this address."""
    return uri in KNOWN_PRIVATE or _WEB.fullmatch(uri) is not None or _loopback(uri) is not None


def matches(asked: str, registered: Iterable[str]) -> bool:
    """Whether a request's address is one of these: byte for byte, but for the port of a loopback address."""
    known = list(registered)
    if asked in known:
        return True
    wanted = _loopback(asked) if _CHARACTERS.fullmatch(asked) else None
    return wanted is not None and any(wanted == _loopback(uri) for uri in known)


def is_local(uri: str) -> bool:
    """Whether whatever runs on the person's own machine gets the answer."""
    return not uri.startswith("https://")


def receiver(uri: str) -> str:
    """Who gets the answer, for a person to read: the host and port, or the whole of a private address."""
    found = _WEB.fullmatch(uri) or _LOOPBACK.fullmatch(uri)
    return found[1].partition("://")[2] if found else uri


def form_source(uri: str) -> str:
    """The source that a `form-action` directive must name to let the answer go there (CSP level 3, 2.3.1)."""
    found = _WEB.fullmatch(uri) or _LOOPBACK.fullmatch(uri)
    # A host-source cannot be an IPv6 address, and a private scheme has no host.
    return found[1] if found and "[" not in found[1] else uri.partition(":")[0] + ":"


def _check_form(uri: Any) -> None:
    if not isinstance(uri, str) or len(uri) > URI_CHARACTERS_MOST or not _CHARACTERS.fullmatch(uri):
        raise _bad(f"A redirect URI is not a URI without fragment of at most {URI_CHARACTERS_MOST} characters.")
    if not is_usable(uri) and not _PRIVATE.fullmatch(uri):
        raise _bad("A redirect URI is neither https nor http to 127.0.0.1, [::1] or localhost.")


def _loopback(uri: str) -> tuple[str, str] | None:
    found = _LOOPBACK.fullmatch(uri)
    if found is None or (found[3] and int(found[3]) not in _PORTS):
        return None
    return found[2], found[4]


def _bad(description: str) -> OAuth2Error:
    return OAuth2Error(error="invalid_redirect_uri", description=description)
