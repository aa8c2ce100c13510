"""Slack and PagerDuty of the walks: they take what comes, answer as these do, and keep it."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ROUTING_KEY = "of-a-walk-with-thirty-two-letter"
_HEAD = re.compile(r":[a-z_]+: \*(?P<dagger>[^*]+)\*: (?P<turn>[a-z]+), (?:was: )?(?P<condition>.+)")
_SINCE = re.compile(r"since <!date\^(\d+)\^")
_INCIDENT = re.compile(r"^incident (\d+)", re.MULTILINE)
_LINK = re.compile(r"<(https?://[^|]+)\|portal>")


@dataclass(frozen=True)
class Page:
    """What a channel of Slack's shows of an alert."""

    at: float
    """When it came."""
    dagger: str
    condition: str
    incident: int
    resolved: bool
    since: float
    """When it began; 0 where it is not said."""
    facts: dict[str, str]
    """The lines `label: text`."""
    link: str


@dataclass
class Receivers:
    """Who is paged."""

    port: int
    pages: list[Page] = field(default_factory=list)
    """What came to Slack."""
    events: list[dict[str, Any]] = field(default_factory=list)
    """What came to PagerDuty."""

    def environment(self) -> dict[str, str]:
        """The settings of a monitor that tells them."""
        here = f"127.0.0.1:{self.port}"
        return {
            "DAGGERS_MONITOR_SLACK_URL": f"http://{here}/slack",
            "DAGGERS_MONITOR_PAGERDUTY_URL": f"http://{here}/v2/enqueue",
            "DAGGERS_MONITOR_PAGERDUTY_ROUTING_KEY": ROUTING_KEY,
            "DAGGERS_ALLOWED_HOSTS": here,
        }

    def take(self, path: str, body: dict[str, Any]) -> tuple[int, bytes]:
        """Keep what came; the answer."""
        if path == "/slack":
            self.pages.append(_page(body["text"]))
            return 200, b"ok"
        self.events.append(body)
        return 202, json.dumps({"status": "success", "dedup_key": body["dedup_key"]}).encode()


@contextmanager
def receivers() -> Iterator[Receivers]:
    """Listen on loopback while the context is open."""
    kept = Receivers(0)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, answer = kept.take(self.path, body)
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        kept.port = server.server_port
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield kept
        finally:
            server.shutdown()
            thread.join()


def _page(text: str) -> Page:
    head, *lines = text.splitlines()
    said = _HEAD.fullmatch(head)
    assert said, text
    since, link, incident = _SINCE.search(text), _LINK.search(text), _INCIDENT.search(text)
    assert incident, text
    facts = dict(line.split(": ", 1) for line in lines if ": " in line)
    return Page(
        time.time(),
        said["dagger"],
        said["condition"],
        int(incident[1]),
        said["turn"] == "resolved",
        float(since[1]) if since else 0.0,
        facts,
        link[1] if link else "",
    )
