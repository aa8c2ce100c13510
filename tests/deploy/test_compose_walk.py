"""Compose on a real engine: its doors, and a walk from empty volumes through faults, every record recounted.

Where there is no engine `composed.engine` makes one, in the folder that `DAGGERS_COMPOSE_WORK` names.
"""

from __future__ import annotations

import csv
import io
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from importlib import util
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer
from grpc_tools import protoc
from tests.deploy.composed import ROOT, SCRIPTS, Deployment, Engine, deployed, engine, lacks
from tests.documents.pages import Page, slug
from tests.walks.test_walk_analyst import FILES, steps

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(7200),
    pytest.mark.skipif(bool(lacks()), reason=lacks() or "an engine can be had"),
]

MINUTE_MS = 60_000
GRACE_MS = 30_000
"""A window that ended less than this ago may not be written yet."""
EPHEMERAL = 32768
"""From here on Linux chooses ports by itself."""
PROCESSES = (
    "scheduler",
    "api-gateway",
    "health-monitor",
    "telemetry",
    "influxdb",
    "spark-worker",
    "spark-master",
    "kafka",
)
DAGGER = """\
name: {name}
team: pricing
cluster: compose
streams:
  - {{table: data_stream, stream: coffee_orders, watermark_delay: 10s, idle_timeout: 10s, start: latest}}
sql: |
  SELECT city AS tag_city, count(1) AS orders, sum(price) AS turnover,
         TUMBLE_END(rowtime, INTERVAL '60' SECOND) AS window_timestamp
  FROM data_stream GROUP BY TUMBLE(rowtime, INTERVAL '60' SECOND), city
sinks:
  - {{influx: {{measurement: {name}}}}}
trigger: 1s
emit: final
"""


@pytest.fixture(scope="module")
def own_engine() -> Iterator[Engine]:
    """An engine of the tests' own."""
    with engine() as runs:
        yield runs


