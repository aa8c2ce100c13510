"""Who calls: a name of the token file, a service account, or nobody in particular where nobody is asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Final

from access import Principal, tokens
from api_gateway.fold import Fold
from chassis.interceptors import ANONYMOUS, Call, Concern, Tokens, acts, bearer, name_of, unauthenticated
from fleet.tenancy import ACCOUNT

# Where no token is asked for, which only loopback may be without, everybody is who set it up.
_NOBODY: Final = Principal(ANONYMOUS, administrator=True)
_principal: ContextVar[Principal] = ContextVar("principal", default=_NOBODY)


def principal() -> Principal:
    """Who makes the call that is going on."""
    return _principal.get()


def authentication(
    file: Tokens | None, fold: Fold, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
) -> Concern:
    """Finds out who calls. `file` are the tokens of the token file; None: there is none, and who shows no
    account's token is anonymous."""

    def who_has(token: str) -> Principal | None:
        name = name_of(token, file()) if file is not None else None
        if name is not None:
            return Principal(name, administrator=True)
        if tokens.is_one(token):
            account = tokens.account_of(token, fold.fleet, clock())
            return None if account is None else Principal(ACCOUNT + account)
        return _NOBODY if file is None else None

    @asynccontextmanager
    async def authenticated(call: Call) -> AsyncIterator[None]:
        who = who_has(bearer(call))
        if who is None:
            raise unauthenticated(call)
        if who is not _NOBODY:
            acts(who.name)
        _principal.set(who)
        yield

    return authenticated
