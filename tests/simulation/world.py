"""The world that services live in: time and chance, the topics, and what everybody outside them can see.

What the world does belongs to no process, so it goes on when one dies: a record that was sent lands, a driver
that was started runs.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextvars import Context
from datetime import UTC, datetime, timedelta
from random import Random
from uuid import UUID

from daggers.v1 import alerts_pb2
from google.protobuf.message import Message
from tests.simulation.log import SimulatedBeats, SimulatedLog
from tests.simulation.witness import AlertWitness, ControlWitness

from eventlog import Draft

START = datetime(2026, 1, 1, tzinfo=UTC)


class SimulatedJournal:
    """The disk of the machine that all monitors stand on."""

    def __init__(self) -> None:
        self._kept = b""

    def load(self) -> alerts_pb2.OutageReported | None:
        """As Journal's."""
        return alerts_pb2.OutageReported.FromString(self._kept) if self._kept else None

    def save(self, report: alerts_pb2.OutageReported | None) -> None:
        """As Journal's."""
        self._kept = b"" if report is None else report.SerializeToString()


class Kafka:
    """The brokers that all topics are on. While nobody reaches them, what was sent is held back."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._held: list[Callable[[], object]] = []
        self.away = False
        """Whether nobody reaches them now."""

    def leave(self, seconds: float) -> None:
        """Be away for so long, or until somebody mends it."""
        self.away = True
        self._world.later(seconds, self.come_back)

    def come_back(self) -> None:
        """Be there again. What was held back arrives, in any order."""
        self.away = False
        self._world.control_witness.note_return(self._world.now())
        held, self._held = self._held, []
        for land in held:
            self._world.later(self._world.random.uniform(0.001, 1), self.arrive, land)

    def arrive(self, land: Callable[[], object]) -> None:
        """Something that was sent arrives: now, or when they are back."""
        if self.away:
            self._held.append(land)
        else:
            land()


class World:
    """Time, chance, the topics, and the faults that happened, by kind."""

    def __init__(self, loop: asyncio.AbstractEventLoop, random: Random) -> None:
        self.loop, self.random = loop, random
        self.faults: Counter[str] = Counter()
        self.faulty = True
        """Whether anything may go wrong now."""
        self.kafka = Kafka(self)
        self.control_witness, self.alert_witness = ControlWitness(), AlertWitness()
        self.control = SimulatedLog(self, self.control_witness.sees)
        self.alerts = SimulatedLog(self, self.alert_witness.sees)
        self.beats = SimulatedBeats(self)
        self.journal = SimulatedJournal()
        self._began = loop.time()

    def now(self) -> datetime:
        """This simulated instant."""
        return START + timedelta(seconds=self.loop.time() - self._began)

    def id(self) -> str:
        """A new id out of the seed."""
        return UUID(int=self.random.getrandbits(128)).hex

    def draft(self, source: str, subject: str, message: Message) -> Draft:
        """A record to append, with a new id."""
        return Draft(self.id(), source, subject, self.now(), message)

    def chance(self, probability: float, fault: str) -> bool:
        """Whether a fault happens now; counted."""
        happens = self.faulty and self.random.random() < probability
        if happens:
            self.faults[fault] += 1
        return happens

    def later(self, seconds: float, act: Callable[..., object], *args: object) -> None:
        """Let the world do something, whoever is dead by then."""
        self.loop.call_later(seconds, act, *args, context=Context())
