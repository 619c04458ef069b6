"""What `placet up` says while it works and when it is ready: to people in lines, to scripts as one line of JSON."""

import base64
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from rich.console import Console
from rich.status import Status

from service.up.typed import typed


@dataclass(frozen=True)
class Ready:
    """What runs; the names of the fields are those of the JSON. None: there is no repository with an owner yet."""

    mcp_url: str
    issuer: str
    owner_url: str | None
    owner_email: str | None
    repository_path: str | None
    tenant: str | None
    repository_id: str | None
    database_url: str
    data_dir: str


class Progress(Protocol):
    """Where a start reports to."""

    def say(self, sentence: str) -> None:
        """Something happened that somebody may want to know."""

    def ready(self, ready: Ready) -> None:
        """Everything answers."""


@dataclass(frozen=True)
class ForScripts:
    """One line of JSON on standard output when ready; what happens, on standard error."""

    out: Console
    err: Console

    def say(self, sentence: str) -> None:
        self.err.print(sentence, markup=False, highlight=False, soft_wrap=True)

    def ready(self, ready: Ready) -> None:
        self.out.file.write(json.dumps(asdict(ready)) + "\n")
        self.out.file.flush()


@dataclass(frozen=True)
class ForPeople:
    """A line for everything that happens, a moving sign while it starts, and at the end how to use it."""

    out: Console
    status: Status

    def say(self, sentence: str) -> None:
        self.out.print(f"· {sentence}", style="dim", markup=False, highlight=False, soft_wrap=True)

    def ready(self, ready: Ready) -> None:
        self.status.stop()
        self.out.print()
        for title, lines in _usage(ready):
            self.out.print(title, style="bold", highlight=False)
            for line in lines:
                self.out.print(f"  {line}", markup=False, highlight=False, soft_wrap=True)
        self.out.print("\nCtrl-C stops everything; the next start finds its data.", style="dim", highlight=False)


def _usage(ready: Ready) -> list[tuple[str, list[str]]]:
    """Headings with the lines below each."""
    url = ready.mcp_url
    return [
        ("Your page (the link signs you in once, within ten minutes)", _page(ready)),
        ("For agents", [url]),
        ("Claude Code", [f"claude mcp add --transport http placet {url}"]),
        ("Codex", [f"codex mcp add placet --url {url}"]),
        (
            "Cursor",
            [_cursor_link(url), f'or in ~/.cursor/mcp.json: {{"mcpServers": {{"placet": {{"url": "{url}"}}}}}}'],
        ),
        ("MCP Inspector", [f"npx @modelcontextprotocol/inspector --cli {url} --transport http --method tools/list"]),
    ]


def _page(ready: Ready) -> list[str]:
    data_dir = Path(ready.data_dir)
    if ready.owner_url is None or ready.owner_email is None:
        return [f"no owner yet: {typed('owner', 'add', 'EMAIL', '--name', 'NAME', data_dir=data_dir)}"]
    return [ready.owner_url, f"another link: {typed('owner', 'link', ready.owner_email, data_dir=data_dir)}"]


def _cursor_link(url: str) -> str:
    """Source: cursor.com/docs/mcp/install-links."""
    config = base64.b64encode(json.dumps({"url": url}).encode()).decode()
    return f"cursor://anysphere.cursor-deeplink/mcp/install?name=placet&config={quote(config, safe='')}"
