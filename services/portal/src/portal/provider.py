"""The OpenID Connect provider that people log in at: code flow with PKCE, renewal, revocation.

An ID token is accepted where its signature, issuer, audience, nonce and times are right. The gateway verifies
it again, and alone decides what its bearer may do.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Any, Final

import httpx2
from authlib.integrations.base_client import OAuthError
from authlib.integrations.httpx_client import AsyncOAuth2Client
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from portal.sessions import Login, Tokens

PATIENCE_S: Final = 15.0
_LEEWAY_S: Final = 60
# Algorithms that the gateway accepts, too: none is symmetric, and "none" is not among them.
ALGORITHMS: Final = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
_SAID: Final = 200


class LoginRefused(Exception):  # noqa: N818 - reads as what happened
    """The provider refuses a user, or its token is not valid. The message is one clause."""


class ProviderAway(Exception):  # noqa: N818 - reads as what is wrong
    """The provider does not answer. The message is one clause."""


@dataclass(frozen=True, slots=True)
class OidcClient:
    """The portal's registration at the provider. secret: None for a public client."""

    issuer: str
    id: str
    secret: str | None = field(repr=False)
    scope: str
    redirect: str
    """URL that the provider redirects browsers back to."""


class LoginProvider:
    """A provider, by its discovery document, which is read at the first login and cached."""

    def __init__(self, client: OidcClient) -> None:
        self._client, self._document = client, dict[str, Any]()

    async def begin(self, target: str) -> tuple[str, str, Login]:
        """Return the URL to log in at, the state that its response will have, and the login to remember until
        then.

        target: path that the login leads to. Raises: ProviderAway.
        """
        document = await self._discover()
        state, nonce, verifier = (secrets.token_urlsafe(48) for _ in range(3))
        scope = self._scope(document)
        parameters = {
            "nonce": nonce,
            "code_challenge": create_s256_code_challenge(verifier),
            "code_challenge_method": "S256",
        }
        if "offline_access" in scope.split():
            parameters["prompt"] = "consent"  # OpenID Connect requires the user's consent to offline access
        async with self._http(scope) as http:
            url, _ = http.create_authorization_url(
                document["authorization_endpoint"], state=state, **parameters
            )
        return url, state, Login(nonce, verifier, target)

    async def finish(self, code: str, login: Login) -> tuple[str, Tokens]:
        """Return the display name of the user who logged in, and their tokens. Raises: LoginRefused,
        ProviderAway.
        """
        document = await self._discover()
        answer = await self._call_token_endpoint(
            document, "fetch_token", code=code, code_verifier=login.verifier, grant_type="authorization_code"
        )
        claims, tokens = await self._verify(document, answer, nonce=login.nonce)
        return str(claims.get("email") or claims.get("name") or claims["sub"]), tokens

    async def renew(self, tokens: Tokens) -> Tokens:
        """Renew tokens. Raises: LoginRefused, ProviderAway."""
        if tokens.refresh_token is None:
            raise LoginRefused("the login has ended, and cannot be renewed")
        document = await self._discover()
        answer = await self._call_token_endpoint(
            document, "refresh_token", refresh_token=tokens.refresh_token
        )
        _, new = await self._verify(document, answer)
        return Tokens(new.id_token, new.refresh_token or tokens.refresh_token, new.ends)

    async def revoke(self, tokens: Tokens) -> None:
        """Revoke a login's refresh token where the provider supports it. Raises: ProviderAway."""
        document = await self._discover()
        url = document.get("revocation_endpoint")
        if not isinstance(url, str) or tokens.refresh_token is None:
            return
        async with self._http() as http:
            try:
                await http.revoke_token(url, token=tokens.refresh_token, token_type_hint="refresh_token")  # noqa: S106 - no secret
            except (httpx2.HTTPError, OAuthError) as error:
                raise ProviderAway(f"the provider does not answer ({type(error).__name__})") from error

    async def _discover(self) -> dict[str, Any]:
        if self._document:
            return self._document
        place = f"{self._client.issuer.rstrip('/')}/.well-known/openid-configuration"
        document = await self._read(place)
        needed = ("authorization_endpoint", "token_endpoint", "jwks_uri")
        if document.get("issuer") != self._client.issuer:
            raise ProviderAway(f"{place} is of another issuer")
        if missing := [name for name in needed if not isinstance(document.get(name), str)]:
            raise ProviderAway(f"{place} has no {', '.join(missing)}")
        self._document = document
        return document

    async def _read(self, url: str) -> dict[str, Any]:
        try:
            async with httpx2.AsyncClient(timeout=PATIENCE_S) as http:
                answer = (await http.get(url)).raise_for_status().json()
        except (httpx2.HTTPError, ValueError) as error:
            text = f"the provider {self._client.issuer} does not answer ({type(error).__name__})"
            raise ProviderAway(text) from error
        return answer if isinstance(answer, dict) else {}

    def _http(self, scope: str | None = None) -> AsyncOAuth2Client:
        public = self._client.secret is None
        return AsyncOAuth2Client(
            self._client.id,
            self._client.secret,
            token_endpoint_auth_method="none" if public else "client_secret_basic",
            scope=scope,
            redirect_uri=self._client.redirect,
            timeout=PATIENCE_S,
        )

    def _scope(self, document: dict[str, Any]) -> str:
        listed = document.get("scopes_supported")
        wanted = self._client.scope.split()
        if isinstance(listed, list):
            wanted = [name for name in wanted if name == "openid" or name in listed]
        return " ".join(wanted)

    async def _call_token_endpoint(self, document: dict[str, Any], how: str, **fields: str) -> dict[str, Any]:
        """Call the token endpoint and return its response. Raises: LoginRefused, ProviderAway."""
        async with self._http() as http:
            try:
                answer: dict[str, Any] = await getattr(http, how)(document["token_endpoint"], **fields)
            except OAuthError as error:
                raise LoginRefused(f"the provider refuses: {str(error.error)[:_SAID]}") from error
            except (httpx2.HTTPError, ValueError) as error:
                text = f"the provider {self._client.issuer} does not answer ({type(error).__name__})"
                raise ProviderAway(text) from error
        return answer

    async def _verify(
        self, document: dict[str, Any], answer: dict[str, Any], nonce: str | None = None
    ) -> tuple[dict[str, Any], Tokens]:
        """Verify the ID token of a response; return its claims and the tokens. Raises: LoginRefused,
        ProviderAway.
        """
        text, refresh = answer.get("id_token"), answer.get("refresh_token")
        if not isinstance(text, str):
            raise LoginRefused("the provider gives no ID token")
        keys = await self._read(document["jwks_uri"])
        rules: dict[str, Any] = {
            "iss": {"essential": True, "value": self._client.issuer},
            "aud": {"essential": True, "value": self._client.id},
            "exp": {"essential": True},
            "sub": {"essential": True},
        }
        if nonce is not None:
            rules["nonce"] = {"essential": True, "value": nonce}
        try:
            token = jwt.decode(text, KeySet.import_key_set(keys), algorithms=ALGORITHMS)  # type: ignore[arg-type] # as read
            jwt.JWTClaimsRegistry(leeway=_LEEWAY_S, **rules).validate(token.claims)
        except (JoseError, ValueError) as error:
            raise LoginRefused(f"its ID token is not believed ({type(error).__name__})") from error
        claims = token.claims
        tokens = Tokens(text, refresh if isinstance(refresh, str) else None, float(claims["exp"]))
        return claims, tokens
