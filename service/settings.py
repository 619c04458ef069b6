"""What an operator may set, from the environment; only the roots read it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import TypeAdapter, ValidationError

from service.identity.provider import Provider
from service.kit.sealed import Sealer, derived_secret
from service.publish.mail import SmtpServer, read_server


class BadSetting(Exception):
    """A setting is missing or wrong; the message is one sentence for the operator."""


@dataclass(frozen=True)
class Settings:
    """The settings of one process.

    Attributes:
        database_url: `DATABASE_URL`; a login that is a member of the roles it shall act as.
        issuer: `PLACET_ISSUER`, the service's own origin, as people and agents reach it, without a slash at the end.
        repositories: `PLACET_REPOSITORIES`, the folder under which this host keeps its repositories.
        secret: `PLACET_SECRET_FILE`'s content, at least 32 bytes: signs cursors, seals the secrets of people's apps.
        redis_url: `REDIS_URL`; None: limits are counted in this process alone.
        provider: `PLACET_OIDC_ISSUER`, `PLACET_OIDC_CLIENT_ID`, `PLACET_OIDC_CLIENT_SECRET_FILE`, and
            `PLACET_OIDC_ORIGINS`, where else its endpoints may be, separated by spaces; None: not set.
        outgoing_hosts: `PLACET_OUTGOING_HOSTS`, separated by spaces: hosts that may be asked although they are private.
        mail: `PLACET_SMTP_URL`, such as smtp+starttls://user@host:587, and `PLACET_SMTP_PASSWORD_FILE`; None: no mails.
        mail_from: `PLACET_MAIL_FROM`, the address that mails come from; placet@ this host where it is not set.
        chats: `PLACET_APPRISE_FILE`, JSON: for the name of a tenant, chats by name, each an Apprise URL.
    """

    database_url: str
    issuer: str
    repositories: Path
    secret: bytes
    redis_url: str | None
    provider: Provider | None = None
    outgoing_hosts: frozenset[str] = frozenset()
    mail: SmtpServer | None = None
    mail_from: str = ""
    chats: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)

    @property
    def sealer(self) -> Sealer:
        """What the web process seals: its key comes from `secret`, for this purpose alone."""
        return Sealer(derived_secret(self.secret, "placet: apps of people, 1"))

    @property
    def host(self) -> str:
        """The service's host name; stands in the addresses of connections in commits."""
        return urlsplit(self.issuer).hostname or "localhost"


def read_settings(environment: dict[str, str] | None = None) -> Settings:
    """The settings.

    Raises:
        BadSetting: one is missing or wrong.
    """
    found = dict(os.environ if environment is None else environment)
    issuer = _needed(found, "PLACET_ISSUER")
    parts = urlsplit(issuer)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.path or parts.query or issuer.endswith("/"):
        raise BadSetting(
            "PLACET_ISSUER must be an origin such as https://placet.example.org, without a slash at the end."
        )
    if parts.scheme == "http" and parts.hostname != "localhost":
        raise BadSetting("PLACET_ISSUER must be https, except for http://localhost.")
    return Settings(
        database_url=_needed(found, "DATABASE_URL"),
        issuer=issuer,
        repositories=Path(_needed(found, "PLACET_REPOSITORIES")),
        secret=_secret("PLACET_SECRET_FILE", Path(_needed(found, "PLACET_SECRET_FILE"))),
        redis_url=found.get("REDIS_URL") or None,
        provider=_provider(found),
        outgoing_hosts=frozenset(found.get("PLACET_OUTGOING_HOSTS", "").lower().split()),
        mail=_mail_server(found),
        mail_from=found.get("PLACET_MAIL_FROM") or f"placet@{parts.hostname}",
        chats=_chats(found),
    )


def _provider(found: dict[str, str]) -> Provider | None:
    issuer = found.get("PLACET_OIDC_ISSUER", "")
    if not issuer:
        return None
    if urlsplit(issuer).scheme not in {"http", "https"} or issuer.endswith("/"):
        raise BadSetting(
            "PLACET_OIDC_ISSUER must be an address, as the provider writes it, without a slash at the end."
        )
    path = found.get("PLACET_OIDC_CLIENT_SECRET_FILE")
    secret = _read("PLACET_OIDC_CLIENT_SECRET_FILE", Path(path)).decode().strip() if path else ""
    origins = frozenset(found.get("PLACET_OIDC_ORIGINS", "").lower().split())
    return Provider(issuer, _needed(found, "PLACET_OIDC_CLIENT_ID"), secret, origins)


def _mail_server(found: dict[str, str]) -> SmtpServer | None:
    url, path = found.get("PLACET_SMTP_URL"), found.get("PLACET_SMTP_PASSWORD_FILE")
    if not url:
        return None
    try:
        return read_server(url, _read("PLACET_SMTP_PASSWORD_FILE", Path(path)).decode().strip() if path else "")
    except ValueError as error:
        raise BadSetting(f"PLACET_SMTP_URL {error}.") from None


def _chats(found: dict[str, str]) -> dict[str, dict[str, str]]:
    path = found.get("PLACET_APPRISE_FILE")
    if not path:
        return {}
    try:
        return TypeAdapter(dict[str, dict[str, str]]).validate_json(_read("PLACET_APPRISE_FILE", Path(path)))
    except ValidationError:
        raise BadSetting('PLACET_APPRISE_FILE must hold {"tenant": {"chat": "URL"}} as JSON.') from None


def read_sealer(environment: dict[str, str]) -> Sealer | None:
    """What opens secrets at rest: for the writer and for administration, never for the web process. None: not set.

    `PLACET_KEYS_SECRET_FILE` has at least 32 bytes, and `PLACET_KEYS_OLD_SECRET_FILE`, while one takes the other's
    place, those that were in force before.

    Raises:
        BadSetting: one is wrong, or the old one is there alone.
    """
    names = ("PLACET_KEYS_SECRET_FILE", "PLACET_KEYS_OLD_SECRET_FILE")
    if not any(environment.get(name) for name in names):
        return None
    current = _secret(names[0], Path(_needed(environment, names[0])))
    older = [_secret(names[1], Path(path)) for path in (environment.get(names[1]),) if path]
    return Sealer(current, *older)


def _needed(found: dict[str, str], name: str) -> str:
    if not found.get(name):
        raise BadSetting(f"{name} is not set.")
    return found[name]


def _secret(name: str, path: Path) -> bytes:
    """Fails closed: a key that others can read, or that is too short, is none (THREATS F27)."""
    content = _read(name, path)
    if len(content) < 32:  # noqa: PLR2004  256 bits
        raise BadSetting(f"{name} {path} is shorter than 32 bytes.")
    return content


def _read(name: str, path: Path) -> bytes:
    try:
        mode, content = path.stat().st_mode, path.read_bytes()
    except OSError as error:
        raise BadSetting(f"{name} cannot be read: {error.strerror}.") from None
    if mode & 0o077:
        raise BadSetting(f"{name} {path} can be read by others; chmod 600 it.")
    return content
