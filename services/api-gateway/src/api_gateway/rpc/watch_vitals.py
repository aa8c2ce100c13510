"""WatchVitals: what daggers do now, all of them or one; at first as it is, and then what has changed.

A step says how things are, so nobody needs one that was missed. It is worked out once for everybody who
watches: at once for what the log brings, every second for what is heard. Who is slow is told of several steps
in one; who begins anew misses no more than what is over.
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
from api_gateway.state.heartbeat_cache import Heard
from api_gateway.watch_limits import damaged, shuts_down
from chassis.errors import invalid
from daggerspec import fields
from eventlog.follower import Follower
from fleet import Applied, Dagger
from fleet.health.watch import Watch

Response = gateway_pb2.WatchVitalsResponse

GATHER_S: Final = 0.1
"""Steps are so far apart at least: of one change come several records, and all who watch are told of each."""
HEAR_S: Final = 1.0
"""What is heard is looked at so often."""
LOOK_S: Final = 5.0
"""A dagger that nothing is heard of is looked at so often: silence changes what there is to say."""


@dataclass(frozen=True)
class Step:
    """What has changed since the step before. Pure."""

    sequence: int
    """The state that it is of."""
    vitals: Mapping[str, vitals_pb2.Vitals]
    """By name."""
    changed: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        """Whether there is anything to tell."""
        return bool(self.vitals or self.changed or self.gone)

    def behind(self, before: Step) -> Step:
        """Both steps as one: for whoever was told of neither."""
        kept = {name: vitals for name, vitals in before.vitals.items() if name not in self.gone}
        return Step(
            self.sequence,
            {**kept, **self.vitals},
            before.changed - self.gone | self.changed,
            before.gone - self.changed | self.gone,
        )

    def of(self, name: str) -> Step:
        """What it says of one dagger."""
        one = {name}
        vitals = {name: self.vitals[name]} if name in self.vitals else {}
        return Step(self.sequence, vitals, self.changed & one, self.gone & one)

    @cached_property
    def answers(self) -> list[Response]:
        """The step as it is told, at least one answer: the same ones to everybody."""
        told = [vitals for _, vitals in sorted(self.vitals.items())]
        page = fitting(told)
        answers = [
            Response(
                vitals=page, gone=sorted(self.gone), changed=sorted(self.changed), sequence=self.sequence
            )
        ]
        while told := told[len(page) :]:
            page = fitting(told)
            answers.append(Response(vitals=page, sequence=self.sequence))
        return answers


@dataclass(frozen=True, slots=True)
class _Look:
    """One look at a dagger."""

    dagger: Dagger
    watch: Watch
    time: float
    told: vitals_pb2.Vitals


@dataclass(eq=False, slots=True)
class _Watcher:
    """One watch: of which dagger (empty: of all), and what it was not told of yet."""

    name: str
    due: Step | None = None


class Vitals:
    """The steps of all watches of a gateway. For one event loop."""

    def __init__(self, heard: Heard, follower: Follower[Applied], fold: Fold) -> None:
        self._heard, self._follower, self._fold = heard, follower, fold
        self._looks: dict[str, _Look] = {}
        self._watchers: set[_Watcher] = set()
        self._sequence = -1
        self._stepped = self._listened = float("-inf")

    async def run(self) -> None:
        """Step for ever, while anybody watches."""
        clock = asyncio.get_running_loop().time
        while True:
            await self._follower.until(lambda: bool(self._watchers))
            with suppress(TimeoutError):
                async with asyncio.timeout_at(self._listened + HEAR_S):
                    await self._follower.until(lambda: self._fold.fleet.sequence != self._sequence)
            await asyncio.sleep(self._stepped + GATHER_S - clock())
            self._step(clock())

    async def watch(self, request: gateway_pb2.WatchVitalsRequest) -> AsyncGenerator[Response, None]:
        """The steps of one watch. They are other watches', too: nobody may change them.

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
        raise damaged(follower.damage, follower.sequence) if follower.damage else shuts_down()

    @contextmanager
    def _watching(self, name: str) -> Iterator[_Watcher]:
        """A watcher of what is, and of each step from now on."""
        if not self._watchers:
            self._looks.clear()  # nobody has looked for as long as nobody watched
        self._step(asyncio.get_running_loop().time())
        all_ = Step(self._sequence, {name: look.told for name, look in self._looks.items()})
        watcher = _Watcher(name, all_.of(name) if name else all_)
        self._watchers.add(watcher)
        self._follower.wake()
        try:
            yield watcher
        finally:
            self._watchers.discard(watcher)

    def _step(self, now: float) -> None:
        """Look at every dagger that has changed, once in a while at all, and tell those who watch."""
        listens = now - self._listened >= HEAR_S
        self._stepped = now
        if listens:
            self._listened = now
        step = self._looked(now, listens=listens)
        self._sequence = step.sequence
        for watcher in self._watchers if step else ():
            told = step.of(watcher.name) if watcher.name else step
            if told:
                watcher.due = told if watcher.due is None else told.behind(watcher.due)
        if step:
            self._follower.wake()

    def _looked(self, now: float, *, listens: bool) -> Step:
        """What has changed; brings the looks up to date. `listens`: also at what was heard."""
        fleet, looks = self._fold.fleet, self._looks
        living = {name: dagger for name in fleet.daggers if (dagger := fleet.living(name)) is not None}
        gone = looks.keys() - living.keys()
        for name in gone:
            del looks[name]
        changed, told = set(), {}
        for name, dagger in living.items():
            before = looks.get(name)
            same = before is not None and before.dagger is dagger
            if not same:
                changed.add(name)
            elif not listens:
                continue
            watched = self._heard.watch_of(dagger)
            if before is not None and same and before.watch is watched and now - before.time < LOOK_S:
                continue
            vitals = self._heard.vitals(dagger)
            looks[name] = _Look(dagger, watched, now, vitals)
            if before is None or before.told != vitals:
                told[name] = vitals
        return Step(fleet.sequence, told, frozenset(changed), frozenset(gone))
