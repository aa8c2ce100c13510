"""What is kept of a login, and how a code is waited for."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from rich.console import Console

from cli.errors import CliError, RefusedError, UnreachableError
from cli.login import device, provider
from cli.login.credentials import Login
from cli.login.store import Logins
from cli.output.progress import Steps

GATEWAY = "https://daggers.example:50051"
LOGIN = Login("https://id.example", "daggers", "https://id.example/token", "first", "again", 1_000.0)
QUIET = Steps(Console(stderr=True), quiet=True)


class Clock:
    """Time that passes when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@contextmanager
def answering(*answers: dict[str, object]) -> Iterator[str]:
    """An endpoint that gives these answers, one after another, and the last one for ever."""
    left = list(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            answer = left.pop(0) if len(left) > 1 else left[0]
            body = json.dumps(answer).encode()
            self.send_response(400 if "error" in answer else 200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("kept", [LOGIN, replace(LOGIN, refresh_token=None)])
def test_what_is_kept_is_read_however_its_gateway_is_written(tmp_path: Path, kept: Login) -> None:
    Logins(tmp_path).keep(GATEWAY, kept)

    assert Logins(tmp_path).read("https://Daggers.example:50051/") == kept
    assert Logins(tmp_path).read("https://other.example:50051") is None
    assert (Logins(tmp_path).forget(GATEWAY), Logins(tmp_path).forget(GATEWAY)) == (True, False)


def test_a_file_that_is_no_login_says_what_removes_it(tmp_path: Path) -> None:
    Logins(tmp_path).keep(GATEWAY, LOGIN)
    [file] = tmp_path.glob("daggers/logins/*")
    file.write_text("{")

    with pytest.raises(RefusedError, match="daggers logout"):
        Logins(tmp_path).read(GATEWAY)


def test_a_token_is_renewed_once_before_its_end_for_all_who_ask_at_once(tmp_path: Path) -> None:
    now, renewals = [0.0], []
    logins = Logins(tmp_path, lambda: now[0])
    logins.keep(GATEWAY, LOGIN)

    def renew(login: Login) -> Login:
        renewals.append(login.refresh_token)
        return replace(login, id_token="second", refresh_token="rotated", ends=5_000.0)

    token = logins.token(GATEWAY, renew)
    assert token is not None
    early = token()
    now[0] = 950.0
    told: list[str] = []
    asking = [threading.Thread(target=lambda: told.append(token())) for _ in range(4)]
    for each in asking:
        each.start()
    for each in asking:
        each.join(30)

    assert (early, told) == ("first", ["second"] * 4)
    assert renewals == ["again"]


@pytest.mark.parametrize(("now", "raised"), [(950.0, False), (1_000.0, True)])
def test_while_the_provider_is_away_a_token_is_shown_to_its_end(
    tmp_path: Path, now: float, raised: bool
) -> None:
    logins = Logins(tmp_path, lambda: now)
    logins.keep(GATEWAY, LOGIN)

    def away(_: Login) -> Login:
        raise UnreachableError("the provider does not answer", reason="PROVIDER_UNREACHABLE")

    token = logins.token(GATEWAY, away)
    assert token is not None
    try:
        said: str | None = token()
    except UnreachableError:
        said = None

    assert said == (None if raised else "first")


def test_a_login_that_cannot_be_renewed_says_so(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="has ended") as caught:
        provider.renew(replace(LOGIN, refresh_token=None))

    assert caught.value.reason == "LOGIN_ENDED"


CODE = {
    "device_code": "d",
    "user_code": "A\x1b[2JB",
    "verification_uri": "https://id.example/device",
    "interval": 5,
}
PENDING, SLOW = {"error": "authorization_pending"}, {"error": "slow_down"}


def waited(url: str, clock: Clock, say: Callable[[str], None] = lambda _: None) -> Login:
    """What comes of a code that this provider gave."""
    endpoints = {"device_authorization_endpoint": url, "token_endpoint": url}
    return device.login(
        provider.Provider(url, "daggers", "openid", endpoints), QUIET, say, clock.sleep, clock
    )


def test_who_is_asked_to_slow_down_asks_less_often_until_there_is_a_token() -> None:
    clock = Clock()
    with answering(CODE, PENDING, SLOW, PENDING, {"id_token": "a.e30.c"}) as url:
        login = waited(url, clock)

    assert (login.id_token, login.refresh_token) == ("a.e30.c", None)
    assert clock.now == 5 + 5 + 10 + 10


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"error": "access_denied"}, "LOGIN_REFUSED"),
        ({"error": "expired_token"}, "LOGIN_LATE"),
        ({"error": "invalid_client"}, "LOGIN_REFUSED"),
        (PENDING, "LOGIN_LATE"),
        ({"access_token": "no ID token"}, "LOGIN_REFUSED"),
    ],
)
def test_a_wait_for_nothing_ends_with_its_reason(answer: dict[str, object], reason: str) -> None:
    said: list[str] = []
    with answering({**CODE, "expires_in": 60}, answer) as url, pytest.raises(CliError) as caught:
        waited(url, Clock(), said.append)

    assert caught.value.reason == reason
    assert "\x1b" not in said[0]
