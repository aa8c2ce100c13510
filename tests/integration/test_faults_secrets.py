"""Canaries: a secret of every kind that we take stands in no log, event, argument list or Spark page."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import grpc
import psutil
import pytest
import urllib3
from conftest import Stack
from daggers.v1 import gateway_pb2, gateway_pb2_grpc
from services.runtime.tests import httpserver
from services.runtime.tests.httpserver import Reply
from tests.integration.bookings import Bookings, booking
from tests.integration.cli import Cli
from tests.integration.faults import influxql, kill, process, records, serving, until, up

from eventlog.topics import ALERTS, HEARTBEATS, TOPICS, log_topic

pytestmark = [pytest.mark.integration, pytest.mark.long]

KINDS = ("influx_env", "influx_file", "kafka_env", "kafka_file", "slack", "pagerduty", "gateway", "database")
OF_SINKS = ("http", "oauth2", "elasticsearch", "clevertap", "grpc", "redis", "postgres")
PAGES = ("jobs/", "executors/", "environment/", "StreamingQuery/", "SQL/")
RESOURCES = ("", "/environment", "/jobs", "/allexecutors", "/sql")


def test_eight_kinds_of_secret_are_found_nowhere(stack: Stack, cli: Cli, tmp_path: Path) -> None:
    secrets = {kind: uuid4().hex for kind in KINDS}  # 32 characters, as a routing key has
    files = {kind: tmp_path / kind for kind in KINDS}
    for kind, file in files.items():
        user = {"gateway": "bot:", "influx_file": "influx_file:"}.get(kind, "")
        file.write_text(f"{user}{secrets[kind]}\n")
    bookings = Bookings(stack.kafka, cli)
    name, file = using_secrets(bookings, stack, tmp_path, files)
    for kind in ("influx_env", "influx_file"):
        influxql(stack, f"CREATE USER {kind} WITH PASSWORD '{secrets[kind]}' WITH ALL PRIVILEGES")
    kill(stack, "scheduler")
    up(stack, {"CANARY_INFLUX": f"influx_env:{secrets['influx_env']}", "CANARY_KAFKA": secrets["kafka_env"]})

    with ExitStack() as services:
        services.enter_context(monitor(stack, tmp_path, secrets))
        services.enter_context(gateway(stack, tmp_path, files, secrets))
        cli("apply", "-f", file, "--wait")
        driver = cli("get", name)["driver"]
        places = {"arguments": arguments(), "Spark UI": spark_ui(driver["ui_url"])}
        for kind in ("influx_env", "influx_file"):
            influxql(stack, f"DROP USER {kind}")
        bookings.write(booking(second) for second in range(10))  # now the database refuses their tokens
        cli.until(name, lambda dagger: dagger["phase"] != "RUNNING")
        until(lambda: any(map(failed, records(stack.kafka, "daggers.alerts"))))
        places["the CLI"] = repr([cli("get", name), cli("events"), cli.try_("logs", name)]).encode()
        cli("delete", name, "--wait")
    up(stack)
    places |= kept(stack, tmp_path)

    assert found(secrets, places) == set()
    assert b"spark.app.name" in places["Spark UI"]
    assert name.encode() in places[HEARTBEATS]
    assert str(files["kafka_file"]).encode() in places["daggers.control"]  # the reference is there


def test_secrets_of_all_kinds_of_sinks_are_found_nowhere(stack: Stack, cli: Cli, tmp_path: Path) -> None:
    secrets = {kind: uuid4().hex for kind in OF_SINKS}
    files = {kind: tmp_path / kind for kind in OF_SINKS}
    for kind, file in files.items():
        file.write_text(f"{secrets[kind]}\n")
    bookings = Bookings(stack.kafka, cli)
    with httpserver.serving() as server:
        server.answer = lambda _: Reply(503)
        name, spec = bookings.dagger(
            tmp_path,
            start="latest",
            sql="SELECT order_number, rowtime AS event_timestamp FROM data_stream",
            sinks=refusing(server.url, {kind: {"file": str(file)} for kind, file in files.items()}),
        )
        cli("apply", "-f", spec, "--wait")
        places = {"arguments": arguments(), "Spark UI": spark_ui(cli("get", name)["driver"]["ui_url"])}
        server.answer = lambda got: Reply(401, repr((got.headers, got.body)).encode())
        bookings.write(booking(second, order=f"{second}") for second in range(10))
        cli.until(name, lambda dagger: dagger["phase"] != "RUNNING")
        places["the CLI"] = repr([cli("get", name), cli("events"), cli.try_("logs", name)]).encode()
        cli("delete", name, "--wait")
    places |= kept(stack, tmp_path)

    shown = {kind for kind in OF_SINKS if any(secrets[kind] in repr(got) for got in server.received)}
    assert found(secrets, places) == set()
    assert shown >= {"http", "clevertap"}  # so the canaries were told to whom they are for
    assert name.encode() in places[HEARTBEATS]
    assert str(files["redis"]).encode() in places["daggers.control"]


def refusing(url: str, secret: dict[str, dict[str, str]]) -> list[dict[str, Any]]:
    """Sinks of all kinds that have a secret, whose servers refuse whatever is sent, or are not there."""
    nowhere = {"host": "127.0.0.1", "port": 1, "database": "d", "user": "u", "password": secret["postgres"]}
    oauth2 = {"token_url": url, "client_id": "c", "client_secret": secret["oauth2"]}
    basic = {"user": "u", "password": secret["elasticsearch"]}
    account = {"account": "a", "region": "in1", "passcode": secret["clevertap"], "url": url}
    call = {"target": "127.0.0.1:1", "plaintext": True, "method": "x.Y/Z", "message": "it.v1.Booking"}
    keys = {"address": "127.0.0.1:1", "plaintext": True, "key": "order:${order_number}"}
    return [
        {"name": "bearer", "http": {"url": url, "auth": {"bearer": secret["http"]}}},
        {"name": "asked", "http": {"url": url, "auth": {"oauth2": oauth2}}},
        {"name": "found", "elasticsearch": {"url": url, "index": "orders", "auth": {"basic": basic}}},
        {"name": "events", "clevertap": {**account, "event": "booked", "identity": "order_number"}},
        {"name": "called", "grpc": {**call, "auth": {"bearer": secret["grpc"]}}},
        {"name": "cached", "redis": {**keys, "password": secret["redis"]}},
        {"name": "table", "postgres": {"address": nowhere, "table": "orders", "mode": "append"}},
    ]


def kept(stack: Stack, folder: Path) -> dict[str, bytes]:
    """What stands in every topic of the platform and every file, the logs in a folder too."""
    places = {
        topic.name: b"".join(
            (record.value() or b"") + repr(record.headers()).encode()
            for partition in range(topic.partitions)
            for record in records(stack.kafka, topic.name, partition)
        )
        for topic in (*TOPICS, log_topic(ALERTS))
    }
    for written in [*folder.glob("*.log"), *stack.state_dir.rglob("*")]:
        if written.is_file() and "influxdb" not in written.parts:  # it has a user's password to keep
            places[str(written)] = written.read_bytes()
    return places


def found(secrets: dict[str, str], places: dict[str, bytes]) -> set[tuple[str, str]]:
    """Which secrets stand where."""
    return {
        (kind, place)
        for kind, secret in secrets.items()
        for place, text in places.items()
        if secret.encode() in text
    }


def using_secrets(bookings: Bookings, stack: Stack, folder: Path, files: dict[str, Path]) -> tuple[str, Path]:
    """A dagger that uses four of the secrets; Kafka does not ask for its own."""
    cluster = f"canary-{uuid4().hex[:8]}"
    bookings.cli(
        "cluster", "register", cluster, "--kafka", stack.kafka, "--spark-master", "local[1]",
        "--kafka-secret", "sasl.password=env:CANARY_KAFKA",
        "--kafka-secret", f"ssl.key.password=file:{files['kafka_file']}",
        "--influx-url", stack.influx["url"], "--influx-org", "-", "--influx-bucket", "daggers",
        "--influx-token-env", "CANARY_INFLUX",
    )  # fmt: skip
    address = {"url": stack.influx["url"], "org": "-", "bucket": "daggers"}
    return bookings.dagger(
        folder,
        cluster=cluster,
        start="latest",
        sql="SELECT order_number, rowtime AS window_timestamp FROM data_stream",
        sinks=[
            {"influx": {**address, "token": {"env": "CANARY_INFLUX"}}},
            {"influx": {**address, "token": {"file": str(files["influx_file"])}}},
            {"kafka": {"topic": f"out-{uuid4().hex[:8]}", "format": "json"}},
        ],
    )


@contextmanager
def monitor(stack: Stack, folder: Path, secrets: dict[str, str]) -> Iterator[None]:
    """A health monitor in place of the stack's, whose receivers' secrets are canaries; Slack's is refused."""
    env = process(stack, "health-monitor").environ()
    kill(stack, "health-monitor")
    env["DAGGERS_MONITOR_SLACK_URL"] += f"/{secrets['slack']}"
    env["DAGGERS_MONITOR_PAGERDUTY_ROUTING_KEY"] = secrets["pagerduty"]
    env |= {"DAGGERS_MONITOR_HOLD_S": "1", "DAGGERS_MONITOR_PROGRESS_S": "5"}
    with serving("health_monitor", env, folder):
        yield


