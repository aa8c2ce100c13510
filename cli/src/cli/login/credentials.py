"""What a login at a provider gave: a token, and how it is renewed."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Login:
    """Somebody who logged in at a provider."""

    issuer: str
    client_id: str
    token_endpoint: str
    id_token: str
    refresh_token: str | None
    """None: the provider gave none, and the login ends with its token."""
    ends: float
    """When the token ends, in seconds since 1970."""
