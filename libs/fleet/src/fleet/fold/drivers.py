"""Index the daggers that have drivers, by host, by team and by process, with the sums that placement needs.
Pure.

It changes with each dagger that changes: nothing here goes through all daggers. What changed is counted when
somebody reads, once for each dagger: a service that starts folds millions of records before anybody does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, KeysView, Mapping
from dataclasses import dataclass, field
from typing import Final, Self, TypeAlias

from daggers.v1 import events_pb2

from daggerspec.limits import DRIVER_OVERHEAD_MIB
from daggerspec.priority import is_critical
from fleet.fold.dagger import Dagger
from fleet.fold.footprint import Footprint
from fleet.fold.phases import STARTING, STOPPING

ProcessKey: TypeAlias = tuple[str, str, int, int]
"""Host, boot id, pid and start ticks of a process; of a launch whose process nobody knows its dagger and
generation, and nothing else.
"""


def process_of(driver: events_pb2.DriverHandle | None) -> ProcessKey | None:
    """Return the process of a driver; None while nobody knows it."""
    if driver is None or not driver.pid:
        return None
    return driver.host, driver.boot_id, driver.pid, driver.start_ticks


def launches_of(dagger: Dagger) -> Iterator[tuple[ProcessKey, Footprint]]:
    """Yield the process of each launch of a dagger that runs or may run, and what the launch takes."""
    if dagger.has_own:
        yield process_of(dagger.driver) or (dagger.name, "", dagger.generation, 0), dagger.footprint
    if (shadow := dagger.shadow) is not None:
        yield process_of(shadow.driver) or (dagger.name, "", shadow.generation, 0), shadow.footprint


@dataclass(slots=True)
class Usage:
    """Driver processes that run or may run, and the memory that they count: a process counts once, however
    many launches share it.
    """

    drivers: int = 0
    unsized: int = 0
    """Those of them whose dagger does not say its heap."""
    heap_mib: int = 0
    """Heaps of all others, in MiB."""
    processes: dict[ProcessKey, tuple[int, Footprint]] = field(default_factory=dict)
    """Number of launches of each process that is counted, and what it takes: what the first of them does."""
    shares: Counter[tuple[str, bytes]] = field(default_factory=Counter)
    """Number of drivers by cluster, and by what their specification says of its executors, encoded."""

    @classmethod
    def of(cls, daggers: Iterable[Dagger]) -> Self:
        """Sum up the drivers of daggers."""
        usage = cls()
        for dagger in daggers:
            usage.add(dagger)
        return usage

    def add(self, dagger: Dagger, times: int = 1) -> None:
        """Add the drivers of a dagger; with -1 `times` take them away again."""
        for process, launch in launches_of(dagger):
            before, counted = self.processes.get(process) or (0, launch)
            if (launches := before + times) == 0:
                del self.processes[process]
            else:
                self.processes[process] = launches, counted
            if 0 in (before, launches):
                self._count(counted, times)

    def _count(self, process: Footprint, times: int) -> None:
        self.drivers += times
        if process.heap_mib:
            self.heap_mib += times * process.heap_mib
        else:
            self.unsized += times
        share = process.cluster, process.executors
        self.shares[share] += times
        if not self.shares[share]:
            del self.shares[share]

    def copy(self) -> Usage:
        """Copy the usage."""
        return Usage(self.drivers, self.unsized, self.heap_mib, self.processes.copy(), self.shares.copy())

    def without(self, dagger: Dagger) -> Usage:
        """Return the usage without the drivers of one of its daggers."""
        usage = self.copy()
        usage.add(dagger, -1)
        return usage

    def memory_mib(self, driver_memory_mib: int) -> int:
        """Return the MiB that all processes count. driver_memory_mib: heap of a driver whose dagger does not
        say.
        """
        return self.heap_mib + self.unsized * driver_memory_mib + self.drivers * DRIVER_OVERHEAD_MIB


@dataclass(slots=True)
class HostDrivers:
    """Daggers that have drivers on one host. Read only, outside of this module."""

    daggers: dict[str, Dagger] = field(default_factory=dict)
    """By name."""
    usage: Usage = field(default_factory=Usage)
    critical: Counter[str] = field(default_factory=Counter)
    """Number of critical daggers, by team."""
    streams: Counter[str] = field(default_factory=Counter)
    """Number of daggers that read a stream, by stream."""

    def add(self, dagger: Dagger, times: int = 1) -> None:
        """Add a dagger; with -1 `times` take it away again."""
        if times > 0:
            self.daggers[dagger.name] = dagger
        else:
            del self.daggers[dagger.name]
        self.usage.add(dagger, times)
        self.streams.update({read.stream: times for read in dagger.spec.streams})
        if is_critical(dagger.spec):
            self.critical[dagger.spec.team] += times

    def without(self, dagger: Dagger) -> HostDrivers:
        """Return the same host without one of its daggers."""
        rest = HostDrivers(self.daggers.copy(), self.usage.copy(), self.critical.copy(), self.streams.copy())
        rest.add(dagger, -1)
        return rest


_NONE: Final = HostDrivers()


class DriverIndex:
    """Daggers of which a driver runs or may run."""

    def __init__(self) -> None:
        self._changed: dict[str, tuple[str, Dagger]] = {}
        """Host and newest state of those that changed since anybody read, by name."""
        self._entries: dict[str, tuple[str, Dagger]] = {}
        """Host and state of each as it is counted, by name."""
        self._starting: dict[str, Dagger] = {}
        self._hosts: dict[str, HostDrivers] = {}
        self._teams: dict[str, Usage] = {}
        self._processes: dict[ProcessKey, set[str]] = {}

    @property
    def names(self) -> KeysView[str]:
        """Names of all of them."""
        self._count()
        return self._entries.keys()

    @property
    def starting(self) -> Mapping[str, Dagger]:
        """Those whose start may take a core: STARTING, STOPPING or with a shadow, by name."""
        self._count()
        return self._starting

    @property
    def hosts(self) -> Mapping[str, HostDrivers]:
        """Hosts that have any, by name; of a launch that no host is known of, by the empty one."""
        self._count()
        return self._hosts

    def on(self, host: str, *, beside: str = "") -> HostDrivers:
        """Return the drivers of a host. beside: name of a dagger that is left out."""
        there = self.hosts.get(host, _NONE)
        return there if beside not in there.daggers else there.without(there.daggers[beside])

    def of_team(self, team: str, *, beside: str = "") -> Usage:
        """Return what a team's drivers use, on all hosts. beside: name of a dagger that is left out."""
        self._count()
        usage = self._teams.get(team, _NONE.usage)
        entry = self._entries.get(beside)
        return usage if entry is None or entry[1].spec.team != team else usage.without(entry[1])

    def in_process(self, driver: events_pb2.DriverHandle | None) -> list[Dagger]:
        """List the daggers that have a launch in the process of a driver, in the order of their launches."""
        self._count()
        process = process_of(driver)
        members = self._processes.get(process, ()) if process else ()
        return sorted((self._entries[name][1] for name in members), key=lambda member: member.generation)

    def put(self, dagger: Dagger, host: str) -> None:
        """Replace the state of a dagger. host: of its newest launch, empty where nobody knows it."""
        self._changed[dagger.name] = host, dagger

    def _count(self) -> None:
        """Count what has changed."""
        while self._changed:
            _, (host, dagger) = self._changed.popitem()
            self._replace(host, dagger)

    def _replace(self, host: str, dagger: Dagger) -> None:
        if dagger.occupied and (dagger.phase in (STARTING, STOPPING) or dagger.shadow is not None):
            self._starting[dagger.name] = dagger
        else:
            self._starting.pop(dagger.name, None)
        before = self._entries.get(dagger.name)
        if before is not None:
            if (
                before[0] == host
                and before[1].spec is dagger.spec
                and list(launches_of(before[1])) == list(launches_of(dagger))
            ):
                self._entries[dagger.name] = host, dagger
                self._hosts[host].daggers[dagger.name] = dagger
                return
            self._remove(*before)
        if dagger.occupied:
            self._entries[dagger.name] = host, dagger
            self._hosts.setdefault(host, HostDrivers()).add(dagger)
            self._teams.setdefault(dagger.spec.team, Usage()).add(dagger)
            for process, _ in launches_of(dagger):
                self._processes.setdefault(process, set()).add(dagger.name)

    def _remove(self, host: str, dagger: Dagger) -> None:
        del self._entries[dagger.name]
        for process, _ in launches_of(dagger):
            names = self._processes.get(process, set())
            names.discard(dagger.name)
            if not names:
                self._processes.pop(process, None)
        self._hosts[host].add(dagger, -1)
        if not self._hosts[host].daggers:
            del self._hosts[host]
        self._teams[dagger.spec.team].add(dagger, -1)
        if not self._teams[dagger.spec.team].drivers:
            del self._teams[dagger.spec.team]
