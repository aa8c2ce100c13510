"""Authenticate callers: names of the token file, service accounts, and users of an OpenID provider.

Where no token is required, all callers are the anonymous administrator.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Final

from access import Principal, tokens
from api_gateway.auth.oidc import TokenRejected, Verifier
from api_gateway.state.fold import Fold
from chassis.interceptors import ANONYMOUS, Call, Check, bearer, set_actor, unauthenticated_error
from chassis.logging import note
from chassis.tokenfile import Tokens, name_of

# Without tokens, which only a loopback address may serve, every caller is the one who set the gateway up.
_NOBODY: Final = Principal(ANONYMOUS, administrator=True)
_principal: ContextVar[Principal] = ContextVar("principal", default=_NOBODY)


def principal() -> Principal:
    """Return the principal of the current call."""
    return _principal.get()


def authentication(
    file: Tokens | None,
    fold: Fold,
    verifier: Verifier | None = None,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    hint: str = "",
) -> Check:
    """Build the check that authenticates a call and sets its principal.

    file: reads the token file. verifier: verifies ID tokens of a provider. hint: tells callers without a
    token where to get one. Without `file` and `verifier` a caller who has no service account's token is
    anonymous.
    """
    login = {} if verifier is None else dict(verifier.provider.login)
    if hint:
        login["token_hint"] = hint

    async def find_principal(token: str) -> Principal | None:
        name = name_of(token, file()) if file is not None else None
        if name is not None:
            return Principal(name, administrator=True)
        if tokens.is_account_token(token):
            return tokens.account_of(token, fold.fleet, clock())
        if verifier is None:
            return _NOBODY if file is None else None
        try:
            return await verifier.principal(token) if token else None
        except TokenRejected as why:
            note(token=str(why))
            return None

    async def authenticate(call: Call) -> None:
        who = await find_principal(bearer(call))
        if who is None:
            raise unauthenticated_error(call, login)
        if who is not _NOBODY:
            set_actor(who.name)
        _principal.set(who)

    return authenticate
