"""Sessions of people, and logins that are under way: one SQLite file, which logs nobody in who reads it.

A session is known by the SHA-256 of what the browser's cookie holds. What the gateway is shown for it, the
ID token, stays here: no browser has it.
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
"""How long somebody may take to log in at the provider, in seconds."""
LOGINS: Final = 10_000
"""So many are under way at once."""
_SEEN_S: Final = 60.0
"""A use is written down at most this often, in seconds."""

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
    """What the provider gave for a person. Times are seconds since 1970."""

    id_token: str = field(repr=False)
    refresh_token: str | None = field(repr=False)
    ends: float


@dataclass(frozen=True, slots=True)
class Session:
    """Somebody who is logged in. tokens: None where no provider is."""

    hash: bytes
    name: str
    tokens: Tokens | None
    began: float
    seen: float


@dataclass(frozen=True, slots=True)
class Login:
    """A login that is under way: what its answer must fit, and where it leads."""

    nonce: str
    verifier: str = field(repr=False)
    target: str


class Sessions:
    """The file of sessions.

    idle_s, life_s: a session ends when it was not used for so long, and so long after it began.
    clock: seconds since 1970.
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
        """A new session; answers what the cookie must hold. What has ended is removed."""
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
        """The session of a cookie, which it is used by now; None when there is none or it has ended."""
        session = self.known(_hash(secret))
        if session is not None and session.seen < self._clock() - _SEEN_S:
            self._file.execute("UPDATE session SET seen = ? WHERE hash = ?", (self._clock(), session.hash))
        return session

    def known(self, hashed: bytes) -> Session | None:
        """The session of this hash, unless it has ended."""
        row = self._file.execute(
            "SELECT name, id_token, refresh_token, token_ends, began, seen FROM session WHERE hash = ?",
            (hashed,),
        ).fetchone()
        if row is None:
            return None
        name, id_token, refresh_token, ends, began, seen = row
        if self._clock() >= min(seen + self._idle_s, began + self._life_s):
            self.end(hashed)
            return None
        tokens = None if id_token is None else Tokens(id_token, refresh_token, ends)
        return Session(hashed, name, tokens, began, seen)

    def count(self) -> int:
        """How many go on."""
        now = self._clock()
        number = self._file.execute(
            "SELECT count(*) FROM session WHERE seen > ? AND began > ?",
            (now - self._idle_s, now - self._life_s),
        ).fetchone()
        return int(number[0])

    def renew(self, session: Session, tokens: Tokens) -> None:
        """Keep what the provider gave anew."""
        self._file.execute(
            "UPDATE session SET id_token = ?, refresh_token = ?, token_ends = ? WHERE hash = ?",
            (*_columns(tokens), session.hash),
        )

    def end(self, hashed: bytes) -> None:
        """End a session; nothing when there is none."""
        self._file.execute("DELETE FROM session WHERE hash = ?", (hashed,))

    def start_login(self, state: str, login: Login) -> None:
        """Remember a login until its answer comes with this state."""
        now = self._clock()
        self._file.execute("DELETE FROM login WHERE began < ?", (now - LOGIN_S,))
        self._file.execute(
            "INSERT INTO login VALUES (?, ?, ?, ?, ?)",
            (_hash(state), login.nonce, login.verifier, login.target, now),
        )
        # Anybody may begin one: the oldest make room.
        self._file.execute("DELETE FROM login WHERE rowid <= (SELECT max(rowid) FROM login) - ?", (LOGINS,))

    def take_login(self, state: str) -> Login | None:
        """The login of this state, once; None when there is none or it took too long."""
        row = self._file.execute(
            "DELETE FROM login WHERE hash = ? AND began >= ? RETURNING nonce, verifier, target",
            (_hash(state), self._clock() - LOGIN_S),
        ).fetchone()
        return None if row is None else Login(*row)

    def use_ticket(self, nonce: str, ends: float) -> bool:
        """Whether a ticket is used for the first time; it is remembered until it has ended anyway."""
        self._file.execute("DELETE FROM ticket WHERE ends < ?", (self._clock(),))
        used = self._file.execute("INSERT OR IGNORE INTO ticket VALUES (?, ?)", (nonce, ends))
        return used.rowcount == 1


def _columns(tokens: Tokens | None) -> tuple[str | None, str | None, float | None]:
    return (None, None, None) if tokens is None else (tokens.id_token, tokens.refresh_token, tokens.ends)


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
