"""In the place of a portal that has no provider: who opens its address, or looks at its health, reads why."""

from __future__ import annotations

import os
import signal
import ssl
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MISSING = (
    "This portal has no provider that people could log in at: set DAGGERS_OIDC_ISSUER and"
    " DAGGERS_OIDC_AUDIENCE in .env, as in deploy/compose/oidc.env, then"
    " docker compose --profile portal up --detach --wait"
)


class Answer(BaseHTTPRequestHandler):
    """The same to everybody."""

    def do_GET(self) -> None:
        """Say what is missing."""
        text = f"{MISSING}\n".encode()
        self.send_response(HTTPStatus.SERVICE_UNAVAILABLE, MISSING)
        self.send_header("content-type", "text/plain; charset=utf-8")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Nothing: it was said at the start."""


def main() -> int:
    """Serve until SIGTERM."""
    settings = os.environ  # noqa: TID251 - a portal's, without what checks them
    host, _, port = settings["DAGGERS_PORTAL_BIND"].rpartition(":")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(settings["DAGGERS_PORTAL_TLS_CERT_FILE"], settings["DAGGERS_PORTAL_TLS_KEY_FILE"])
    with ThreadingHTTPServer((host, int(port)), Answer) as server:
        # Each shakes hands in its own thread: one that says nothing keeps nobody else waiting.
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        sys.stderr.write(f"{MISSING}\n")
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
