"""Whether a process of this container does its work: healthy.py NAME. Exit code 1: no, and why on stderr.

Run by the container engine every few seconds, so each check asks one question and keeps nothing.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
import time
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

KAFKA = "kafka:9092"
HEARTBEATS = "daggers.heartbeats"
GATEWAY = "localhost:50051"
AUTHORITY = Path("/run/daggers/client/ca.pem")
TIMEOUT_S = 4
# Leaders beat every few seconds.
BEAT_WITHIN_S = 45


def spark_master() -> str | None:
    """Whether it accepts workers and applications."""
    status = _ask("http://127.0.0.1:8080/json/").get("status")
    return None if status == "ALIVE" else f"the master is {status}"


def spark_worker() -> str | None:
    """Whether it belongs to a master."""
    return None if _ask("http://127.0.0.1:8081/json/").get("masterurl") else "not registered with a master"


def api_gateway() -> str | None:
    """Whether it says that it serves, over TLS, as clients ask it."""
    import grpc
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    with grpc.secure_channel(GATEWAY, grpc.ssl_channel_credentials(AUTHORITY.read_bytes())) as channel:
        try:
            answer = health_pb2_grpc.HealthStub(channel).Check(
                health_pb2.HealthCheckRequest(), timeout=TIMEOUT_S
            )
        except grpc.RpcError as error:
            return f"{error.code().name}: {error.details()}"
    return None if answer.status == health_pb2.HealthCheckResponse.SERVING else "not serving"


def scheduler() -> str | None:
    """Whether a scheduler leads."""
    return asyncio.run(_beat(b"daggers.v1.SchedulerBeat"))


def health_monitor() -> str | None:
    """Whether a monitor leads."""
    return asyncio.run(_beat(b"daggers.v1.MonitorBeat"))


def portal() -> str | None:
    """Whether it answers by the name that browsers call it by."""
    from portal.settings import PortalSettings

    told = PortalSettings()
    asked = Request(
        f"https://127.0.0.1:{told.bind.rpartition(':')[2]}/healthz",
        headers={"host": urlsplit(told.origin).netloc},
    )
    # Its certificate is for browsers, and may be any that an operator has put there.
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with urlopen(asked, timeout=TIMEOUT_S, context=context) as answer:  # noqa: S310 - an address of this container
        return None if answer.status == HTTPStatus.OK else f"it answers {answer.status}"


def telemetry() -> str | None:
    """Whether what leaders said lately stands in the database."""
    from influxdb_client import InfluxDBClient

    from telemetry.settings import TelemetrySettings

    told = TelemetrySettings()
    token = told.influx_token_file.read_text().strip() if told.influx_token_file else ""
    with InfluxDBClient(told.influx_url, token, org=told.influx_org, timeout=TIMEOUT_S * 1000) as client:
        found = client.query_api().query(
            f'from(bucket: "{told.influx_bucket}") |> range(start: -{BEAT_WITHIN_S}s)'
            ' |> filter(fn: (r) => r._measurement == "leader_beat") |> limit(n: 1)'
        )
    return None if found else f"no leader's beat of the last {BEAT_WITHIN_S} s is in the database"


CHECKS: dict[str, Callable[[], str | None]] = {
    "api-gateway": api_gateway,
    "health-monitor": health_monitor,
    "portal": portal,
    "scheduler": scheduler,
    "spark-master": spark_master,
    "spark-worker": spark_worker,
    "telemetry": telemetry,
}


async def _beat(kind: bytes) -> str | None:
    from aiokafka import AIOKafkaConsumer

    consumer = AIOKafkaConsumer(HEARTBEATS, bootstrap_servers=KAFKA, enable_auto_commit=False)
    await consumer.start()
    try:
        partitions = consumer.assignment()
        since = int((time.time() - BEAT_WITHIN_S) * 1000)
        found = await consumer.offsets_for_times(dict.fromkeys(partitions, since))
        ends = await consumer.end_offsets(partitions)
        for partition in partitions:
            start = found[partition]
            if start is None:
                continue
            consumer.seek(partition, start.offset)
            at = start.offset
            while at < ends[partition]:
                fetched = await consumer.getmany(partition, timeout_ms=TIMEOUT_S * 1000)
                if not fetched:
                    break
                for record in fetched[partition]:
                    if ("ce_type", kind) in record.headers:
                        return None
                    at = record.offset + 1
    finally:
        await consumer.stop()
    return f"nobody leads: no beat for {BEAT_WITHIN_S} s"


def _ask(url: str) -> dict[str, object]:
    with urlopen(url, timeout=TIMEOUT_S) as answer:  # noqa: S310 - an address of this container
        found: dict[str, object] = json.load(answer)
    return found


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
