"""Helpers of test_two_hosts.py: schedulers of two host names on one machine, with one broker and one root."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
from conftest import Stack
from daggers.v1 import events_pb2
from tests.integration.cli import Cli
from tests.integration.faults import header, kill, of_type, process, records, until, up

from chassis import drivers

SECOND = "second"


def find_own_address() -> str:
    """Find an address of this machine beside loopback; empty where it has none."""
    addresses = (address for of_link in psutil.net_if_addrs().values() for address in of_link)
    found = (one.address for one in addresses if one.family.name == "AF_INET")
    return next((address for address in found if not address.startswith("127.")), "")


@dataclass(frozen=True)
class SecondHost:
    """The host that does not lead."""

    service: subprocess.Popen[bytes]
    runs: Path

    @contextmanager
    def freeze(self) -> Iterator[None]:
        """Stop its scheduler and all that it has launched (SIGSTOP), as a host that vanishes and returns."""
        members = [member for driver in drivers.living(self.runs) for member in drivers.members(driver)]
        stopped = [self.service.pid, *(member.pid for member in members)]
        self._send(signal.SIGSTOP, stopped)
        try:
            yield
        finally:
            self._send(signal.SIGCONT, stopped)

    def _send(self, number: signal.Signals, pids: list[int]) -> None:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)


@contextmanager
def scheduler(
    env: Mapping[str, str], folder: Path, event: bytes, label: str, shell: str = ""
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a scheduler, its log in `folder`, until it logs `event`.

    shell: run before it, in name spaces of its own for host name and mounts; empty: as all others are.
    """
    folder.mkdir()
    log = folder / "scheduler.log"
    words = [sys.executable, "-m", "scheduler", "--label", label]
    if shell:
        words = ["unshare", "--uts", "--mount", "sh", "-c", f'{shell} && exec "$0" "$@"', *words]
    with log.open("wb") as out, subprocess.Popen(words, env=env, stderr=out, cwd=folder) as service:
        try:
            until(lambda: event in log.read_bytes())
            yield service
        finally:
            service.terminate()
            service.wait(30)


@contextmanager
def two_hosts(
    stack: Stack, cli: Cli, folder: Path, *, own_files: Mapping[Path, Path] | None = None
) -> Iterator[SecondHost]:
    """Run two hosts in place of the stack's: one leads (zone=a), `second` stands by (zone=b).

    own_files: folders that only the second one sees, by the place where it does.
    """
    root = folder / "shared"
    root.mkdir()
    env = process(stack, "scheduler").environ() | {
        "DAGGERS_SCHEDULER_CHECKPOINT_ROOT": str(root),
        "DAGGERS_SCHEDULER_SPARE": "false",
        "DAGGERS_SCHEDULER_METRICS_BIND": "127.0.0.1:0",
        "DAGGERS_SCHEDULER_MEMORY_MIB": "8000",
    }
    first = env | {"DAGGERS_SCHEDULER_STATE_DIR": str(folder / "first-state")}
    state = folder / "second-state"
    second = env | {
        "DAGGERS_SCHEDULER_STATE_DIR": str(state),
        "DAGGERS_SCHEDULER_HOST_BIND": f"{find_own_address()}:0",
    }
    mounts = [f"mount --bind {files} {place}" for place, files in (own_files or {}).items()]
    shell = " && ".join((f"hostname {SECOND}", *mounts))
    kill(stack, "scheduler")
    try:
        with (
            scheduler(first, folder / "first", b"scheduler.leadership_gained", "zone=a"),
            scheduler(second, folder / SECOND, b"scheduler.standby_begun", "zone=b", shell) as service,
        ):
            until(lambda: bool(find_host(cli, SECOND).get("heard_time")))
            yield SecondHost(service, state / "runs")
    finally:
        up(stack)


def find_host(cli: Cli, name: str) -> dict[str, Any]:
    """Find a host by its name; empty where there is none."""
    hosts: list[dict[str, Any]] = cli("host", "list")
    return next((host for host in hosts if host["name"] == name), {})


def launched_on(stack: Stack, name: str) -> list[str]:
    """List the hosts of a dagger's launches, in their order; a launch may be reported again."""
    facts = [
        events_pb2.Launched.FromString(record.value() or b"")
        for record in of_type(records(stack.kafka, "daggers.control"), events_pb2.Launched)
    ]
    own = [fact for fact in facts if fact.meta.name == name and not fact.adopted]
    return list({fact.meta.generation: fact.driver.host for fact in own}.values())


def replayed_on(stack: Stack, name: str) -> set[str]:
    """Return the hosts on which attempts of replays of a dagger ran."""
    facts = [
        events_pb2.ReplayStarted.FromString(record.value() or b"")
        for record in of_type(records(stack.kafka, "daggers.control"), events_pb2.ReplayStarted)
    ]
    return {fact.process.host for fact in facts if fact.meta.name == name and fact.process.pid}


@dataclass(frozen=True)
class Recovery:
    """Times of a dagger's way from a host that was lost to another one, by the log."""

    silence: timedelta
    """From the loss until the host is gone."""
    placement: timedelta
    """From then until its launch is intended."""
    start: timedelta
    """From then until it is RUNNING."""

    @property
    def total(self) -> timedelta:
        """From the loss until it is RUNNING elsewhere."""
        return self.silence + self.placement + self.start

    def __str__(self) -> str:
        parts = {"silence": self.silence, "placement": self.placement, "start": self.start}
        seconds = [f"{name} {part.total_seconds():.1f} s" for name, part in parts.items()]
        return f"{self.total.total_seconds():.1f} s: {', '.join(seconds)}"


def find_recovery(stack: Stack, name: str, lost_at: datetime) -> Recovery | None:
    """Find how a dagger came to run again after the loss of its host; None while it does not."""
    moments = [lost_at]
    for kind in (events_pb2.HostGone, events_pb2.LaunchIntended, events_pb2.Running):
        own = {SECOND, name} if kind is events_pb2.HostGone else {name}
        found = [
            time
            for record in of_type(records(stack.kafka, "daggers.control"), kind)
            if header(record, "ce_subject").removeprefix("host/") in own
            and (time := datetime.fromisoformat(header(record, "ce_time")).astimezone(UTC)) >= moments[-1]
        ]
        if not found:
            return None
        moments.append(found[0])
    _, gone, intended, running = moments
    return Recovery(gone - lost_at, intended - gone, running - intended)
