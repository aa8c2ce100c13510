"""Credentials of a login at a provider."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Login:
    """A login at a provider: a token, and how it is renewed."""

    issuer: str
    client_id: str
    token_endpoint: str
    id_token: str
    refresh_token: str | None
    """None where the provider gave none: the login ends with its token."""
    ends: float
    """End of the token, in seconds since 1970."""
