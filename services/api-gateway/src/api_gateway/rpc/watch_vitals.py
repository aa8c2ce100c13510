"""WatchVitals: the vitals of all daggers or one: first as they are, then their changes.

A step contains states, not differences, so nobody needs one that was missed. It is computed once for all
watches: at once for changes of the log, every second for heartbeats. A slow watcher gets several steps merged
into one; one that begins again misses only intermediate states.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from daggers.v1 import gateway_pb2, vitals_pb2

from api_gateway.not_found import no_dagger
from api_gateway.rpc.paging import fitting
from api_gateway.state.fold import Fold
from api_gateway.state.heartbeat_cache import HeartbeatCache
from api_gateway.watch_limits import damage_error, shutdown_error
from chassis.errors import invalid
from daggerspec import fields
from eventlog.follower import Follower
from fleet import ApplyResult, Dagger
from fleet.health.watch import Watch

Response = gateway_pb2.WatchVitalsResponse

GATHER_S: Final = 0.1
"""Least time between steps, in seconds: a change often comes as several records."""
HEAR_S: Final = 1.0
"""Interval in which heartbeats are read, in seconds."""
LOOK_S: Final = 5.0
"""Interval in which a silent dagger is examined, in seconds: silence changes its vitals, too."""


@dataclass(frozen=True)
class Step:
    """Changes since the step before. Pure."""

    sequence: int
    """Sequence of the state."""
    vitals: Mapping[str, vitals_pb2.Vitals]
    """Changed vitals by name."""
    changed: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        """Return whether there is any change."""
        return bool(self.vitals or self.changed or self.gone)

    def behind(self, before: Step) -> Step:
        """Merge this step with the one before it, for a watcher that got neither."""
        older = {name: vitals for name, vitals in before.vitals.items() if name not in self.gone}
        return Step(
            self.sequence,
            {**older, **self.vitals},
            before.changed - self.gone | self.changed,
            before.gone - self.changed | self.gone,
        )

    def of(self, name: str) -> Step:
        """Return the step's part about one dagger."""
        one = {name}
        vitals = {name: self.vitals[name]} if name in self.vitals else {}
        return Step(self.sequence, vitals, self.changed & one, self.gone & one)

    @cached_property
    def answers(self) -> list[Response]:
        """Build the step's responses, at least one; all watches share them."""
        pending = [vitals for _, vitals in sorted(self.vitals.items())]
        page = fitting(pending)
        answers = [
            Response(
                vitals=page, gone=sorted(self.gone), changed=sorted(self.changed), sequence=self.sequence
            )
        ]
        while pending := pending[len(page) :]:
            page = fitting(pending)
            answers.append(Response(vitals=page, sequence=self.sequence))
        return answers


@dataclass(frozen=True, slots=True)
class _Examination:
    """The state of a dagger at its last examination."""

    dagger: Dagger
    watch: Watch
    time: float
    vitals: vitals_pb2.Vitals


@dataclass(eq=False, slots=True)
class _Watcher:
    """One watch: the dagger that it follows (empty: all), and the step to send next."""

    name: str
    due: Step | None = None


class Vitals:
    """The steps of all watches of a gateway. For one event loop."""

    def __init__(self, heartbeats: HeartbeatCache, follower: Follower[ApplyResult], fold: Fold) -> None:
        self._heartbeats, self._follower, self._fold = heartbeats, follower, fold
        self._examinations: dict[str, _Examination] = {}
        self._watchers: set[_Watcher] = set()
        self._sequence = -1
        self._stepped = self._listened = float("-inf")

    async def run(self) -> None:
        """Step until cancelled, while anybody watches."""
        clock = asyncio.get_running_loop().time
        while True:
            await self._follower.until(lambda: bool(self._watchers))
            with suppress(TimeoutError):
                async with asyncio.timeout_at(self._listened + HEAR_S):
                    await self._follower.until(lambda: self._fold.fleet.sequence != self._sequence)
            await asyncio.sleep(self._stepped + GATHER_S - clock())
            self._step(clock())

    async def watch(self, request: gateway_pb2.WatchVitalsRequest) -> AsyncGenerator[Response, None]:
        """Yield the steps of one watch. Other watches share them: callers must not change them.

        Raises: ApiError, NOT_FOUND when the dagger is not there, UNAVAILABLE when the gateway drains,
        FAILED_PRECONDITION when the log is damaged.
        """
        name, follower = request.name, self._follower
        wrong = list(fields.name("name", name)) if name else []
        if wrong:
            raise invalid(wrong)
        if name and self._fold.fleet.living(name) is None:
            raise no_dagger(name, self._fold.fleet)
        with self._watching(name) as watcher:
            while not (follower.draining or follower.damage):
                step, watcher.due = watcher.due, None
                if step is not None:
                    for answer in step.answers:
                        yield answer
                    if name in step.gone:
                        return
                await follower.until(
                    lambda: bool(watcher.due is not None or follower.draining or follower.damage)
                )
        raise damage_error(follower.damage, follower.sequence) if follower.damage else shutdown_error()

    @contextmanager
    def _watching(self, name: str) -> Iterator[_Watcher]:
        """Register a watcher, which first gets the present state, then each step."""
        if not self._watchers:
            self._examinations.clear()  # examinations from before the last watch ended are outdated
        self._step(asyncio.get_running_loop().time())
        all_ = Step(
            self._sequence, {name: examination.vitals for name, examination in self._examinations.items()}
        )
        watcher = _Watcher(name, all_.of(name) if name else all_)
        self._watchers.add(watcher)
        self._follower.wake()
        try:
            yield watcher
        finally:
            self._watchers.discard(watcher)

    def _step(self, now: float) -> None:
        """Examine changed daggers, from time to time all, and hand the changes to the watchers."""
        listens = now - self._listened >= HEAR_S
        self._stepped = now
        if listens:
            self._listened = now
        step = self._examine(now, listens=listens)
        self._sequence = step.sequence
        for watcher in self._watchers if step else ():
            news = step.of(watcher.name) if watcher.name else step
            if news:
                watcher.due = news if watcher.due is None else news.behind(watcher.due)
        if step:
            self._follower.wake()

    def _examine(self, now: float, *, listens: bool) -> Step:
        """Examine daggers and return the changes. `listens`: read heartbeats, too."""
        fleet, examinations = self._fold.fleet, self._examinations
        living = {name: dagger for name in fleet.daggers if (dagger := fleet.living(name)) is not None}
        gone = examinations.keys() - living.keys()
        for name in gone:
            del examinations[name]
        changed, new_vitals = set(), {}
        for name, dagger in living.items():
            before = examinations.get(name)
            same = before is not None and before.dagger is dagger
            if not same:
                changed.add(name)
            elif not listens:
                continue
            watched = self._heartbeats.watch_of(dagger)
            if before is not None and same and before.watch is watched and now - before.time < LOOK_S:
                continue
            vitals = self._heartbeats.vitals(dagger)
            examinations[name] = _Examination(dagger, watched, now, vitals)
            if before is None or before.vitals != vitals:
                new_vitals[name] = vitals
        return Step(fleet.sequence, new_vitals, frozenset(changed), frozenset(gone))
