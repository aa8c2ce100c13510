"""Tokens of service accounts: dgr.ACCOUNT.ID.SECRET. Only a salted hash of the secret is kept.

The secret is 32 random bytes, which nobody finds by trying: one round of SHA-256 keeps it, and each call can
be checked. Randomness and the time are the caller's.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import urlsafe_b64encode
from datetime import UTC, datetime
from typing import Final

from daggers.v1 import access_pb2

from access.principal import Principal
from fleet import Fleet
from fleet.fold.tenancy import ACCOUNT

SECRET_BYTES: Final = 32
SALT_BYTES: Final = 16
_PREFIX: Final = "dgr"
_LONGEST: Final = 256
_MOST_SECONDS: Final = 253_402_300_800  # the year 10000


def create_token(
    account: str, id_: str, secret: bytes, salt: bytes, end: datetime | None
) -> tuple[str, access_pb2.AccountToken]:
    """Make a token; return its text, to be shown once, and its salted hash, to be stored."""
    text = urlsafe_b64encode(secret).rstrip(b"=").decode()
    stored = access_pb2.AccountToken(id=id_, salt=salt, hash=_hash(salt, text))
    if end is not None:
        stored.expire_time.FromDatetime(end)
    return f"{_PREFIX}.{account}.{id_}.{text}", stored


def is_account_token(token: str) -> bool:
    """Tell whether a text has the form of an account's token, good or not."""
    return token.startswith(f"{_PREFIX}.")


def name_in(token: str) -> str:
    """Return the account in the text of a token, good or not; empty where there is none."""
    parts = token.split(".") if len(token) <= _LONGEST else []
    return parts[1] if len(parts) == 4 and is_account_token(token) else ""


def account_of(token: str, fleet: Fleet, now: datetime) -> Principal | None:
    """Authenticate a token: return its account, or None when it is no token that is good at `now`."""
    parts = token.split(".") if len(token) <= _LONGEST else []
    if len(parts) != 4 or parts[0] != _PREFIX:
        return None
    _, name, id_, secret = parts
    entry = fleet.catalogue.accounts.get(name)
    for stored in entry.value.tokens if entry else ():
        if stored.id == id_ and hmac.compare_digest(stored.hash, _hash(stored.salt, secret)):
            return None if _is_expired(stored, now) else Principal(ACCOUNT + name, ends=_end(stored))
    return None


def _end(stored: access_pb2.AccountToken) -> datetime | None:
    """Return when a token expires; None also of a time behind the year 9999, which datetime has not."""
    seconds = stored.expire_time.seconds
    return datetime.fromtimestamp(seconds, UTC) if 0 < seconds < _MOST_SECONDS else None


def _is_expired(stored: access_pb2.AccountToken, now: datetime) -> bool:
    return stored.HasField("expire_time") and stored.expire_time.seconds <= now.timestamp()


def _hash(salt: bytes, secret: str) -> bytes:
    return hashlib.sha256(salt + secret.encode()).digest()
