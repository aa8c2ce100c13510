"""Topics at the far end of a network: late, doubled, with lost acknowledgements, sometimes all away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

from eventlog import Draft, LogUnavailable, Record
from eventlog.heartbeats import unpack
from eventlog.memory import MemoryLog

if TYPE_CHECKING:
    from tests.simulation.world import World


ANSWERS_S = 8.0
"""How long a producer waits for the broker."""


class SimulatedLog(MemoryLog):
    """A MemoryLog behind a network. Passes `LogContract` while nothing goes wrong.

    `sees` is called with every record the moment it stands in the log.
    """

    def __init__(self, world: World, sees: Callable[[Record], None] = lambda _: None) -> None:
        super().__init__()
        self._world = world
        self._sees = sees

    @property
    def records(self) -> list[Record]:
        """What stands in it, as nobody in the world can see it."""
        return self._records

    def place(self, headers: list[tuple[str, bytes]], value: bytes) -> None:
        """As MemoryLog's."""
        super().place(headers, value)
        self._sees(self._records[-1])

    async def append(self, draft: Draft) -> None:
        """As Log's. Raises: LogUnavailable, also for what lands all the same, perhaps much later."""
        world = self._world
        if world.kafka.away:
            await asyncio.sleep(world.random.uniform(0.1, ANSWERS_S))
            raise LogUnavailable("Kafka is away")
        headers, value = draft.headers(), draft.message.SerializeToString(deterministic=True)
        acknowledged: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def land() -> None:
            self.place(headers, value)
            if not acknowledged.done():
                acknowledged.set_result(None)

        if world.chance(0.02, "record lost"):
            raise LogUnavailable("it never arrived")
        late = world.chance(0.02, "record late")
        after = world.random.uniform(0.5, 20) if late else world.random.uniform(0.001, 0.02)
        world.later(after, world.kafka.arrive, land)
        if world.chance(0.03, "record doubled"):
            world.later(world.random.uniform(0.01, 30), world.kafka.arrive, land)
        if late or world.chance(0.03, "acknowledgement lost"):
            raise LogUnavailable("its outcome is not known")
        await asyncio.wait([acknowledged], timeout=ANSWERS_S)
        if not acknowledged.done():
            acknowledged.cancel()
            raise LogUnavailable("it has not answered")

    async def follow(self, since: int = -1) -> AsyncGenerator[Record, None]:
        """As Log's, and slow at times. Raises: LogUnavailable, before the first record."""
        self._fail("log away at a read")
        async with aclosing(super().follow(since)) as records:
            async for record in records:
                if self._world.chance(0.03, "reading slow"):
                    await asyncio.sleep(self._world.random.uniform(0, 2))
                yield record

    async def replay(self, since: int = -1) -> AsyncGenerator[Record, None]:
        """As Log's."""
        self._fail("log away at a read")
        async with aclosing(super().replay(since)) as records:
            async for record in records:
                yield record

    async def read(self, sequences: Sequence[int]) -> list[Record]:
        """As Log's. Raises: LogUnavailable."""
        self._fail("log away at a read")
        return await super().read(sequences)

    async def end(self) -> int:
        """As Log's. Raises: LogUnavailable."""
        self._fail("log away at a read")
        return await super().end()

    def _fail(self, fault: str) -> None:
        if self._world.kafka.away or self._world.chance(0.01, fault):
            raise LogUnavailable("it does not answer")


class SimulatedBeats(SimulatedLog):
    """The heartbeats topic: a reader hears what comes from now on."""

    async def follow(self, since: int = -1) -> AsyncGenerator[Record, None]:
        """As `scheduler.leader.heartbeats.Heartbeats`': from the end."""
        async with aclosing(MemoryLog.follow(self, max(since, len(self.records) - 1))) as arrivals:
            async for arrival in arrivals:
                if self._world.chance(0.01, "heartbeat lost"):
                    continue
                for record in unpack(arrival):
                    yield record
