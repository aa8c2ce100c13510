"""Who calls: a name of the token file, a service account, a person of the provider; or nobody in particular
where nobody is asked."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Final

from access import Principal, tokens
from api_gateway.auth.oidc import Refused, Verifier
from api_gateway.state.fold import Fold
from chassis.interceptors import ANONYMOUS, Call, Check, acts, bearer, unauthenticated
from chassis.logging import note
from chassis.tokenfile import Tokens, name_of

# Where no token is asked for, which only loopback may be without, everybody is who set it up.
_NOBODY: Final = Principal(ANONYMOUS, administrator=True)
_principal: ContextVar[Principal] = ContextVar("principal", default=_NOBODY)


def principal() -> Principal:
    """Who makes the call that is going on."""
    return _principal.get()


def authentication(
    file: Tokens | None,
    fold: Fold,
    verifier: Verifier | None = None,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    hint: str = "",
) -> Check:
    """Finds out who calls. `file` are the tokens of the token file, `verifier` knows those of a provider;
    `hint` tells who shows none where one is.

    Without both, who shows no account's token is anonymous.
    """
    how = {} if verifier is None else dict(verifier.provider.login)
    if hint:
        how["token_hint"] = hint

    async def who_has(token: str) -> Principal | None:
        name = name_of(token, file()) if file is not None else None
        if name is not None:
            return Principal(name, administrator=True)
        if tokens.is_account_token(token):
            return tokens.account_of(token, fold.fleet, clock())
        if verifier is None:
            return _NOBODY if file is None else None
        try:
            return await verifier.principal(token) if token else None
        except Refused as why:
            note(token=str(why))
            return None

    async def authenticated(call: Call) -> None:
        who = await who_has(bearer(call))
        if who is None:
            raise unauthenticated(call, how)
        if who is not _NOBODY:
            acts(who.name)
        _principal.set(who)

    return authenticated
