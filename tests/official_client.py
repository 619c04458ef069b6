"""What the official Python client needs of its host: somewhere to keep what it was given."""

from dataclasses import dataclass

from mcp.shared.auth import OAuthClientInformationFull, OAuthToken


@dataclass
class Memory:
    """Implements the client's `TokenStorage`."""

    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info
