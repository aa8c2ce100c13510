"""Whether a process of this container does its work: healthy.py NAME. Exit code 1: no, and why on stderr.

Run by the container engine every few seconds, so each check asks one question, keeps nothing, and needs
nothing but Python's own library: it takes a tenth of a second of a processor.
"""

from __future__ import annotations

import json
import os
import socket
import ssl
import sys
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlencode, urlsplit
from urllib.request import Request, urlopen

GATEWAY = ("localhost", 50051)
HEALTH = ("127.0.0.1", 50052)
AUTHORITY = Path("/run/daggers/client/ca.pem")
TIMEOUT_S = 4
DATA_FRAME, HEADERS_FRAME, SETTINGS_FRAME = 0, 1, 4
END_STREAM, END_HEADERS = 1, 4
# The answer {status: SERVING}: not compressed, of two bytes.
SERVING = b"\0\0\0\0\x02\x08\x01"
# Where each tells its metrics, which its own loop answers.
METRICS = {"scheduler": 9102, "health-monitor": 9103}
# Leaders beat every few seconds.
BEAT_WITHIN_S = 45


def spark_master() -> str | None:
    """Whether it takes workers and applications, which it does while it waits for those from before, too."""
    status = json.loads(_ask("http://127.0.0.1:8080/json/"))["status"]
    return f"the master is {status}" if status == "STANDBY" else None


def spark_worker() -> str | None:
    """Whether it belongs to a master."""
    worker = json.loads(_ask("http://127.0.0.1:8081/json/"))
    return None if worker.get("masterurl") else "not registered with a master"


def api_gateway() -> str | None:
    """Whether it serves by TLS, as clients ask it, and gets on."""
    context = ssl.create_default_context(cafile=AUTHORITY)
    context.set_alpn_protocols(["h2"])
    with (
        socket.create_connection(GATEWAY, TIMEOUT_S) as plain,
        context.wrap_socket(plain, server_hostname=GATEWAY[0]) as connection,
    ):
        if connection.selected_alpn_protocol() != "h2":
            return "it does not speak HTTP/2"
    return None if serves(HEALTH) else "it does not serve"


def scheduler() -> str | None:
    """Whether it leads, or stands by: another host has a scheduler, too."""
    if _metric("scheduler", "daggers_scheduler_leads"):
        return None
    hosts = [line for line in _metrics("scheduler") if line.startswith("daggers_scheduler_host_drivers{")]
    return None if len(hosts) > 1 else "it does not lead, and no other host is known"


def health_monitor() -> str | None:
    """Whether it leads: there is no other one here."""
    return None if _metric("health-monitor", "daggers_monitor_leads") else "it does not lead"


def portal() -> str | None:
    """Whether it answers by the name that browsers call it by."""
    settings = os.environ  # noqa: TID251 - its settings, without what checks them
    port = settings["DAGGERS_PORTAL_BIND"].rpartition(":")[2]
    name = urlsplit(settings["DAGGERS_PORTAL_PUBLIC_URL"]).netloc
    request = Request(f"https://127.0.0.1:{port}/healthz", headers={"host": name})
    # Its certificate is for browsers, and may be any that an operator has put there.
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with urlopen(request, timeout=TIMEOUT_S, context=context) as answer:  # noqa: S310 - an address of this container
        return None if answer.status == HTTPStatus.OK else f"it answers {answer.status}"


def telemetry() -> str | None:
    """Whether what leaders said lately stands in the database."""
    settings = os.environ  # noqa: TID251 - as above
    token = Path(settings["DAGGERS_TELEMETRY_INFLUX_TOKEN_FILE"]).read_text().strip()
    query = (
        f'from(bucket: "{settings["DAGGERS_TELEMETRY_INFLUX_BUCKET"]}") |> range(start: -{BEAT_WITHIN_S}s)'
        ' |> filter(fn: (r) => r._measurement == "leader_beat") |> limit(n: 1)'
    )
    organisation = urlencode({"org": settings["DAGGERS_TELEMETRY_INFLUX_ORG"]})
    request = Request(  # noqa: S310 - the database of this deployment
        f"{settings['DAGGERS_TELEMETRY_INFLUX_URL']}/api/v2/query?{organisation}",
        data=query.encode(),
        headers={"authorization": f"Token {token}", "content-type": "application/vnd.flux"},
    )
    with urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310 - the database of this deployment
        rows = answer.read().strip()
    return None if rows else f"no leader's beat of the last {BEAT_WITHIN_S} s is in the database"


CHECKS: dict[str, Callable[[], str | None]] = {
    "api-gateway": api_gateway,
    "health-monitor": health_monitor,
    "portal": portal,
    "scheduler": scheduler,
    "spark-master": spark_master,
    "spark-worker": spark_worker,
    "telemetry": telemetry,
}


def serves(address: tuple[str, int]) -> bool:
    """Whether a server of gRPC at an address says that it serves. Raises: OSError.

    What is sent is HTTP/2: its beginning, no settings, and one request of stream 1, whose message is empty.
    """
    headers = {
        ":method": "POST",
        ":scheme": "http",
        ":path": "/grpc.health.v1.Health/Check",
        ":authority": address[0],
        "content-type": "application/grpc",
        "te": "trailers",
    }
    block = b"".join(
        b"\0" + b"".join(bytes([len(text)]) + text.encode() for text in pair) for pair in headers.items()
    )
    asked = _frame(SETTINGS_FRAME) + _frame(HEADERS_FRAME, block, flags=END_HEADERS)
    asked += _frame(DATA_FRAME, bytes(5), flags=END_STREAM)
    with socket.create_connection(address, TIMEOUT_S) as connection, connection.makefile("rb") as answered:
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + asked)
        while len(head := answered.read(9)) == 9:
            body = answered.read(int.from_bytes(head[:3], "big"))
            if head[3] == DATA_FRAME and body:
                return body == SERVING
            if head[3] == HEADERS_FRAME and head[4] & END_STREAM:
                return False
    return False


def _text(text: str) -> bytes:
    return bytes([len(text)]) + text.encode()


def _frame(kind: int, body: bytes = b"", flags: int = 0) -> bytes:
    stream = 0 if kind == SETTINGS_FRAME else 1
    return len(body).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + body


def _metric(service: str, name: str) -> float:
    """A gauge without labels. Raises: OSError, LookupError when the service does not tell it."""
    for line in _metrics(service):
        if line.startswith(f"{name} "):
            return float(line.split()[1])
    raise LookupError(f"it tells no {name}")


def _metrics(service: str) -> list[str]:
    """The lines of what a service tells of itself. Raises: OSError."""
    return _ask(f"http://127.0.0.1:{METRICS[service]}/metrics").decode().splitlines()


def _ask(url: str) -> bytes:
    with urlopen(url, timeout=TIMEOUT_S) as answer:  # noqa: S310 - an address of this container
        text: bytes = answer.read()
    return text


def main() -> int:
    """Run the check that is named."""
    try:
        problem = CHECKS[sys.argv[1]]()
    except Exception as error:  # noqa: BLE001 - whatever it was, the process cannot be told healthy
        problem = f"{type(error).__name__}: {error}"
    if problem is not None:
        sys.stderr.write(f"{problem}\n")
    return 0 if problem is None else 1


if __name__ == "__main__":
    sys.exit(main())
