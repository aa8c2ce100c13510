"""Compose's second host: its scheduler is the first one's on another name, and both run, as the file says,
with a gateway and Kafka; only Spark and the containers are left out.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.deploy.compose_file import (
    COMPOSE,
    ROOT,
    SERVICES,
    load_script,
    read_command,
    read_environment,
    write_secrets,
)
from tests.deploy.composed_kafka import Broker, installed, started
from tests.documents.pages import Page

from devstack import ports
from devstack.tools import java

FIRST, SECOND = "scheduler", "scheduler-2"
LABELS = {"DAGGERS_HOST_LABELS": "zone=a disk=ssd", "DAGGERS_SECOND_HOST_LABELS": "zone=b"}
DEADLINE_S = 240
BIN = Path(sys.executable).parent


def test_the_second_host_is_the_first_one_with_a_name_and_a_state_of_its_own() -> None:
    first, second = dict(SERVICES[FIRST]), dict(SERVICES[SECOND])
    states = [read_environment(name)["DAGGERS_SCHEDULER_STATE_DIR"] for name in (FIRST, SECOND)]
    root = read_environment(SECOND)["DAGGERS_SCHEDULER_CHECKPOINT_ROOT"]
    of_its_own = {"hostname", "profiles", "command", "environment"}

    assert {key for key in second if second[key] != first.get(key)} == of_its_own
    assert (second["hostname"], second["profiles"]) == (SECOND, ["second-host"])
    assert read_environment(SECOND) | {"DAGGERS_SCHEDULER_STATE_DIR": states[0]} == read_environment(FIRST)
    assert len({*states, root}) == 3
    assert [path for path in (*states, root) if not path.startswith("/var/lib/daggers")] == []
    assert read_command(SECOND, **LABELS)[1:] == ["/run/daggers", "zone=b"]


@dataclass(frozen=True)
class RunningScheduler:
    """Scheduler of one service, as it runs here."""

    process: subprocess.Popen[bytes]
    metrics_port: int

    def find_problem(self) -> str | None:
        """Return what the health check of its container says; None: it is well."""
        healthy = load_script("healthy")
        healthy.METRICS["scheduler"] = self.metrics_port
        try:
            problem: str | None = healthy.scheduler()
        except OSError as error:
            problem = str(error)
        return problem


class LocalDeployment:
    """Services of the Compose file as processes, with places, names and ports of this machine."""

    def __init__(self, folder: Path, broker: Broker) -> None:
        self._folder, self._broker = folder, broker
        self._root = folder / "secrets"
        self._root.mkdir()
        write_secrets(self._root)
        (self._root / "kafka" / "password").write_text(broker.password.read_text())
        (folder / "state").mkdir()
        home = java.system_home(None)
        assert home is not None, "no Java"
        self._home = home
        self._gateway_port = 0

    @contextmanager
    def run(self, name: str, script: str, words: list[str], **addresses: str) -> Iterator[Any]:
        """Run a script of the image as a service, under its host name; addresses: in place of the file's."""
        environment = {
            variable: self._localize(value) for variable, value in read_environment(name).items()
        } | {
            "PATH": f"{BIN}:{os.defpath}:/usr/sbin:/sbin",
            **addresses,
        }
        host = SERVICES[name].get("hostname", name)
        shell = ["unshare", "--uts", "sh", "-c", f'hostname {host} && exec sh "$0" "$@"']
        log = self._folder / f"{name}.log"
        with (
            log.open("wb") as out,
            subprocess.Popen(
                [*shell, COMPOSE / "image" / script, *words], env=environment, stderr=out, stdout=out
            ) as process,
        ):
            try:
                yield process
            finally:
                process.terminate()
                process.wait(60)

    @contextmanager
    def schedule(self, name: str) -> Iterator[RunningScheduler]:
        """Run the scheduler of a service."""
        chosen = ports.choose((f"{name}-host", f"{name}-metrics"), {})
        serves, tells = chosen[f"{name}-host"], chosen[f"{name}-metrics"]
        labels = read_command(name, **LABELS)[2]
        with self.run(
            name,
            "scheduler.sh",
            [str(self._root), labels],
            DAGGERS_SCHEDULER_HOST_BIND=f"0.0.0.0:{serves}",
            DAGGERS_SCHEDULER_METRICS_BIND=f"127.0.0.1:{tells}",
        ) as process:
            yield RunningScheduler(process, tells)

    @contextmanager
    def serve(self) -> Iterator[None]:
        """Run the gateway."""
        chosen = ports.choose(("two-hosts-gateway", "two-hosts-health"), {})
        self._gateway_port = chosen["two-hosts-gateway"]
        with self.run(
            "api-gateway",
            "gateway.sh",
            [str(self._root)],
            DAGGERS_GATEWAY_BIND=f"127.0.0.1:{self._gateway_port}",
            DAGGERS_GATEWAY_HEALTH_BIND=f"127.0.0.1:{chosen['two-hosts-health']}",
            DAGGERS_GATEWAY_METRICS_BIND="127.0.0.1:0",
            DAGGERS_GATEWAY_DATABASE_URL=f"sqlite:///{self._folder / 'gateway.sqlite'}",
        ):
            yield

    def call(self, *words: str) -> Any:
        """Call the command as the operator; return its document, None while the gateway is not there."""
        environment = {
            "PATH": os.defpath,
            "HOME": str(self._folder),
            "DAGGERS_GATEWAY": f"https://localhost:{self._gateway_port}",
            "DAGGERS_CA_FILE": str(self._root / "client" / "ca.pem"),
            "DAGGERS_TOKEN_FILE": str(self._root / "client" / "token"),
        }
        done = subprocess.run(
            [BIN / "daggers", *words, "-o", "json"],
            env=environment, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        return json.loads(done.stdout) if done.returncode == 0 else None

    def list_hosts(self) -> dict[str, Any]:
        """List the hosts that a scheduler has registered and that are heard, by name."""
        hosts = self.call("host", "list") or []
        return {host["name"]: host for host in hosts if host.get("heard_time") and host.get("register_time")}

    def _localize(self, value: str) -> str:
        places = {
            "kafka:9092": self._broker.ours["bootstrap.servers"],
            "/run/daggers": str(self._root),
            "/var/lib/daggers": str(self._folder / "state"),
            "/usr/lib/jvm/default-java": str(self._home),
        }
        for there, here in places.items():
            value = value.replace(there, here)
        return value


def until(condition: Callable[[], Any], folder: Path) -> None:
    """Wait until something is so; fail with what the services logged."""
    end = time.monotonic() + DEADLINE_S
    while not condition():
        logs = "\n".join(log.read_text()[-3000:] for log in folder.glob("*.log"))
        assert time.monotonic() < end, logs
        time.sleep(0.2)  # polling processes that start; bounded by the deadline


def list_page_commands() -> list[list[str]]:
    """List the commands about hosts of the operator's page, in its order, by this deployment's names."""
    blocks = "".join(Page(ROOT / "docs" / "many-machines.md").blocks("console"))
    lines = [line.removeprefix("$ daggers ") for line in blocks.splitlines() if line.startswith("$ daggers ")]
    return [[{"machine-2": SECOND}.get(word, word) for word in shlex.split(line)] for line in lines]


@pytest.mark.long
@pytest.mark.integration
@pytest.mark.skipif(os.getuid() != 0, reason="host names of a test's own need root")
@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_both_hosts_run_as_the_file_says_and_obey_the_operators_page(tmp_path: Path) -> None:
    (kafka := tmp_path / "kafka").mkdir()
    broker = installed(kafka)
    *lines, confirm_gone = list_page_commands()
    with ExitStack() as services:
        services.enter_context(started(broker, kafka))
        broker.grant()
        deployment = LocalDeployment(tmp_path, broker)
        services.enter_context(deployment.serve())
        leader = services.enter_context(deployment.schedule(FIRST))
        until(lambda: leader.find_problem() is None, tmp_path)
        with deployment.schedule(SECOND) as second:
            until(lambda: {*deployment.list_hosts()} == {FIRST, SECOND}, tmp_path)
            until(lambda: second.find_problem() is None, tmp_path)
            hosts = deployment.list_hosts()
            answers = [deployment.call(*words) for words in lines]
        until(lambda: deployment.call(*confirm_gone), tmp_path)
        lost = deployment.call("host", "show", SECOND)
        second = services.enter_context(deployment.schedule(SECOND))
        until(lambda: not deployment.call("host", "show", SECOND).get("gone"), tmp_path)
        leader.process.terminate()
        leader.process.wait(60)
        until(lambda: deployment.list_hosts().get(SECOND, {}).get("leads"), tmp_path)
        problem = second.find_problem()

    assert [hosts[name]["labels"] for name in (FIRST, SECOND)] == [
        {"zone": "a", "disk": "ssd"},
        {"zone": "b"},
    ]
    assert all(host["shared_checkpoints"] for host in hosts.values())
    assert (hosts[FIRST]["leads"], hosts[SECOND]["leads"], problem) == (True, False, None)
    assert [words for words, answer in zip(lines, answers, strict=True) if answer is None] == []
    assert confirm_gone[:2] == ["host", "confirm-gone"]
    assert lost["gone"]["message"] == "its disk is dead"
