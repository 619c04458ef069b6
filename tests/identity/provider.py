"""A small OpenID provider on loopback with real signed tokens, which can be told to lie."""

import base64
import hashlib
import json
import secrets
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import uvicorn
from joserfc import jwt
from joserfc.jwk import RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

CLIENT, SECRET = "placet", "s3cret value/with:signs"


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


@dataclass
class Provider:
    """Its accounts are whatever `claims` says; the rest are the lies."""

    issuer: str
    claims: dict[str, Any] = field(default_factory=dict)
    document: dict[str, Any] = field(default_factory=dict)
    tokens: dict[str, Any] = field(default_factory=dict)
    header: dict[str, Any] = field(default_factory=lambda: {"alg": "RS256", "kid": "1"})
    redirects: bool = False
    pages: int = 0
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    key: RSAKey = field(default_factory=lambda: RSAKey.generate_key(2048, {"kid": "1"}, private=True))
    signs_with: RSAKey | None = None
    callback_iss: str | None = None

    async def discover(self, request: Request) -> Response:
        self.asked.append(request.url.path)
        if self.redirects:
            return RedirectResponse(f"{self.issuer}/elsewhere")
        if self.pages:
            return Response(b" " * self.pages, media_type="application/json")
        ends = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "jwks"}
        document = {"issuer": self.issuer, **{name: f"{self.issuer}/{path}" for name, path in ends.items()}}
        return JSONResponse({**document, **self.document})

    async def jwks(self, _request: Request) -> Response:
        return JSONResponse({"keys": [self.key.as_dict(private=False)]})

    async def token(self, request: Request) -> Response:
        self.asked.append(request.url.path)
        form = {name: values[0] for name, values in parse_qs((await request.body()).decode()).items()}
        basic = base64.b64decode(request.headers["authorization"].removeprefix("Basic ")).decode()
        asked = self.codes.pop(form["code"], None)
        proof = b64(hashlib.sha256(form["code_verifier"].encode()).digest())
        if basic != f"{CLIENT}:{SECRET}" or asked is None or proof != asked["code_challenge"]:
            return JSONResponse({"error": "invalid_grant"}, 400)
        return JSONResponse(self.answer(asked))

    def answer(self, asked: dict[str, str]) -> dict[str, Any]:
        now, access = int(time.time()), secrets.token_urlsafe(16)
        half = hashlib.sha256(access.encode()).digest()[:16]
        claims = {
            "iss": self.issuer, "aud": CLIENT, "iat": now, "exp": now + 60, "auth_time": now, "nonce": asked["nonce"],
            "at_hash": b64(half), "email_verified": True, **self.claims,
        }  # fmt: skip
        claims = {name: value for name, value in claims.items() if value is not None}
        if self.header["alg"] == "none":
            parts = [b64(json.dumps(one).encode()) for one in (self.header, claims)]
            signed = f"{parts[0]}.{parts[1]}."
        elif self.header["alg"] == "HS256":  # the public key as if it were a shared secret
            from joserfc.jwk import OctKey

            shared = OctKey.import_key(self.key.as_pem(private=False))
            signed = jwt.encode(self.header, claims, shared)
        else:
            signed = jwt.encode(self.header, claims, self.signs_with or self.key)
        return {"access_token": access, "token_type": "Bearer", "id_token": signed, **self.tokens}

    def agree(self, address: str) -> str:
        """What the browser is sent back with after the person agreed there: path and query of ours."""
        parts = urlsplit(address)
        asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
        assert f"{parts.scheme}://{parts.netloc}{parts.path}" == f"{self.issuer}/authorize"
        code = secrets.token_urlsafe(8)
        self.codes[code] = asked
        iss = f"&iss={self.callback_iss}" if self.callback_iss else ""
        return f"/sign-in/oidc/callback?code={code}&state={asked['state']}{iss}"


@asynccontextmanager
async def provider() -> AsyncIterator[Provider]:
    """One that runs."""
    listener = socket.create_server(("127.0.0.1", 0))
    made = Provider(f"http://localhost:{listener.getsockname()[1]}")
    routes = [
        Route("/.well-known/openid-configuration", made.discover),
        Route("/elsewhere", made.discover),
        Route("/jwks", made.jwks),
        Route("/token", made.token, methods=["POST"]),
    ]
    server = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_level="warning", lifespan="off", ws="none"))
    async with anyio.create_task_group() as group:
        group.start_soon(server.serve, [listener])
        yield made
        server.should_exit = True