@pytest.fixture(scope="module")
def deployment(own_engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A deployment that was started from empty volumes."""
    with deployed(own_engine, tmp_path_factory.mktemp("compose")) as ours:
        say(f"up from empty volumes: well after {ours.up():.0f} s")
        yield ours


def say(line: str) -> None:
    """Print a line for who watches."""
    sys.__stdout__.write(f"\n{time.strftime('%T')} {line}")  # type: ignore[union-attr]
    sys.__stdout__.flush()  # type: ignore[union-attr]


# ── own schema ──────────────────────────────────────────────────────────────────────────────────────────────


def typed(line: str, ours: Deployment) -> str:
    """What a line of docs/own-schema.md prints under Compose, where `daggers` is what the page says."""
    line = line.replace("HOST:PORT", ours.kafka).replace("CLUSTER", "compose")
    function = 'daggers() { docker compose run --rm -T daggers "$@"; }'
    done = subprocess.run(
        ["bash", "-c", f"{function}\n{line}"],
        check=False, text=True, timeout=300, capture_output=True, cwd=ours.folder,
        env={**ours.environment, "PATH": f"{Path(sys.executable).parent}:{ours.environment['PATH']}"},
    )  # fmt: skip
    assert (done.returncode == 0) != ("prise" in line and "validate" in line), f"{line}\n{done.stderr}"
    return done.stdout


def test_the_walk_from_a_schema_of_ones_own_is_the_same_word_for_word(deployment: Deployment) -> None:
    assert any("docker compose run --rm daggers" in step.text for step in steps())
    sent = counted = 0
    mistaken = False
    for step in steps():
        if step.language != "console":
            (deployment.folder / FILES[step.language]).write_text(step.text)
        elif step.text.startswith(("export ", "daggers local ", "daggers() ", "mkdir ", "python3 -m venv ")):
            continue  # the deployment of this test, and its folder
        elif step.shown:
            failed = deployment.try_("run", "--rm", "-T", *step.text.split())
            mistaken = (
                failed.returncode == 1 and step.shown.splitlines()[0].strip() in failed.stderr + failed.stdout
            )
        elif step.text == "daggers rows coffee_by_city":
            end = time.monotonic() + 180
            while counted < sent and time.monotonic() < end:
                rows = json.loads(typed(f"{step.text} --limit 1000 -o json", deployment))
                counted = sum(row["fields"]["num_of_records"] for row in rows)
        else:
            printed = typed(step.text, deployment)
            if step.text.endswith("HOST:PORT 20"):
                sent = int(printed.split()[-1])
    say(f"own schema: {counted} of {sent} records in rows, one mistake with its hint: {mistaken}")

    assert 0 < sent == counted
    assert mistaken


# ── faults ──────────────────────────────────────────────────────────────────────────────────────────────────


class Feed:
    """Orders, each stamped just before it is sent, and what Kafka has of them.

    The next are stamped when those before are acknowledged: while Kafka is away time stands still, and
    nothing is late.
    """

    def __init__(self, ours: Deployment, order: Any) -> None:
        self.sent: list[tuple[int, str, int]] = []
        """Event time (ms), city, price in cents."""
        self._order = order
        self._producer = Producer(
            {"bootstrap.servers": ours.kafka, "enable.idempotence": True, "message.timeout.ms": 3_600_000,
             "log_level": 0}
        )  # fmt: skip
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Feed:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Send no more, and wait until Kafka has all."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(0.25):
            for _ in range(10):
                self._send(int((time.time() - random.random()) * 1000))
            while self._producer.flush(1):
                pass

    def _send(self, at: int) -> None:
        city, cents = random.choice(["berlin", "jakarta"]), random.randint(200, 600)
        order = self._order(city=city, price=cents / 100)
        order.placed_at.FromMilliseconds(at)

        def acknowledged(error: KafkaError | None, _: Message) -> None:
            assert error is None, error
            self.sent.append((at, city, cents))

        self._producer.produce("coffee-orders", order.SerializeToString(), on_delivery=acknowledged)


def order_class(folder: Path) -> Any:
    """The message of docs/own-schema.md."""
    (folder / "coffee.proto").write_text(next(step.text for step in steps() if step.language == "protobuf"))
    well_known = Path(protoc.__file__).parent / "_proto"
    code = protoc.main(["", f"-I{folder}", f"-I{well_known}", f"--python_out={folder}", "coffee.proto"])
    assert code == 0
    spec = util.spec_from_file_location("coffee_pb2", folder / "coffee_pb2.py")
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Order


def windows(feed: Feed, since: int, upto: int) -> dict[tuple[int, str], tuple[int, int]]:
    """Orders and cents of each window (its end in ms) and city, counted in plain Python."""
    orders, cents = Counter[tuple[int, str]](), Counter[tuple[int, str]]()
    for at, city, price in feed.sent:
        if since < (end := (at // MINUTE_MS + 1) * MINUTE_MS) <= upto:
            orders[end, city] += 1
            cents[end, city] += price
    return {key: (orders[key], cents[key]) for key in orders}


def written(ours: Deployment, name: str, since: int, upto: int) -> dict[tuple[int, str], tuple[int, int]]:
    """The same, as InfluxDB has it."""
    flux = f'from(bucket: "daggers") |> range(start: -30d) |> filter(fn: (r) => r._measurement == "{name}")'
    token = ours("exec", "-T", "influxdb", "cat", "/run/daggers/influx/token").strip()
    request = urllib.request.Request(
        f"http://127.0.0.1:{ours.ports['INFLUXDB_PORT']}/api/v2/query?org=daggers",
        json.dumps({"query": flux, "dialect": {"annotations": []}}).encode(),
        {"content-type": "application/json", "authorization": f"Token {token}"},
    )
    values: dict[tuple[int, str], dict[str, float]] = {}
    with urllib.request.urlopen(request, timeout=60) as answer:
        tables = answer.read().decode().split("\r\n\r\n")
    for table in tables:
        for row in csv.DictReader(io.StringIO(table.strip())):
            end = round(datetime.fromisoformat(row["_time"]).timestamp() * 1000)
            if since < end <= upto:
                values.setdefault((end, row["tag_city"]), {})[row["_field"]] = float(row["_value"])
    return {key: (int(of["orders"]), round(of["turnover"] * 100)) for key, of in values.items()}


def running(ours: Deployment, names: list[str], deadline_s: float = 420) -> float:
    """Wait until daggers are RUNNING; how long that took, in seconds."""
    begun = time.monotonic()
    while True:
        done = ours.try_("run", "--rm", "-T", "daggers", "list", "-o", "json")
        if done.returncode == 0:
            phases = {dagger["name"]: dagger["phase"] for dagger in json.loads(done.stdout)}
            if all(phases.get(name) == "RUNNING" for name in names):
                return time.monotonic() - begun
        assert time.monotonic() < begun + deadline_s, f"not RUNNING: {done.stdout}{done.stderr}"
        time.sleep(2)  # polling a deployment; bounded by the deadline


def test_every_process_is_killed_and_every_record_is_counted_once(deployment: Deployment) -> None:
    names = ["coffee_first", "coffee_second"]
    feed = Feed(deployment, order_class(deployment.folder))
    deployment.try_("run", "--rm", "-T", "daggers", "schema", "register", "coffee.proto")
    with feed:
        time.sleep(2)  # the first records make the topic
        deployment.daggers(
            "stream", "register", "coffee_orders", "--cluster", "compose", "--topic", "coffee-orders",
            "--message", "coffee.v1.Order", "--time-field", "placed_at",
        )  # fmt: skip
        for name in names:
            (deployment.folder / f"{name}.yaml").write_text(DAGGER.format(name=name))
            deployment.daggers("apply", f"{name}.yaml", "--wait", timeout=600)
        since = (int(time.time() * 1000) // MINUTE_MS + 2) * MINUTE_MS  # from here on each window is whole
        time.sleep(90)

        def killed(service: str) -> Callable[[], None]:
            return lambda: os.kill(deployment.pid(service), signal.SIGKILL)

        def anew() -> None:
            deployment("down")
            deployment.up()

        faults = {
            **{f"kill -9 {service}": killed(service) for service in PROCESSES},
            "restart": lambda: deployment("restart"),
            "down and up": anew,
        }
        for name, fault in faults.items():
            begun = time.monotonic()
            fault()
            took = time.monotonic() - begun
            time.sleep(20)  # what hangs shows itself
            say(
                f"{name}: {took:.0f} s; RUNNING {took + 20 + running(deployment, names):.0f} s after it began"
            )
        running(deployment, names)
        time.sleep(90)
    time.sleep(GRACE_MS / 1000)
    upto = max(at for at, *_ in feed.sent) - GRACE_MS
    stored = {name: written(deployment, name, since, upto) for name in names}
    counted = windows(feed, since, upto)
    records = sum(orders for orders, _ in counted.values())
    for name in names:
        missing, extra = counted.keys() - stored[name].keys(), stored[name].keys() - counted.keys()
        wrong = [key for key in counted.keys() & stored[name].keys() if counted[key] != stored[name][key]]
        say(f"{name}: {records} records in {len(counted)} rows: missing {len(missing)}, extra {len(extra)},"
            f" wrong {len(wrong)}")  # fmt: skip

    assert records > 0
    assert stored == dict.fromkeys(names, counted)


# ── doors ───────────────────────────────────────────────────────────────────────────────────────────────────


def table() -> dict[str, set[int]]:
    """The ports of the runbook, by their containers."""
    section = Page(ROOT / "docs" / "operations.md").section(slug("Ports of Compose"))
    known: dict[str, set[int]] = {}
    for cell in re.findall(r"^\| (`[^|]*) \|", section, re.MULTILINE):
        for part in re.findall(r"`([\w-]+)` ([\d, ]+\d)", cell):
            known.setdefault(part[0], set()).update(map(int, part[1].split(", ")))
    return known


def scanned(words: list[str]) -> list[int]:
    """The ports of an address that take a connection from this machine."""
    done = subprocess.run(
        [sys.executable, SCRIPTS / "scan.py", *words],
        check=True, capture_output=True, text=True, timeout=1200,
    )  # fmt: skip
    ports: list[int] = json.loads(done.stdout)
    return ports


def scanned_by_a_stranger(own_engine: Engine, network: str, words: list[str]) -> list[int]:
    """The same from a container that is not ours, in this network."""
    printed = own_engine.run(
        "docker", "run", "--rm", "--network", network, "--volume", f"{SCRIPTS}:/scripts:ro",
        "daggers-base/python", "python3", "/scripts/scan.py", *words,
    )  # fmt: skip
    ports: list[int] = json.loads(printed)
    return ports


def test_every_port_is_one_that_the_runbook_knows(deployment: Deployment, own_engine: Engine) -> None:
    known, addresses = table(), deployment.addresses()
    open_ports = {service: set(scanned(["1", address, "all"])) for service, address in addresses.items()}
    for service in sorted(open_ports):
        say(f"{service}: {sorted(open_ports[service])}")
    unknown = {service: ports - known.get(service, set()) for service, ports in open_ports.items()}
    # Spark's between drivers and executors change.
    changing = {port for service in ("scheduler", "spark-worker") for port in unknown.pop(service)}

    assert set().union(*unknown.values()) == set()
    assert min(changing, default=EPHEMERAL) >= EPHEMERAL
    assert {
        service for service in known.keys() & open_ports if not known[service] <= open_ports[service]
    } == set()
    assert 6066 not in open_ports["spark-master"]
    for service, address in addresses.items():
        ports = [str(port) for port in sorted(open_ports[service])]
        if not ports:
            continue
        assert scanned_by_a_stranger(own_engine, "bridge", ["2", address, *ports]) == []
        inside = scanned_by_a_stranger(own_engine, f"{deployment.name}_default", ["2", address, *ports])
        assert set(inside) <= open_ports[service]


def test_what_is_published_is_published_on_loopback(deployment: Deployment, own_engine: Engine) -> None:
    published = set(deployment.ports.values()) - {
        deployment.ports["GRAFANA_PORT"],
        deployment.ports["DAGGERS_PORTAL_PORT"],
    }
    ports = [str(port) for port in sorted(published)]
    shown = own_engine.run(
        "docker", "network", "inspect", "bridge", "--format", "{{(index .IPAM.Config 0).Gateway}}"
    )
    host = shown.strip()

    assert set(scanned(["2", "127.0.0.1", *ports])) == published
    assert scanned(["2", host, *ports]) == []
    assert scanned_by_a_stranger(own_engine, "bridge", ["2", host, *ports]) == []
    assert scanned_by_a_stranger(own_engine, f"{deployment.name}_default", ["2", host, *ports]) == []


def test_spark_runs_nothing_for_a_stranger(deployment: Deployment) -> None:
    master = deployment.addresses()["spark-master"]
    program = (
        "import sys; from pyspark.sql import SparkSession; "
        "session = SparkSession.builder.master(sys.argv[1]).config('spark.ui.enabled', 'false'); "
        "session.getOrCreate().range(9).count()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, f"spark://{master}:7077"],
        check=False, capture_output=True, text=True, timeout=400,
    )  # fmt: skip
    with urllib.request.urlopen(f"http://{master}:8080/json/", timeout=30) as answer:
        state = json.load(answer)
    kill = urllib.request.Request(f"http://{master}:8080/app/kill/", b"id=app-1&terminate=true")
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(kill, timeout=30)

    assert done.returncode != 0
    assert [app for app in state["activeapps"] + state["completedapps"] if app["user"] != "daggers"] == []
    assert refused.value.code in (404, 405)


def test_a_stranger_reads_and_writes_no_topic_of_the_platform(deployment: Deployment) -> None:
    codes = []
    producer = Producer({"bootstrap.servers": deployment.kafka, "message.timeout.ms": 20_000, "log_level": 0})
    producer.produce("daggers.control", b"x", on_delivery=lambda error, _: codes.append(error.code()))
    producer.flush(60)
    consumer = Consumer({"bootstrap.servers": deployment.kafka, "group.id": "stranger", "log_level": 0})
    shown = consumer.list_topics("daggers.control", timeout=60).topics["daggers.control"]
    consumer.close()

    assert codes == [KafkaError.TOPIC_AUTHORIZATION_FAILED]
    assert shown.error is not None
    assert shown.error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_no_secret_is_where_somebody_looks(deployment: Deployment, own_engine: Engine) -> None:
    properties = deployment("exec", "-T", "spark-master", "cat", "/run/daggers/spark/properties")
    secrets = {
        "Spark": properties.split()[-1],
        "Kafka": deployment("exec", "-T", "scheduler", "cat", "/run/daggers/kafka/password").strip(),
        "InfluxDB": deployment("exec", "-T", "influxdb", "cat", "/run/daggers/influx/token").strip(),
    }
    containers = deployment("ps", "--all", "--quiet").split()
    places = {
        "arguments": "".join(
            file.read_bytes().decode(errors="replace") for file in Path("/proc").glob("[0-9]*/cmdline")
        ),
        "containers": own_engine.run("docker", "inspect", *containers),
        "logs": deployment("logs", "--no-color"),
        "pages of Spark": "".join(pages(deployment)),
    }

    assert [
        (name, place) for name, secret in secrets.items() for place, text in places.items() if secret in text
    ] == []


def pages(ours: Deployment) -> Iterator[str]:
    """What the pages of the master, the worker and each driver show."""
    addresses = ours.addresses()
    master, worker = addresses["spark-master"], addresses["spark-worker"]
    urls = [f"http://{master}:8080/", f"http://{master}:8080/environment/", f"http://{worker}:8081/"]
    ui = [
        dagger["driver"]["ui_url"]
        for dagger in json.loads(ours.daggers("list", "-o", "json"))
        if dagger.get("driver")
    ]
    ports = [url.rpartition(":")[2] for url in ui]
    urls += [f"http://{addresses['scheduler']}:{port}/environment/" for port in ports]
    for url in urls:
        with urllib.request.urlopen(url, timeout=30) as answer:
            yield answer.read().decode()
