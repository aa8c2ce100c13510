"""Log in by the code flow with PKCE (RFC 7636) and a redirect to loopback (RFC 8252), in this machine's
browser.
"""

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
"""Codes that browsers bring, or the errors; a browser may ask twice, and the first one counts."""


def login(
    provider: Provider,
    steps: Steps,
    say: Callable[[str], None],
    opened: Callable[[str], object] = webbrowser.open,
    patience_s: float = PATIENCE_S,
) -> Login:
    """Log in by a browser. `opened` opens a page in it. Raises: CliError."""
    url = provider.endpoint("authorization")
    if url is None:
        raise RefusedError(f"{provider.issuer} has no page to log in at", reason="NO_PROVIDER")
    state, nonce, verifier = (secrets.token_urlsafe(48) for _ in range(3))
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    with _listening(provider.issuer, state) as (redirect, answers):
        parameters = {
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
            parameters["prompt"] = "consent"  # OpenID Connect requires the user's consent to offline access
        page = f"{url}{'&' if urlsplit(url).query else '?'}{urlencode(parameters)}"
        say(f"log in at {page}")
        # in a thread: a browser within this terminal returns only at its end
        threading.Thread(target=opened, args=(page,), daemon=True).start()
        code = _wait_for_code(answers, steps, patience_s)
    return provider.request_login(
        nonce=nonce,
        grant_type="authorization_code",
        code=code,
        redirect_uri=redirect,
        code_verifier=verifier,
    )


def _wait_for_code(answers: Answers, steps: Steps, patience_s: float) -> str:
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
    """Listen on loopback; yield the redirect URL, and the queue of what browsers bring to it.

    Requests that belong to no login of this process are ignored.
    """
    answers: Answers = SimpleQueue()

    class Handler(BaseHTTPRequestHandler):
        timeout = SILENT_S

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            ours = secrets.compare_digest(query.get("state", "").encode(), state.encode())
            if parts.path != PATH or not ours or query.get("iss", issuer) != issuer:
                self._page(404, "There is nothing here.")
            elif "code" in query:
                self._page(200, "You are logged in. This page can be closed.")
                answers.put(query["code"])
            else:
                self._page(200, "You are not logged in. The terminal says why.")
                error, description = query.get("error", "no code"), query.get("error_description", "")
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
            """Print nothing: the request has the code."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True)
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}{PATH}", answers
        finally:
            server.shutdown()
            serving.join()
