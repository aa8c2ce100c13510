"""Compose on a real engine: its doors, and a walk from empty volumes through faults, every record recounted.

Where there is no engine `composed.engine` makes one, in the folder that `DAGGERS_COMPOSE_WORK` names.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError
from tests.deploy.composed import ROOT, SCRIPTS, Deployment, Engine, deployed, lacks, say
from tests.deploy.composed_orders import (
    Feed,
    forged,
    launched,
    order_class,
    recounted,
    restart_loops,
    running,
)
from tests.documents.pages import Page, slug
from tests.walks.walk_analyst import FILES, steps

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(7200),
    pytest.mark.skipif(bool(lacks()), reason=lacks() or "an engine can be had"),
]

PATIENCE_S = 400
"""How long a dagger may take to start on a machine that has too much to do; what it took is printed."""
IN_TEAM_BUCKET = "coffee_second"
"""The dagger that writes to the bucket of its team, with a token for that alone."""
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


@pytest.fixture(scope="module")
def deployment(own_engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A deployment that was started from empty volumes."""
    with deployed(own_engine, tmp_path_factory.mktemp("compose")) as ours:
        say(f"up from empty volumes: well after {ours.up():.0f} s")
        yield ours


# ── own schema ──────────────────────────────────────────────────────────────────────────────────────────────


def typed(line: str, ours: Deployment) -> str:
    """What a line of docs/own-schema.md prints under Compose, where `daggers` is what the page says."""
    line = line.replace("HOST:PORT", ours.kafka).replace("CLUSTER", "compose")
    line = re.sub(r"(apply .* --wait)$", rf"\1 --timeout {PATIENCE_S}", line)
    begun = time.monotonic()
    function = 'daggers() { docker compose run --rm -T daggers "$@"; }'
    done = subprocess.run(
        ["bash", "-c", f"{function}\n{line}"],
        check=False, text=True, timeout=PATIENCE_S + 60, capture_output=True, cwd=ours.folder,
        env={**ours.environment, "PATH": f"{Path(sys.executable).parent}:{ours.environment['PATH']}"},
    )  # fmt: skip
    assert (done.returncode == 0) != ("prise" in line and "validate" in line), f"{line}\n{done.stderr}"
    say(f"{line.strip()}: {time.monotonic() - begun:.1f} s")
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


def test_every_process_is_killed_and_every_record_is_counted_once(deployment: Deployment) -> None:
    feed = Feed(deployment, order_class(deployment.folder))
    with feed:
        since = launched(deployment, feed, IN_TEAM_BUCKET)
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
            again = took + 20 + running(deployment)
            say(f"{name}: {took:.0f} s; RUNNING {again:.0f} s after it began; Kafka {feed.pause():.0f} s")
        time.sleep(90)
    loops = restart_loops(deployment)

    assert recounted(deployment, feed, since, IN_TEAM_BUCKET)
    assert loops == []


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
    open_ports = {service: set(scanned(["20", address, "all"])) for service, address in addresses.items()}
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

    assert set(scanned(["20", "127.0.0.1", *ports])) == published
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
    refused.value.close()

    assert done.returncode != 0
    assert [app for app in state["activeapps"] + state["completedapps"] if app["user"] != "daggers"] == []
    assert refused.value.code in (404, 405)


def test_a_stranger_reads_and_writes_no_topic_of_the_platform(deployment: Deployment) -> None:
    consumer = Consumer({"bootstrap.servers": deployment.kafka, "group.id": "stranger", "log_level": 0})
    shown = consumer.list_topics("daggers.control", timeout=60).topics["daggers.control"]
    consumer.close()

    assert forged(deployment) == KafkaError.TOPIC_AUTHORIZATION_FAILED
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
