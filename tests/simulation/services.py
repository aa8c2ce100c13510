"""The real services, each as one simulated process, put together as their `__main__` does it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from pathlib import Path
from typing import Any

from daggers.v1 import spec_pb2
from tests.simulation.hosts import Host, SimulatedDrivers, Sinks
from tests.simulation.loop import Process, SimulatedLoop
from tests.simulation.world import World

from eventlog import LogUnavailable
from fleet.owed import Policy
from scheduler.shell import Options, Scheduler

POLICY = Policy(
    start_timeout=timedelta(seconds=30),
    silence=timedelta(seconds=20),
    hold=timedelta(seconds=5),
    grace=timedelta(seconds=15),
    attempts=5,
    longest_delay=timedelta(seconds=20),
)


class Service:
    """A process that serves, and how it ended."""

    def __init__(self, loop: SimulatedLoop, process: Process, body: Coroutine[Any, Any, None]) -> None:
        self.process = process
        self._task = loop.spawn(process, body)
        self._task.add_done_callback(self._ended)

    @property
    def serves(self) -> bool:
        """Whether it lives, as far as a process table can tell."""
        return self.process.alive

    def _ended(self, task: asyncio.Task[None]) -> None:
        self.process.alive = False
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, LogUnavailable):
            asyncio.get_running_loop().call_exception_handler(
                {"message": f"{self.process.name} failed", "exception": error}
            )


def scheduler(
    world: World, process: Process, host: Host, sinks: Sinks, state: Path, dead: Callable[[str], bool]
) -> Scheduler:
    """A scheduler on a host; `dead` proves the death of another by its identity."""
    return Scheduler(
        world.control,
        world.beats,
        SimulatedDrivers(world, sinks, host, f"/scheduler/{process.name}"),  # type: ignore[arg-type]  # the same methods
        command=lambda *_: ([], {}),
        platform=spec_pb2.KafkaAddress(bootstrap_servers="127.0.0.1:9092"),
        state_dir=state,
        policy=POLICY,
        options=Options(
            scheduler_id=process.name,
            max_drivers=9,
            tick=timedelta(seconds=1),
            sweep=timedelta(seconds=10),
        ),
        clock=world.now,
        dead=dead,
    )
