"""A health monitor that a bench starts itself, and a server that keeps what receivers of a team are told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from stack import Stack

TEAM: Final = "bench"
_KEY: Final = "whsec_MfKQ9r8GKYqUTwjUPD8ILPZIo2LaLjSw"
_START_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a receiver."""

    at: float
    """Time at which it had come whole, in seconds."""
    path: str
    document: Any


@dataclass(slots=True)
class Receivers:
    """Receivers of the team: a webhook and an Alertmanager, which take whatever they are told."""

    port: int
    calls: list[Call] = field(default_factory=list)

    def register(self, on: Stack) -> None:
        """Register the team with both of them."""
        url = f"http://127.0.0.1:{self.port}"
        files = {"webhook": url, "key": _KEY, "alertmanager": url}
        for name, secret in files.items():
            (on.state_dir / f"receiver-{name}").write_text(secret)
        places = {name: {"file": str(on.state_dir / f"receiver-{name}")} for name in files}
        receivers = [
            {"webhook": {"url": places["webhook"], "key": places["key"]}},
            {"alertmanager": {"url": places["alertmanager"]}},
        ]
        on.run_with_file({"kind": "team", "name": TEAM, "receivers": receivers}, "team", "apply")


@contextmanager
def receiving() -> Iterator[Receivers]:
    """Run the receivers while the context is open."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            receivers.calls.append(Call(time.time(), self.path, json.loads(body)))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receivers = Receivers(server.server_port)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield receivers
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def monitoring(on: Stack, receivers: Receivers) -> Iterator[tuple[subprocess.Popen[str], float]]:
    """Run a monitor that may call the receivers; with how long it took until it served, in seconds."""
    begin = time.monotonic()
    environment = {
        **os.environ,  # noqa: TID251 - for what is started here
        "DAGGERS_MONITOR_KAFKA_BOOTSTRAP_SERVERS": on.kafka,
        "DAGGERS_ALLOWED_HOSTS": f"127.0.0.1:{receivers.port}",
        "DAGGERS_LEADER_TIMEOUT_S": "5",
    }
    command = [sys.executable, "-m", "health_monitor"]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        started, lines = threading.Event(), deque[str](maxlen=5)
        reader = threading.Thread(target=_read, args=(process, started, lines), daemon=True)
        reader.start()
        try:
            if not started.wait(_START_S) or not reader.is_alive():
                raise SystemExit(f"the monitor did not start in {_START_S:g} s: {''.join(lines)}")
            yield process, time.monotonic() - begin
        finally:
            process.terminate()
            reader.join()


def _read(process: subprocess.Popen[str], started: threading.Event, lines: deque[str]) -> None:
    """Read what the monitor says, so that it never waits for its reader. Its end is one of the wait, too."""
    assert process.stdout is not None
    for line in process.stdout:
        lines.append(line)
        if "service.started" in line:
            started.set()
    started.set()
