"""Thirty kinds of secrets, none of them real, put together here so that no scanner finds one in this file."""

import base64
import random
import string
from collections.abc import Mapping

_CHANCE = random.Random(7)  # noqa: S311  nothing here is secret
_WORD = string.ascii_letters + string.digits
_LOWER = string.ascii_lowercase + string.digits
_BASE32 = string.ascii_uppercase + "234567"
_HEX = "0123456789abcdef"


def _some(alphabet: str, count: int) -> str:
    return "".join(_CHANCE.choice(alphabet) for _ in range(count))


def _joined(*pieces: str) -> str:
    return "".join(pieces)


def _pem(kind: str) -> str:
    lines = "\n".join(_some(_WORD + "+/", 64) for _ in range(12))
    return _joined("-----BEG", f"IN {kind}PRIVATE KEY-----\n", lines, f"\n-----END {kind}PRIVATE KEY-----")


def _unpadded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def canary() -> str:
    """A token that nothing else is."""
    return _joined("gh", "p_", _some(_WORD, 36))


KINDS: Mapping[str, str] = {
    "aws key id": _joined("aws_access_key_id = AK", "IA", _some(_BASE32, 16)),
    "aws secret": _joined('aws_secret_access_key = "', _some(_WORD + "/+", 40), '"'),
    "github pat": _joined('x = "gh', "p_", _some(_WORD, 36), '"'),
    "github fine-grained": _joined('x = "github', "_pat_", _some(_WORD, 82), '"'),
    "github app": _joined('x = "gh', "s_", _some(_WORD, 36), '"'),
    "gitlab pat": _joined('x = "glp', "at-", _some(_WORD, 20), '"'),
    "slack bot": _joined(
        'x = "xo', "xb-", _some(string.digits, 12), "-", _some(string.digits, 12), "-", _some(_WORD, 24), '"'
    ),
    "slack webhook": _joined(
        'x = "https://hooks.slack',
        ".com/services/T", _some(_BASE32, 10), "/B", _some(_BASE32, 10), "/",
        _some(_WORD, 24), '"',
    ),
    "stripe": _joined('x = "sk_l', "ive_", _some(_WORD, 24), '"'),
    "google api key": _joined('x = "AI', "za", _some(_WORD, 35), '"'),
    "google service account": _joined(
        '{"type": "service_account", "private_key": "', _pem("").replace("\n", "\\n"), '"}'
    ),
    "openai": _joined('x = "sk-pr', "oj-", _some(_WORD, 74), "T3Blb", "kFJ", _some(_WORD, 74), '"'),
    "anthropic": _joined('x = "sk-a', "nt-api03-", _some(_WORD, 93), 'AA"'),
    "npm": _joined('x = "np', "m_", _some(_LOWER, 36), '"'),
    "pypi": _joined('x = "pyp', "i-AgEIcHlwaS5vcmc", _some(_WORD, 70), '"'),
    "sendgrid": _joined('x = "S', "G.", _some(_WORD, 22), ".", _some(_WORD, 43), '"'),
    "mailgun": _joined('mailgun_key = "ke', "y-", _some(_HEX, 32), '"'),
    "twilio": _joined('twilio_key = "S', "K", _some(_HEX, 32), '"'),
    "rsa key": _pem("RSA "),
    "openssh key": _pem("OPENSSH "),
    "jwt": _joined(
        'x = "', _unpadded('{"alg":"HS256","typ":"JWT"}'), ".", _unpadded(f'{{"sub":"{_some(_WORD, 10)}","name":"x"}}'),
        ".", _some(_WORD, 43), '"',
    ),
    "azure storage": _joined(
        "DefaultEndpointsProtocol=https;AccountName=a;Account", "Key=", _some(_WORD + "+/", 86), "==;EndpointSuffix=x"
    ),
    "discord": _joined('discord_token = "M', _some(_WORD, 23), ".", _some(_WORD, 6), ".", _some(_WORD, 27), '"'),
    "telegram": _joined('telegram_bot_token = "', _some("123456789", 10), ":A", "A", _some(_WORD, 33), '"'),
    "digitalocean": _joined('x = "do', "p_v1_", _some(_HEX, 64), '"'),
    "shopify": _joined('x = "shp', "at_", _some(_HEX, 32), '"'),
    "hugging face": _joined('x = "h', "f_", _some(string.ascii_letters, 34), '"'),
    "generic": _joined("api_", 'key = "', _some(_WORD, 40), '"'),
    "url": _joined('x = "postgres://admin:', _some(_WORD, 16), '@db.example.org/app"'),
    "basic": _joined("Authorization: Bas", "ic ", base64.b64encode(f"admin:{_some(_WORD, 16)}".encode()).decode()),
}  # fmt: skip
"""A line, or a few, by what they hold."""
