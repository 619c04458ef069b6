"""OAuth over HTTP as plain data, and the same as the objects that Authlib works on."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from authlib.common.urls import add_params_to_uri
from authlib.oauth2 import OAuth2Error
from authlib.oauth2.rfc6749 import OAuth2Payload, OAuth2Request
from authlib.oauth2.rfc6749.errors import InvalidRequestError

SCOPES: Final = ("repo:read", "repo:propose")
_DESCRIPTIONS: Final = {
    "invalid_grant": "The code or token is unknown, used, expired or revoked, or another client's.",
}
"""What Authlib leaves without words."""
_REPEATABLE: Final = frozenset({"resource"})  # RFC 8707, 2


@dataclass(frozen=True)
class Site:
    """What this service calls itself.

    Attributes:
        issuer: its origin without a slash at the end, the same string everywhere (RFC 8414, RFC 9207).
        resource: what a token is for when nothing else is asked.
        resources: everything that a token can be for.
    """

    issuer: str
    resource: str
    resources: frozenset[str]

    def audience(self, asked: Iterable[str]) -> str:
        """The one resource that these indicators name; without any, the usual one.

        With or without a slash at the end, and the origin alone for the usual one; nothing else is normalised.

        Raises:
            OAuth2Error: `invalid_target` (RFC 8707, 2).
        """
        named = {self._named(uri) for uri in asked} or {self.resource}
        if len(named) != 1 or None in named:
            raise OAuth2Error(error="invalid_target", description="The resource is not one of this service.")
        return str(named.pop())

    def _named(self, uri: str) -> str | None:
        plain = uri.removesuffix("/")
        return self.resource if plain == self.issuer else plain if plain in self.resources else None


@dataclass(frozen=True)
class Posted:
    """A form that a client posted: every value of every field, and its `Authorization` header."""

    fields: Mapping[str, list[str]]
    authorization: str = field(default="", repr=False)


@dataclass(frozen=True)
class Answer:
    """What goes back: JSON, or a redirect when `location` is set."""

    status: int
    body: Mapping[str, Any]
    headers: Mapping[str, str]
    location: str | None = None


class Request(OAuth2Request):
    """What Authlib reads. Empty parameters count as absent and repeated ones are refused (RFC 6749, 3.1 and 3.2).

    Raises:
        InvalidRequestError: for a parameter that is there twice.
    """

    payload: "_Payload"
    client: Any
    user: Any
    auth_method: Any
    refresh_token: Any
    authorization_code: Any

    def __init__(self, method: str, url: str, fields: Mapping[str, list[str]], authorization: str = "") -> None:
        super().__init__(method, url, headers={"Authorization": authorization} if authorization else {})
        self.payload = _Payload(fields)

    @property
    def args(self) -> dict[str, str]:
        return self.payload.data

    @property
    def form(self) -> dict[str, str]:
        return self.payload.data


class _Payload(OAuth2Payload):
    def __init__(self, fields: Mapping[str, list[str]]) -> None:
        given = {name: [value for value in values if value] for name, values in fields.items()}
        self._lists = {name: values for name, values in given.items() if values}
        if any(len(values) > 1 and name not in _REPEATABLE for name, values in self._lists.items()):
            raise InvalidRequestError("A parameter is there more than once.")

    @property
    def data(self) -> dict[str, str]:
        return {name: values[0] for name, values in self._lists.items()}

    @property
    def datalist(self) -> dict[str, list[str]]:
        return self._lists


def answer(issuer: str, status: int, body: Any, headers: Iterable[tuple[str, str]]) -> Answer:
    """An Authlib response as plain data. Every redirect is an authorization response, so it names the issuer
    (RFC 9207, 2), errors too, and it turns a POST into a GET (RFC 9700, 4.12).
    """
    rest = {name.lower(): value for name, value in headers}
    location = rest.pop("location", None)
    if location is not None:
        return Answer(303, {}, rest, add_params_to_uri(location, [("iss", issuer)]))
    rest.pop("content-type", None)
    given = dict(body)
    if "error" in given:
        given.setdefault("error_description", _DESCRIPTIONS.get(given["error"], "The request was refused."))
    return Answer(status, given, rest)


def error_answer(issuer: str, error: OAuth2Error) -> Answer:
    """An OAuth error as RFC 6749, 5.2 shapes it."""
    return answer(issuer, *error(None))
