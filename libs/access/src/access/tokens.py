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


def made(
    account: str, id_: str, secret: bytes, salt: bytes, end: datetime | None
) -> tuple[str, access_pb2.AccountToken]:
    """A token, to be shown once, and what is kept of it."""
    text = urlsafe_b64encode(secret).rstrip(b"=").decode()
    kept = access_pb2.AccountToken(id=id_, salt=salt, hash=_hash(salt, text))
    if end is not None:
        kept.expire_time.FromDatetime(end)
    return f"{_PREFIX}.{account}.{id_}.{text}", kept


def is_one(token: str) -> bool:
    """Whether it is written as a token of an account, good or not."""
    return token.startswith(f"{_PREFIX}.")


def name_in(token: str) -> str:
    """The account that a token says it is of, good or not; empty where it says none."""
    parts = token.split(".") if len(token) <= _LONGEST else []
    return parts[1] if len(parts) == 4 and is_one(token) else ""


def account_of(token: str, fleet: Fleet, now: datetime) -> Principal | None:
    """The account whose token it is; None when it is none that is good now."""
    parts = token.split(".") if len(token) <= _LONGEST else []
    if len(parts) != 4 or parts[0] != _PREFIX:
        return None
    _, name, id_, secret = parts
    entry = fleet.catalogue.accounts.get(name)
    for kept in entry.value.tokens if entry else ():
        if kept.id == id_ and hmac.compare_digest(kept.hash, _hash(kept.salt, secret)):
            return None if _ended(kept, now) else Principal(ACCOUNT + name, ends=_end(kept))
    return None


def _end(kept: access_pb2.AccountToken) -> datetime | None:
    """None also for an end that no clock of ours will reach."""
    seconds = kept.expire_time.seconds
    return datetime.fromtimestamp(seconds, UTC) if 0 < seconds < _MOST_SECONDS else None


def _ended(kept: access_pb2.AccountToken, now: datetime) -> bool:
    return kept.HasField("expire_time") and kept.expire_time.seconds <= now.timestamp()


def _hash(salt: bytes, secret: str) -> bytes:
    return hashlib.sha256(salt + secret.encode()).digest()
