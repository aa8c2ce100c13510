"""A tap before InfluxDB: it passes requests on, and writes each row that InfluxDB has taken to a topic.

Points are overwritten, so that InfluxDB itself cannot say when a window had which number.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from confluent_kafka import Producer

_NANOSECOND = 1e-9


@contextmanager
def tapping(influx: str, kafka: str, topic: str) -> Iterator[str]:
    """Serve a tap before the InfluxDB at a URL; give the tap's own URL. Rows go to the topic as JSON,
    with the time at which InfluxDB had acknowledged them.
    """
    producer = Producer({"bootstrap.servers": kafka, "linger.ms": 5})
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(urlsplit(influx).netloc, producer, topic))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        producer.flush(30)


def read_row(line: str) -> dict[str, Any]:
    """Read a point of the line protocol, without escapes: its tags, its whole numbers, and its time."""
    place, fields, stamp = line.split(" ")
    _, *tags = place.split(",")
    row: dict[str, Any] = dict(tag.split("=") for tag in tags)
    for field in fields.split(","):
        name, value = field.split("=")
        row[name] = int(value.removesuffix("i"))
    end = datetime.fromtimestamp(int(stamp) * _NANOSECOND, UTC)
    return {name.removeprefix("tag_"): value for name, value in row.items()} | {
        "window_timestamp": end.isoformat()
    }


def _handler(influx: str, producer: Producer, topic: str) -> type[BaseHTTPRequestHandler]:
    local, own = threading.local(), {"content-length", "transfer-encoding", "connection", "date", "server"}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self._pass_on()
            at = int(time.time() * 1000)
            if "/write" in self.path and body is not None:
                for line in body.decode().splitlines():
                    producer.produce(topic, json.dumps(read_row(line)), timestamp=at)
                producer.poll(0)

        def do_GET(self) -> None:
            self._pass_on()

        def _pass_on(self) -> bytes | None:
            """Pass a request on, and its answer back; return its body where it was taken."""
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if not hasattr(local, "there"):
                local.there = HTTPConnection(influx, timeout=30)
            headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
            local.there.request(self.command, self.path, body, headers)
            answer = local.there.getresponse()
            content = answer.read()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in own:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            return body if answer.status < 300 else None

        def log_message(self, *_: object) -> None:
            """Write nothing: the bench prints numbers."""

    return Handler
