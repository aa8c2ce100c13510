"""Sessions of users, and pending logins: one SQLite file, whose readers cannot log in by it.

A session is identified by the SHA-256 of its cookie's value. The ID token, which authenticates it at the
gateway, stays here: no browser has it.
"""

from __future__ import annotations

import hashlib
import secrets
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

LOGIN_S: Final = 600.0
"""Longest time for a login at the provider, in seconds."""
LOGINS: Final = 10_000
"""Most pending logins."""
_SEEN_S: Final = 60.0
"""Shortest interval, in seconds, in which uses of a session are written."""

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS session (
  hash BLOB PRIMARY KEY, name TEXT NOT NULL, id_token TEXT, refresh_token TEXT, token_ends REAL,
  began REAL NOT NULL, seen REAL NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS login (
  hash BLOB PRIMARY KEY, nonce TEXT NOT NULL, verifier TEXT NOT NULL, target TEXT NOT NULL,
  began REAL NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS login_began ON login (began);
CREATE TABLE IF NOT EXISTS ticket (nonce TEXT PRIMARY KEY, ends REAL NOT NULL) STRICT;
"""


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens of the provider for a user. Times are seconds since 1970."""

    id_token: str = field(repr=False)
    refresh_token: str | None = field(repr=False)
    ends: float


@dataclass(frozen=True, slots=True)
class Session:
    """A user who is logged in. tokens: None where there is no provider."""

    hash: bytes
    name: str
    tokens: Tokens | None
    began: float
    seen: float


@dataclass(frozen=True, slots=True)
class Login:
    """A pending login: what its response must match, and the path that it leads to."""

    nonce: str
    verifier: str = field(repr=False)
    target: str


class Sessions:
    """The file of sessions.

    idle_s, life_s: seconds without use, and since its begin, after which a session ends. clock: seconds since
    1970.
    """

    def __init__(self, file: Path | str, *, idle_s: float, life_s: float, clock: Callable[[], float]) -> None:
        self._file = sqlite3.connect(file, isolation_level=None)
        self._file.execute("PRAGMA journal_mode = WAL")
        self._file.executescript(_TABLES)
        self._idle_s, self._life_s, self._clock = idle_s, life_s, clock

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def begin(self, name: str, tokens: Tokens | None) -> str:
        """Begin a session and return the value of its cookie. Removes sessions that have ended."""
        now, secret = self._clock(), secrets.token_urlsafe(32)
        self._file.execute(
            "DELETE FROM session WHERE seen < ? OR began < ?", (now - self._idle_s, now - self._life_s)
        )
        self._file.execute(
            "INSERT INTO session VALUES (?, ?, ?, ?, ?, ?, ?)",
            (_hash(secret), name, *_columns(tokens), now, now),
        )
        return secret

    def find(self, secret: str) -> Session | None:
        """Return the session of a cookie and note its use; None where there is none, or it has ended."""
        session = self.get(_hash(secret))
        if session is not None and session.seen < self._clock() - _SEEN_S:
            self._file.execute("UPDATE session SET seen = ? WHERE hash = ?", (self._clock(), session.hash))
        return session

    def get(self, hash_: bytes) -> Session | None:
        """Return the session of this hash, unless it has ended."""
        row = self._file.execute(
            "SELECT name, id_token, refresh_token, token_ends, began, seen FROM session WHERE hash = ?",
            (hash_,),
        ).fetchone()
        if row is None:
            return None
        name, id_token, refresh_token, ends, began, seen = row
        if self._clock() >= min(seen + self._idle_s, began + self._life_s):
            self.end(hash_)
            return None
        tokens = None if id_token is None else Tokens(id_token, refresh_token, ends)
        return Session(hash_, name, tokens, began, seen)

    def count(self) -> int:
        """Count the sessions that have not ended."""
        now = self._clock()
        number = self._file.execute(
            "SELECT count(*) FROM session WHERE seen > ? AND began > ?",
            (now - self._idle_s, now - self._life_s),
        ).fetchone()
        return int(number[0])

    def renew(self, session: Session, tokens: Tokens) -> None:
        """Store renewed tokens."""
        self._file.execute(
            "UPDATE session SET id_token = ?, refresh_token = ?, token_ends = ? WHERE hash = ?",
            (*_columns(tokens), session.hash),
        )

    def end(self, hash_: bytes) -> None:
        """End a session; nothing where there is none."""
        self._file.execute("DELETE FROM session WHERE hash = ?", (hash_,))

    def start_login(self, state: str, login: Login) -> None:
        """Store a login until its response arrives with this state."""
        now = self._clock()
        self._file.execute("DELETE FROM login WHERE began < ?", (now - LOGIN_S,))
        self._file.execute(
            "INSERT INTO login VALUES (?, ?, ?, ?, ?)",
            (_hash(state), login.nonce, login.verifier, login.target, now),
        )
        # anybody may begin a login: drop the oldest beyond the limit
        self._file.execute("DELETE FROM login WHERE rowid <= (SELECT max(rowid) FROM login) - ?", (LOGINS,))

    def take_login(self, state: str) -> Login | None:
        """Remove and return the login of this state; None where there is none, or it took too long."""
        row = self._file.execute(
            "DELETE FROM login WHERE hash = ? AND began >= ? RETURNING nonce, verifier, target",
            (_hash(state), self._clock() - LOGIN_S),
        ).fetchone()
        return None if row is None else Login(*row)

    def use_ticket(self, nonce: str, ends: float) -> bool:
        """Return whether a ticket is used for the first time; store it until it has ended anyway."""
        self._file.execute("DELETE FROM ticket WHERE ends < ?", (self._clock(),))
        used = self._file.execute("INSERT OR IGNORE INTO ticket VALUES (?, ?)", (nonce, ends))
        return used.rowcount == 1


def _columns(tokens: Tokens | None) -> tuple[str | None, str | None, float | None]:
    return (None, None, None) if tokens is None else (tokens.id_token, tokens.refresh_token, tokens.ends)


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
