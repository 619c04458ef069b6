"""An agent as it comes from outside: registers, sends a person to the consent page, calls tools with what it got."""

import base64
import hashlib
import html
import json
import re
import secrets
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx

from service.scenario.owner import Owner

CALLBACK = "http://127.0.0.1:7777/callback"  # nobody listens there: the answer is read from the redirect
PROTOCOL = "2026-07-28"
META = {"io.modelcontextprotocol/protocolVersion": PROTOCOL, "io.modelcontextprotocol/clientCapabilities": {}}
SCOPES = "repo:read repo:propose"


class NotAsExpected(Exception):
    """An answer that the story cannot go on with."""


@dataclass
class Agent:
    """One OAuth client with its access token, and the number of its next call."""

    http: httpx.AsyncClient
    mcp_url: str
    client: str = ""
    token: str = field(default="", repr=False)
    calls: int = 0

    async def connect(self, owner: Owner, repository: str, name: str) -> str:
        """Discovery, registration, authorization code with PKCE, tokens (RFC 9728, 8414, 7591, 7636).

        Gives the scope that was granted.
        """
        resource = await self._document("/.well-known/oauth-protected-resource/mcp")
        server = await self._document("/.well-known/oauth-authorization-server")
        metadata = {"client_name": name, "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none"}
        self.client = _json(await self.http.post(server["registration_endpoint"], json=metadata))["client_id"]
        verifier = secrets.token_urlsafe(48)
        url = self._authorization_url(server["authorization_endpoint"], resource["resource"], verifier)
        form = {
            "grant_type": "authorization_code",
            "client_id": self.client,
            "redirect_uri": CALLBACK,
            "code_verifier": verifier,
            "code": await _consent(owner, url, repository, name),
        }
        tokens = _json(await self.http.post(server["token_endpoint"], data=form))
        self.token = tokens["access_token"]
        return str(tokens["scope"])

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool. Gives its structured answer, or the error, which has a `code`."""
        self.calls += 1
        body = {
            "jsonrpc": "2.0",
            "id": self.calls,
            "method": "tools/call",
            "params": {"name": tool, "arguments": arguments, "_meta": META},
        }
        headers = {
            "authorization": f"Bearer {self.token}",
            "mcp-protocol-version": PROTOCOL,
            "mcp-method": "tools/call",
            "mcp-name": tool,
        }
        answer = _json(await self.http.post(self.mcp_url, json=body, headers=headers))
        result = answer["result"]
        found: dict[str, Any] = (
            json.loads(result["content"][0]["text"])["error"] if result["isError"] else result["structuredContent"]
        )
        return found

    def _authorization_url(self, endpoint: str, resource: str, verifier: str) -> str:
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
        query = {
            "response_type": "code",
            "client_id": self.client,
            "redirect_uri": CALLBACK,
            "scope": SCOPES,
            "state": secrets.token_urlsafe(16),
            "resource": resource,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        return f"{endpoint}?{urlencode(query)}"

    async def _document(self, path: str) -> dict[str, Any]:
        return _json(await self.http.get(path))


async def _consent(owner: Owner, url: str, repository: str, name: str) -> str:
    """What the owner does on the consent page. Gives the code."""
    page = (await owner.get(url)).text
    form = {
        "csrf": _hidden(page, "csrf"),
        "request": _hidden(page, "request"),
        "repository": repository,
        "lifetime": "1d",
        "name": name,
        "answer": "approve",
    }
    sent_to = str((await owner.post_form("/oauth/authorize", form)).headers.get("location", ""))
    codes = parse_qs(urlsplit(sent_to).query).get("code")
    if not codes:
        raise NotAsExpected("the consent page gave no code")
    return codes[0]


def _hidden(page: str, name: str) -> str:
    found = re.search(rf'name="{name}" value="([^"]*)"', page)
    if not found:
        raise NotAsExpected(f"the consent page has no field {name}")
    return html.unescape(found[1])


def _json(response: httpx.Response) -> dict[str, Any]:
    if response.status_code not in {httpx.codes.OK, httpx.codes.CREATED}:
        raise NotAsExpected(f"{response.request.url.path} answered {response.status_code}: {response.text[:200]}")
    found: dict[str, Any] = response.json()
    return found