@contextmanager
def gateway(stack: Stack, folder: Path, files: dict[str, Path], secrets: dict[str, str]) -> Iterator[None]:
    """A second gateway that asks for tokens and has a database with a password, of which none is there."""
    env = process(stack, "gateway").environ()
    port = 20_000 + os.getpid() % 10_000
    address = f"127.0.0.1:{port}"
    env |= {"DAGGERS_GATEWAY_BIND": address, "DAGGERS_GATEWAY_TOKEN_FILE": str(files["gateway"])}
    env["DAGGERS_GATEWAY_DATABASE_URL"] = f"sqlite:///{folder / 'second.sqlite'}"
    with serving("api_gateway", env, folder), grpc.insecure_channel(address) as channel:
        grpc.channel_ready_future(channel).result(60)
        catalog = gateway_pb2_grpc.CatalogServiceStub(channel)
        for token in (secrets["gateway"], secrets["gateway"][::-1]):
            with suppress(grpc.RpcError):
                catalog.ListClusters(
                    gateway_pb2.ListClustersRequest(),
                    timeout=10,
                    metadata=[("authorization", f"Bearer {token}")],
                )
        yield
    refused = subprocess.run(
        [sys.executable, "-m", "api_gateway"],
        env=env | {"DAGGERS_GATEWAY_DATABASE_URL": f"postgresql://u:{secrets['database']}@127.0.0.1:1/x"},
        capture_output=True, timeout=60, check=False, cwd=folder,
    )  # fmt: skip
    (folder / "database.log").write_bytes(refused.stdout + refused.stderr)


def failed(record: object) -> bool:
    """Whether it records that a receiver refused a notification."""
    return b"NotificationFailed" in repr(record.headers()).encode()  # type: ignore[attr-defined] # a Message


def arguments() -> bytes:
    """The command line of every process of this machine."""
    found = []
    for each in psutil.process_iter():
        with suppress(psutil.Error):
            found.append(" ".join(each.cmdline()))
    return "\n".join(found).encode()


def spark_ui(url: str) -> bytes:
    """What a driver's UI shows: its pages, and its REST resources with the environment."""
    with urllib3.PoolManager() as http:
        (application,) = http.request("GET", f"{url}/api/v1/applications").json()
        base = f"{url}/api/v1/applications/{application['id']}"
        answers = [http.request("GET", f"{url}/{page}") for page in PAGES]
        answers += [http.request("GET", f"{base}{resource}") for resource in RESOURCES]
    assert {answer.status for answer in answers} == {200}
    return b"".join(answer.data for answer in answers)
