"""Client of an OpenID Connect provider, as a public client: its discovery document and its endpoints."""

import base64
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import urlsplit

import httpx

from chassis.binding import is_loopback
from chassis.egress.addresses import PORTS
from chassis.egress.proxies import Proxies
from cli.environment import environment
from cli.errors import CliError, RefusedError, UnreachableError
from cli.login.credentials import Login
from cli.output.visible import printable

PATIENCE_S: Final = 15.0
WANTED: Final = ("openid", "email", "groups", "offline_access")
"""Default scopes, as far as the provider lists them."""
_CUT: Final = 200


class ProviderError(CliError):
    """An OAuth error of the provider. `error` is its code, such as access_denied."""

    def __init__(self, issuer: str, error: str, description: str = "") -> None:
        suffix = f" ({printable(description)[:_CUT]})" if description else ""
        super().__init__(f"{issuer} refuses: {printable(error)[:_CUT]}{suffix}", reason="LOGIN_REFUSED")
        self.error = error


@dataclass(frozen=True)
class Provider:
    """A provider, and the client id to log in with."""

    issuer: str
    client_id: str
    scope: str
    """Requested scopes, separated by spaces."""
    endpoints: Mapping[str, Any]
    """The provider's discovery document."""

    def endpoint(self, name: str) -> str | None:
        """Return the address of an endpoint; None where there is none. Raises: RefusedError for an unsafe
        one.
        """
        url = self.endpoints.get(f"{name}_endpoint")
        return _safe(url) if isinstance(url, str) else None

    def post(self, url: str, **fields: str) -> dict[str, Any]:
        """Post a form to an endpoint; return its response. Raises: ProviderError, UnreachableError."""
        return _answer(self.issuer, "POST", url, {**fields, "client_id": self.client_id})

    def request_login(self, nonce: str = "", **fields: str) -> Login:
        """Request tokens by a grant; return the login. Raises: ProviderError, RefusedError, UnreachableError.

        nonce: value that the token must have; empty: any.
        """
        url = self.endpoint("token")
        if url is None:
            raise RefusedError(f"{self.issuer} has no token endpoint", reason="NO_PROVIDER")
        answer = self.post(url, **fields)
        token, refresh = answer.get("id_token"), answer.get("refresh_token")
        if not isinstance(token, str):
            text = f"{self.issuer} gives no ID token: the scope must have `openid`, and has `{self.scope}`"
            raise RefusedError(text, reason="LOGIN_REFUSED")
        claims = _claims(token)
        if nonce and claims.get("nonce") != nonce:
            raise RefusedError(f"{self.issuer} gives a token of another login", reason="LOGIN_REFUSED")
        ends = claims.get("exp")
        return Login(
            self.issuer,
            self.client_id,
            url,
            token,
            refresh if isinstance(refresh, str) else None,
            float(ends) if isinstance(ends, int | float) else time.time(),
        )


def discover(issuer: str, client_id: str, scope: str = "") -> Provider:
    """Read a provider's discovery document. Raises: RefusedError, UnreachableError."""
    place = f"{_safe(issuer).rstrip('/')}/.well-known/openid-configuration"
    document = _answer(issuer, "GET", place)
    if document.get("issuer") != issuer:
        text = f"{place} is of another issuer, {printable(str(document.get('issuer')))[:_CUT]}"
        raise RefusedError(text, reason="NO_PROVIDER")
    return Provider(issuer, client_id, scope or _default_scope(document.get("scopes_supported")), document)


def renew(login: Login) -> Login:
    """Renew a login's token. Raises: RefusedError where it has ended, UnreachableError."""
    if login.refresh_token is None:
        text = f"the login at {login.issuer} has ended, and cannot be renewed: `daggers login` again"
        raise RefusedError(text, reason="LOGIN_ENDED")
    provider = Provider(login.issuer, login.client_id, "", {"token_endpoint": login.token_endpoint})
    try:
        new = provider.request_login(grant_type="refresh_token", refresh_token=login.refresh_token)
    except (ProviderError, RefusedError) as error:
        text = f"the login at {login.issuer} has ended: `daggers login` again ({error.message})"
        raise RefusedError(text, reason="LOGIN_ENDED") from error
    return replace(new, refresh_token=new.refresh_token or login.refresh_token)


def revoked(login: Login) -> bool:
    """Revoke a login at its provider; return whether the provider supports it. Raises: CliError."""
    provider = discover(login.issuer, login.client_id)
    url = provider.endpoint("revocation")
    if url is None or login.refresh_token is None:
        return False
    provider.post(url, token=login.refresh_token)
    return True


def _default_scope(supported: object) -> str:
    listed: Sequence[object] = supported if isinstance(supported, list) else ()
    return " ".join(scope for scope in WANTED if scope == "openid" or scope in listed)


def _safe(url: str) -> str:
    """Return an address that nobody can listen in at. Raises: RefusedError."""
    try:
        parts = urlsplit(url)
        local = parts.scheme == "http" and is_loopback(f"{parts.hostname}:0")
        good = bool(parts.hostname) and (parts.scheme == "https" or local)
    except ValueError:
        good = False
    if not good:
        text = f"{printable(url)[:_CUT]} is no https:// address: nobody logs in there"
        raise RefusedError(text, reason="NO_PROVIDER")
    return url


def _proxy(url: str) -> str | None:
    """Return the proxy for requests to a provider. Raises: RefusedError."""
    parts = urlsplit(url)
    try:
        proxies = Proxies.of_environment(environment().get("DAGGERS_OIDC_PROXY", ""))
    except ValueError as wrong:
        raise RefusedError(f"DAGGERS_OIDC_PROXY {wrong}", reason="BAD_SETTING") from wrong
    return proxies.of(parts.scheme, parts.hostname or "", parts.port or PORTS.get(parts.scheme, 0))


def _answer(issuer: str, method: str, url: str, form: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Request a JSON document; return an empty one where there is no content. Raises: ProviderError,
    UnreachableError.
    """
    try:
        with httpx.Client(
            verify=httpx.create_ssl_context(),  # of the environment's authorities
            proxy=_proxy(url),
            trust_env=False,
            timeout=PATIENCE_S,
            headers={"accept": "application/json"},
        ) as client:
            answer = client.request(method, url, data=form)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        text = (
            f"the provider {issuer} does not answer ({type(error).__name__}: {printable(str(error))[:_CUT]})"
        )
        raise UnreachableError(text, reason="PROVIDER_UNREACHABLE", detail={"address": url}) from error
    document: Any = {}
    if answer.content:
        try:
            document = answer.json()
        except ValueError:
            document = None
    if isinstance(document, dict) and isinstance(document.get("error"), str):
        raise ProviderError(issuer, document["error"], str(document.get("error_description") or ""))
    if answer.status_code >= 500:
        text = f"the provider {issuer} answers {answer.status_code}"
        raise UnreachableError(text, reason="PROVIDER_UNREACHABLE", detail={"address": url})
    if answer.status_code != httpx.codes.OK or not isinstance(document, dict):
        text = f"{url} answers {answer.status_code}, and not as a provider does"
        raise RefusedError(text, reason="NO_PROVIDER")
    return document


def _claims(token: str) -> dict[str, Any]:
    """Return the claims of a token, unverified: it came from the provider itself, and the gateway verifies
    it.
    """
    try:
        body = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    except (IndexError, ValueError):
        return {}
    return claims if isinstance(claims, dict) else {}
