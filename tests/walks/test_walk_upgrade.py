"""An owner upgrades from earlier versions, and back, while daggers run: nothing is lost or doubled.

The order is docs/upgrade.md's. The old version is built from this repository's history and runs beside this
one, on the same Kafka, database and state directory. A producer writes all the time. Every window and every
record of the whole run is counted again in plain Python.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.integration.bookings import NOON, Bookings, booking, counted, recount, window_end
from tests.integration.cli import Cli
from tests.walks.conftest import Say
from tests.walks.earlier import BEFORE_EVENT_TIME, BEFORE_MENDING, BEFORE_TEAMS, built

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(3600)]

WINDOW_S = 10
CITIES = 3
COUNTS = """\
SELECT city_id AS tag_city_id, count(1) AS num_of_bookings,
       TUMBLE_END(rowtime, INTERVAL '10' SECOND) AS window_timestamp
FROM `data_stream` GROUP BY TUMBLE(rowtime, INTERVAL '10' SECOND), city_id"""
FORWARDS = """\
SELECT order_number AS tag_order, fare, rowtime AS window_timestamp FROM `data_stream`"""
ORDER = (("health-monitor", "alert-receiver"), ("scheduler",), ("gateway",))
"""What is replaced one after the other. Clients come last, and first on the way back."""


@dataclass
class Producer:
    """Writes ten bookings a second, of this moment, and keeps what it wrote."""

    bookings: Bookings
    written: list[tuple[float, int]] = field(default_factory=list)
    """(second after noon, city) of each; its order is its place."""
    _ended: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Write until it is ended."""
        while not self._ended.wait(0.1):
            second, city = round(time.time() - NOON, 3), len(self.written) % CITIES + 1
            self.bookings.produce(booking(second, city_id=city, order=f"o{len(self.written)}"))
            self.written.append((second, city))
        self.bookings.flush()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Around its life."""
        thread = threading.Thread(target=self.run)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join(60)


@dataclass(frozen=True)
class Version:
    """A version of the platform, by its command, on the one stack that there is."""

    cli: Cli

    def replaces(self, *parts: str) -> None:
        """End these parts of the stack as an owner does, and start those of this version."""
        pids = self._pids()
        for part in parts:
            process = psutil.Process(pids[part])
            process.send_signal(signal.SIGTERM)
            process.wait(60)
        self.cli("local", "up", "--detach")

        assert all(self.is_of(pid) for part, pid in self._pids().items() if part in parts)

    def is_of(self, pid: int) -> bool:
        """Whether a process runs the code of this version."""
        return psutil.Process(pid).cmdline()[0].startswith(str(self.cli.daggers.parent))

    def gets(self, names: Sequence[str]) -> list[dict[str, Any]]:
        """The daggers, once each of them is RUNNING."""
        return [self.cli.until(name, lambda dagger: dagger["phase"] == "RUNNING") for name in names]

    def writes(self, name: str) -> None:
        """A dagger writes a window that began after this moment."""
        first = window_end(time.time() - NOON + WINDOW_S, WINDOW_S)
        rows = self.cli.rows(name, enough=lambda rows: _newest(rows) >= first)

        assert _newest(rows) >= first

    def _pids(self) -> dict[str, int]:
        return {each["name"]: each["pid"] for each in self.cli("local", "status")["processes"]}


def _newest(rows: Sequence[dict[str, Any]]) -> str:
    return max((row["window_timestamp"] for row in rows), default="")


def launches(daggers: Sequence[dict[str, Any]]) -> list[tuple[int, int]]:
    """Which drivers run: generation and process."""
    return [(dagger["generation"], dagger["driver"]["pid"]) for dagger in daggers]


@pytest.mark.parametrize(
    "before", [BEFORE_MENDING, BEFORE_TEAMS, BEFORE_EVENT_TIME], ids=lambda commit: commit[:8]
)
def test_an_upgrade_from_an_earlier_version_and_the_way_back_lose_and_double_nothing(
    before: str, tmp_path: Path, say: Say
) -> None:
    begun = time.monotonic()
    state = tmp_path / "stack"
    old = Version(Cli(state, built(before, tmp_path / "old")))
    new = Version(Cli(state))
    try:
        old.cli("local", "up", "--detach")
        kafka = old.cli("local", "status")["kafka"]["bootstrap_servers"]
        bookings = Bookings(kafka, old.cli)
        counts, file = bookings.dagger(tmp_path, sql=COUNTS, start="latest")
        old.cli("apply", "-f", file, "--wait")
        forwards, file = bookings.dagger(tmp_path, sql=FORWARDS, start="latest")
        old.cli("apply", "-f", file, "--wait")
        names = (counts, forwards)
        producer = Producer(bookings)
        with producer.running():
            first = launches(old.gets(names))
            old.writes(counts)
            old.cli("log", "export", tmp_path / "control.jsonl", "--kafka", kafka)

            for parts in ORDER:
                new.replaces(*parts)
                say(f"upgrade: {', '.join(parts)} replaced, phases {_phases(old, names)}")
            adopted = launches(new.gets(names))
            new.writes(counts)
            for name in names:
                new.cli("restart", name, "--wait")
            upgraded = launches(new.gets(names))
            new.writes(counts)
            say(f"upgrade: daggers restarted, {len(producer.written):,} records so far")

            for parts in reversed(ORDER):
                old.replaces(*parts)
                say(f"rollback: {', '.join(parts)} replaced, phases {_phases(old, names)}")
            kept = launches(old.gets(names))
            old.writes(counts)
            for name in names:
                old.cli("restart", name, "--wait")
            back = launches(old.gets(names))
            old.writes(counts)
        wanted = recount(producer.written, WINDOW_S)
        windows = old.cli.rows(counts, enough=lambda rows: counted(rows) == wanted)
        orders = old.cli.rows(forwards, enough=lambda rows: len(rows) >= len(producer.written))
    finally:
        new.cli("local", "down")
    say(
        f"upgrade: {len(producer.written):,} records in {len(wanted):,} windows of the whole run,"
        f" {sum((wanted - counted(windows)).values()):,} lost, {sum((counted(windows) - wanted).values()):,}"
        f" doubled, {len(orders):,} forwarded; {time.monotonic() - begun:.0f} s with the old version's build"
    )

    assert counted(windows) == wanted
    assert sorted(int(row["tags"]["tag_order"][1:]) for row in orders) == list(range(len(producer.written)))
    assert adopted == first
    assert kept == upgraded
    assert all(one < other for one, other in zip(first, upgraded, strict=True))
    assert all(one < other for one, other in zip(upgraded, back, strict=True))


def _phases(version: Version, names: Sequence[str]) -> str:
    """What the owner sees of the daggers meanwhile."""
    return ", ".join(version.cli("get", name)["phase"] for name in names)
