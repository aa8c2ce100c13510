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
AUTHORITY = Path("/run/daggers/client/ca.pem")
TIMEOUT_S = 4
# Where each tells its metrics, which its own loop answers.
METRICS = {"api-gateway": 9101, "scheduler": 9102, "health-monitor": 9103}
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
    _ask(f"http://127.0.0.1:{METRICS['api-gateway']}/metrics")
    return None


def scheduler() -> str | None:
    """Whether it leads: there is no other one here."""
    return None if _metric("scheduler", "daggers_scheduler_leads") else "it does not lead"


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


def _metric(service: str, name: str) -> float:
    """A gauge without labels. Raises: OSError, LookupError when the service does not tell it."""
    for line in _ask(f"http://127.0.0.1:{METRICS[service]}/metrics").decode().splitlines():
        if line.startswith(f"{name} "):
            return float(line.split()[1])
    raise LookupError(f"it tells no {name}")


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
