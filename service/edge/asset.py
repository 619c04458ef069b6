"""The few files that pages load: exactly those in the folder, read once, and asked for again only to compare."""

from pathlib import Path
from typing import Final, NamedTuple

from starlette.responses import Response

from service.edge.guard import Call, Endpoint
from service.kit.canonical import sha256
from service.kit.errors import Code, Refusal

HERE: Final = Path(__file__).parent / "assets"
TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


class Asset(NamedTuple):
    """A file as it is sent."""

    content: bytes
    media_type: str
    etag: str


def _read(path: Path) -> Asset:
    content = path.read_bytes()
    return Asset(content, TYPES[path.suffix], f'"{sha256(content)[:32]}"')


ASSETS: Final = {path.name: _read(path) for path in sorted(HERE.iterdir()) if path.suffix in TYPES}


async def asset(call: Call) -> Response:
    """One file by its name; a name is looked up, never joined to a path."""
    found = ASSETS.get(call.request.path_params["name"])
    if found is None:
        raise Refusal(Code.NOT_FOUND, "There is no such file.")
    headers = {
        "etag": found.etag,
        "cache-control": "public, no-cache",
        "x-content-type-options": "nosniff",
        "content-security-policy": "default-src 'none'",
    }
    if call.request.headers.get("if-none-match") == found.etag:
        return Response(status_code=304, headers=headers)
    return Response(found.content, headers=headers, media_type=found.media_type)


ENDPOINTS: Final = (Endpoint("GET", "/assets/{name}", "asset.read", asset),)
