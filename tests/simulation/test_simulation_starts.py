"""A reboot of all hosts, and an edit of all daggers: starts begin as cores are free, as fast as they can.

None is in vain, and what runs is stopped when its start has its turn.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest
from daggers.v1 import events_pb2, spec_pb2
from google.protobuf.message import Message

from eventlog import Record
from eventlog.testing import START
from fleet import Fleet
from fleet.decide.starts import wants_launch, wants_replacement
from fleet.fold.phases import RUNNING, STOPPING
from scheduler.leader import starts
from scheduler.leader.starts import Starts

DRAIN_S = 3.0
"""Time in which a driver finishes its batch and ends."""
LIMIT_S = 60.0
"""A start that takes longer ends itself, as a driver does that cannot read its lease."""


class Reboot:
    """Hosts whose daggers are all to be launched again, on one clock.

    work_s: processor seconds of each start, by dagger. A start gets a core while no more start on its host
    than it has cores; else they share them.
    """

    def __init__(self, hosts: int, cores: int, work_s: dict[str, float]) -> None:
        self.fleet, self.now = Fleet(), START
        self.append(events_pb2.SchedulerStarted(scheduler_id="s", host="h0"))
        for number in range(hosts):
            self.append(events_pb2.HostRegistered(scheduler_id="s", host=f"h{number}", cores=cores, agent=1))
        self.cores, self.work_s = cores, work_s
        self.places = {name: f"h{number % hosts}" for number, name in enumerate(work_s)}
        for name in work_s:
            spec = spec_pb2.DaggerSpec(cluster="c")
            self.append(events_pb2.DaggerRequested(meta=events_pb2.RequestMeta(), name=name, spec=spec))
        self.most: Counter[str] = Counter()
        self.down: Counter[str] = Counter()
        """Most daggers that did not run at once, by host, while they were edited."""
        self.late: list[str] = []
        """Daggers whose start took too long."""

    def append(self, message: Message) -> int:
        sequence, kind = self.fleet.sequence + 1, message.DESCRIPTOR.full_name
        value = message.SerializeToString()
        record = Record(sequence, f"id-{sequence}", "/t", "s", self.now, kind, message, value)
        assert self.fleet.apply(record).changed
        return sequence

    def fact(self, kind: Any, name: str, **fields: Any) -> None:
        generation = 0 if kind is events_pb2.LaunchIntended else self.fleet.daggers[name].generation
        self.append(kind(meta=events_pb2.FactMeta(epoch=0, name=name, generation=generation), **fields))

    def edit(self) -> timedelta:
        """Edit all at once, launch them anew, and return how long that took."""
        since = self.now
        for name in self.work_s:
            spec = spec_pb2.DaggerSpec(cluster="c", sql="other")
            self.append(events_pb2.DaggerRequested(meta=events_pb2.RequestMeta(), name=name, spec=spec))
        self.run()
        return self.now - since

    def count_down(self, host: str) -> int:
        """Count the daggers of a host that do not run."""
        own = (name for name, place in self.places.items() if place == host)
        return sum(self.fleet.daggers[name].phase != RUNNING for name in own)

    def run(self) -> timedelta:
        """Launch all, and return how long that took."""
        queue, due, begun = Starts(self.fleet, lambda: self.now), set(self.work_s), Counter[str]()
        ends: list[tuple[datetime, str]] = []
        while True:
            for name in queue.order(due):
                dagger, host = self.fleet.daggers[name], self.places[name]
                if wants_replacement(dagger) and queue.admits(dagger, host):
                    self.fact(events_pb2.StopIssued, name, mode=events_pb2.STOP_MODE_DRAIN)
                    heapq.heappush(ends, (self.now + timedelta(seconds=DRAIN_S), name))
                    self.down[host] = max(self.down[host], self.count_down(host))
                if not wants_launch(dagger) or not queue.admits(dagger, host):
                    continue
                self.fact(events_pb2.LaunchIntended, name, version=dagger.version, host=host)
                self.fact(events_pb2.Launched, name, driver=events_pb2.DriverHandle(host=host, pid=1))
                begun[host] += 1
                self.most[host] = max(self.most[host], begun[host])
                takes = self.work_s[name] * max(1.0, begun[host] / self.cores)
                if takes > LIMIT_S:
                    self.late.append(name)
                heapq.heappush(ends, (self.now + timedelta(seconds=takes), name))
            due = set()
            if not ends:
                return self.now - START
            self.now, name = heapq.heappop(ends)
            if self.fleet.daggers[name].phase == STOPPING:
                self.fact(events_pb2.Exited, name)
                due = {name}
            else:
                begun[self.places[name]] -= 1
                self.fact(events_pb2.Running, name)


def make_work(daggers: int) -> dict[str, float]:
    random = Random(41)
    return {f"dagger_{number}": random.uniform(8, 20) for number in range(daggers)}


def fair_s(reboot: Reboot) -> float:
    """Return the seconds that the starts of the host with the most work take on its cores."""
    work: Counter[str] = Counter()
    for name, host in reboot.places.items():
        work[host] += math.ceil(reboot.work_s[name])
    return max(work.values()) / reboot.cores


@pytest.mark.parametrize(("daggers", "hosts", "cores"), [(30, 1, 2), (1_000, 10, 4)])
def test_all_run_without_a_failed_start_in_the_time_that_starts_take_and_a_tenth(
    daggers: int, hosts: int, cores: int
) -> None:
    reboot = Reboot(hosts, cores, make_work(daggers))
    took = reboot.run()

    assert {dagger.phase for dagger in reboot.fleet.daggers.values()} == {RUNNING}
    assert (reboot.late, set(reboot.most.values())) == ([], {cores})
    assert took.total_seconds() <= 1.1 * fair_s(reboot)


def test_without_a_limit_most_starts_of_a_reboot_take_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starts, "has_free_core", lambda *_, **__: True)
    reboot = Reboot(1, 2, make_work(30))
    reboot.run()

    assert len(reboot.late) > 15


@pytest.mark.parametrize(("daggers", "hosts", "cores"), [(30, 1, 2), (100, 5, 4)])
def test_an_edit_of_all_stops_each_when_its_start_has_its_turn(daggers: int, hosts: int, cores: int) -> None:
    reboot = Reboot(hosts, cores, make_work(daggers))
    reboot.run()
    took = reboot.edit()

    drains_s = DRAIN_S * math.ceil(daggers / hosts) / cores
    assert all(dagger.current and dagger.phase == RUNNING for dagger in reboot.fleet.daggers.values())
    assert (reboot.late, set(reboot.down.values())) == ([], {cores})
    assert took.total_seconds() <= 1.1 * (fair_s(reboot) + drains_s)


def test_without_a_limit_an_edit_of_all_stops_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    reboot = Reboot(1, 2, make_work(30))
    reboot.run()
    monkeypatch.setattr(starts, "has_free_core", lambda *_, **__: True)
    reboot.edit()

    assert reboot.down["h0"] == 30
