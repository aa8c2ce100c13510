"""Sessions: what is kept, for how long, and that a dump of it logs nobody in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from portal.sessions import LOGIN_S, LOGINS, Login, Sessions, Tokens

TOKENS = Tokens("header.body.signature", "refresh-me", 5000.0)


class Clock:
    """Seconds, as a test sets them."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sessions(tmp_path: Path, clock: Clock) -> Iterator[Sessions]:
    opened = Sessions(tmp_path / "sessions.sqlite", idle_s=100, life_s=1000, clock=clock)
    yield opened
    opened.close()


def test_who_has_the_cookie_is_known_with_their_tokens(sessions: Sessions) -> None:
    secret = sessions.begin("ada", TOKENS)

    found = sessions.find(secret)
    assert found is not None
    assert (found.name, found.tokens, found.began) == ("ada", TOKENS, 1000.0)
    assert sessions.find(secret + "x") is None


def test_the_file_holds_no_cookie(sessions: Sessions, tmp_path: Path) -> None:
    secret = sessions.begin("ada", None)

    held = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"ada" in held
    assert secret.encode() not in held


def test_sessions_outlive_the_process(sessions: Sessions, tmp_path: Path, clock: Clock) -> None:
    secret = sessions.begin("ada", TOKENS)
    sessions.close()

    again = Sessions(tmp_path / "sessions.sqlite", idle_s=100, life_s=1000, clock=clock)
    found = again.find(secret)
    again.close()
    assert found is not None
    assert found.tokens == TOKENS


def test_a_session_that_is_not_used_ends(sessions: Sessions, clock: Clock) -> None:
    secret = sessions.begin("ada", None)

    clock.now += 99
    assert sessions.find(secret) is not None
    clock.now += 100
    assert sessions.find(secret) is None


def test_a_session_that_is_used_ends_all_the_same_at_the_end_of_its_life(
    sessions: Sessions, clock: Clock
) -> None:
    secret = sessions.begin("ada", None)

    used = []
    for _ in range(11):
        used.append(sessions.find(secret) is not None)
        clock.now += 95
    assert used == [True] * 11
    assert sessions.find(secret) is None


def test_what_ended_leaves_nothing_behind(sessions: Sessions, clock: Clock) -> None:
    secret = sessions.begin("ada", TOKENS)
    found = sessions.find(secret)
    assert found is not None

    sessions.end(found.hash)
    sessions.end(found.hash)
    assert sessions.find(secret) is None


def test_renewed_tokens_stay_with_their_session(sessions: Sessions) -> None:
    secret = sessions.begin("ada", TOKENS)
    found = sessions.find(secret)
    assert found is not None

    sessions.renew(found, Tokens("new", None, 9000.0))
    again = sessions.find(secret)
    assert again is not None
    assert again.tokens == Tokens("new", None, 9000.0)


def test_a_login_is_taken_once_and_in_time(sessions: Sessions, clock: Clock) -> None:
    login = Login("nonce", "verifier", "/new")
    sessions.start_login("first", login)
    sessions.start_login("second", login)

    assert sessions.take_login("first") == login
    assert sessions.take_login("first") is None
    clock.now += LOGIN_S + 1
    assert sessions.take_login("second") is None


def test_secrets_are_in_no_repr() -> None:
    assert "refresh-me" not in repr(TOKENS)
    assert "signature" not in repr(TOKENS)
    assert "verifier=" not in repr(Login("nonce", "verifier", "/"))


@pytest.mark.parametrize("names", [20_000, pytest.param(1_000_000, marks=pytest.mark.long)])
def test_of_logins_without_number_the_newest_are_under_way(clock: Clock, names: int) -> None:
    """Anybody may begin one, without a token."""
    memory = Sessions(":memory:", idle_s=100, life_s=1000, clock=clock)
    for number in range(names):
        memory.start_login(f"s{number}", Login("n", "v", "/"))
    held = [number for number in range(names) if memory.take_login(f"s{number}") is not None]
    memory.close()

    assert held == list(range(names - LOGINS, names))
