"""What the authorization server is sent and answers, for its description; the tests hold real answers against it."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class Wire(BaseModel):
    """OAuth lets either side send more than the other knows."""

    model_config = ConfigDict(extra="allow")


class ServerMetadata(Wire):
    """Authorization server metadata (RFC 8414)."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    registration_endpoint: str
    revocation_endpoint: str
    scopes_supported: list[str]
    response_types_supported: list[str]
    grant_types_supported: list[str]
    token_endpoint_auth_methods_supported: list[str]
    code_challenge_methods_supported: list[str]
    authorization_response_iss_parameter_supported: bool


class ResourceMetadata(Wire):
    """Protected resource metadata (RFC 9728)."""

    resource: str
    authorization_servers: list[str]
    scopes_supported: list[str]
    bearer_methods_supported: list[str]


class TokenRequest(Wire):
    """A code, or a refresh token, for tokens (RFC 6749, 4.1.3 and 6; RFC 7636; RFC 8707)."""

    grant_type: Literal["authorization_code", "refresh_token"]
    client_id: str | None = None
    client_secret: str | None = None
    code: str | None = None
    redirect_uri: str | None = None
    code_verifier: str | None = None
    refresh_token: str | None = None
    scope: str | None = None
    resource: str | None = None


class TokenAnswer(Wire):
    """Tokens (RFC 6749, 5.1)."""

    access_token: str
    token_type: Literal["Bearer"]
    expires_in: Annotated[int, Field(description="Seconds.")]
    refresh_token: str
    scope: str


class RegistrationRequest(Wire):
    """A client introduces itself (RFC 7591)."""

    redirect_uris: Annotated[list[str], Field(min_length=1, max_length=10)]
    client_name: str | None = None
    token_endpoint_auth_method: Literal["none", "client_secret_post", "client_secret_basic"] | None = None


class RegistrationAnswer(Wire):
    """What was registered; a public client has no secret."""

    client_id: str
    client_id_issued_at: int
    client_name: str
    redirect_uris: list[str]
    token_endpoint_auth_method: str


class RevocationRequest(Wire):
    """A token to revoke (RFC 7009)."""

    token: str
    token_type_hint: str | None = None
    client_id: str | None = None
    client_secret: str | None = None


class Nothing(Wire):
    """An empty object."""
