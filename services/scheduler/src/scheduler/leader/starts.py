"""Holds starts back while their host has as many as cores, as `fleet.decide.starts` decides.

A start is a launch, or the end of a driver that is to be started anew.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from daggerspec.priority import is_critical
from fleet import Dagger, Fleet
from fleet.decide.starts import (
    Order,
    StartCounts,
    count_starts,
    has_free_core,
    may_wait,
    place_in_queue,
    takes_core,
    wants_launch,
    wants_replacement,
)

_CHOOSE_AGAIN: Final = timedelta(seconds=30)
"""Time after which the host of a launch that waits is chosen anew."""


@dataclass(frozen=True, slots=True)
class _Wait:
    """Start that waits for a host that has enough to start."""

    host: str
    sequence: int
    """Newest record of the dagger when the host was chosen."""
    since: datetime


class Starts:
    """The queues of all hosts, for the scheduler that leads."""

    def __init__(self, fleet: Fleet, clock: Callable[[], datetime]) -> None:
        """clock: this instant, UTC."""
        self._fleet, self._now = fleet, clock
        self._waiting: dict[str, _Wait] = {}
        self._counted: tuple[int, StartCounts] = -1, StartCounts()

    @property
    def waiting(self) -> int:
        """Number of starts that wait."""
        return len(self._waiting)

    def order(self, names: Collection[str]) -> list[str]:
        """Return which daggers to look at, in their order: those named, but of launches that wait only the
        ones whose turn may have come, and those whose turn has.
        """
        now, self._counted = self._now(), (-1, StartCounts())
        before = {name: wait for name, wait in self._waiting.items() if self._is_kept(name)}
        # Of those that are looked at now `admits` puts back who still waits: not all are asked to start.
        self._waiting = {name: wait for name, wait in before.items() if not self._is_due(name, wait, now)}
        # a driver that runs until its turn comes is looked after meanwhile
        idle = {name for name in self._waiting if wants_launch(self._fleet.daggers[name])}
        due = {*names, *(before.keys() - self._waiting.keys())} - idle
        return sorted(due, key=lambda name: self._rank(name, now))

    def admits(self, dagger: Dagger, host: str) -> bool:
        """Tell whether a start of a dagger may begin on a host now; else it waits."""
        has_own = dagger.occupied and takes_core(dagger, self._now())  # this start takes its place
        if dagger.unanswered or has_own or self._has_core(dagger, host):
            self._waiting.pop(dagger.name, None)
            return True
        self._waiting[dagger.name] = _Wait(host, dagger.sequence, self._now())
        return False

    def _is_kept(self, name: str) -> bool:
        dagger = self._fleet.daggers.get(name)
        return dagger is not None and (wants_launch(dagger) or wants_replacement(dagger))

    def _is_due(self, name: str, wait: _Wait, now: datetime) -> bool:
        dagger, is_early = self._fleet.daggers[name], wait.since <= now < wait.since + _CHOOSE_AGAIN
        return dagger.sequence != wait.sequence or not is_early or self._has_core(dagger, wait.host)

    def _has_core(self, dagger: Dagger, host: str) -> bool:
        if self._counted[0] != self._fleet.sequence:
            self._counted = self._fleet.sequence, count_starts(self._fleet, self._now())
        return has_free_core(self._fleet, host, self._counted[1], critical=is_critical(dagger.spec))

    def _rank(self, name: str, now: datetime) -> tuple[int, Order | tuple[bool, str]]:
        """Return where a dagger stands: those that want a start last, for others may leave room, and of these
        the ones that run meanwhile; among all others critical ones are first, for they may be launched in the
        same turn.
        """
        dagger = self._fleet.daggers.get(name)
        if dagger is not None and (wants_launch(dagger) or wants_replacement(dagger)):
            return 1 + may_wait(dagger, now), place_in_queue(dagger, now)
        return 0, (dagger is None or not is_critical(dagger.spec), name)
