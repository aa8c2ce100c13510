"""The code flow with PKCE (RFC 7636) and an answer on loopback (RFC 8252): the browser of this machine."""

import base64
import hashlib
import secrets
import threading
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Empty, SimpleQueue
from typing import Final, TypeAlias
from urllib.parse import parse_qs, urlencode, urlsplit

from cli.errors import RefusedError
from cli.login.credentials import Login
from cli.login.provider import Provider, ProviderError
from cli.output.progress import Steps

PATIENCE_S: Final = 300.0
PATH: Final = "/callback"
TICK_S: Final = 1.0
SILENT_S: Final = 5.0
PAGE: Final = "<!doctype html><title>Daggers</title><p>{}</p>"

Answers: TypeAlias = "SimpleQueue[str | ProviderError]"
"""The code that the browser brings, or why it brings none; a browser may ask twice, and the first counts."""


def login(
    provider: Provider,
    steps: Steps,
    say: Callable[[str], None],
    opened: Callable[[str], object] = webbrowser.open,
    patience_s: float = PATIENCE_S,
) -> Login:
    """Log in so. `opened` shows a page to whoever logs in. Raises: CliError."""
    url = provider.endpoint("authorization")
    if url is None:
        raise RefusedError(f"{provider.issuer} has no page to log in at", reason="NO_PROVIDER")
    state, nonce, verifier = (secrets.token_urlsafe(48) for _ in range(3))
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    with _listening(provider.issuer, state) as (redirect, answers):
        asked = {
            "response_type": "code",
            "client_id": provider.client_id,
            "redirect_uri": redirect,
            "scope": provider.scope,
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        if "offline_access" in provider.scope.split():
            asked["prompt"] = "consent"  # as OpenID Connect has it: who is away must have been asked
        page = f"{url}{'&' if urlsplit(url).query else '?'}{urlencode(asked)}"
        say(f"log in at {page}")
        # A browser that runs in this terminal ends when it is left; one that is none says nothing.
        threading.Thread(target=opened, args=(page,), daemon=True).start()
        code = _awaited(answers, steps, patience_s)
    return provider.granted(
        nonce=nonce,
        grant_type="authorization_code",
        code=code,
        redirect_uri=redirect,
        code_verifier=verifier,
    )


def _awaited(answers: Answers, steps: Steps, patience_s: float) -> str:
    with steps.step("waiting until you have logged in") as report:
        for waited in range(round(patience_s / TICK_S)):
            report(f"({patience_s - waited * TICK_S:.0f} s are left; Ctrl-C ends it)")
            try:
                answer = answers.get(timeout=TICK_S)
            except Empty:
                continue
            if isinstance(answer, ProviderError):
                raise answer
            return answer
    text = "nobody has logged in: `daggers login` again, or with --device for a browser elsewhere"
    raise RefusedError(text, reason="LOGIN_LATE")


@contextmanager
def _listening(issuer: str, state: str) -> Iterator[tuple[str, Answers]]:
    """Where the browser is sent back to, and what it brings there. What is of no login of ours is ignored."""
    answers: Answers = SimpleQueue()

    class Handler(BaseHTTPRequestHandler):
        timeout = SILENT_S

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            said = {name: values[0] for name, values in parse_qs(parts.query).items()}
            ours = secrets.compare_digest(said.get("state", "").encode(), state.encode())
            if parts.path != PATH or not ours or said.get("iss", issuer) != issuer:
                self._page(404, "There is nothing here.")
            elif "code" in said:
                self._page(200, "You are logged in. This page can be closed.")
                answers.put(said["code"])
            else:
                self._page(200, "You are not logged in. The terminal says why.")
                error, description = said.get("error", "no code"), said.get("error_description", "")
                answers.put(ProviderError(issuer, error, description))

        def _page(self, status: int, text: str) -> None:
            body = PAGE.format(text).encode()
            self.send_response(status)
            self.send_header("content-type", "text/html; charset=utf-8")
            self.send_header("content-length", str(len(body)))
            self.send_header("connection", "close")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
            """Codes are not printed."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True)
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}{PATH}", answers
        finally:
            server.shutdown()
            serving.join()
