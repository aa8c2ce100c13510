"""What a replay would say of records: a process of the runtime looks at the quarantine, at Kafka and at the
checkpoint.

A caller says what would be asked; addresses, secrets, schemas and the checkpoint are those of the control
topic and of this host.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Final

from daggers.v1 import host_pb2, spec_pb2

from eventlog.follower import Follower
from fleet import Applied, Fleet
from scheduler.host import reader_process
from scheduler.host.next_launch import job_of
from scheduler.host.reader_process import Places, Readers

MODULE: Final = "runtime.foresee"


class Foreseer:
    """Starts processes that look; at most `most` at once."""

    def __init__(
        self,
        python: str,
        inherited: Mapping[str, str],
        folder: Path,
        checkpoints: str,
        platform: spec_pb2.KafkaAddress,
        follower: Follower[Applied],
        fleet: Fleet,
        *,
        most: int = 2,
        patience_s: float = 30.0,
        module: str = MODULE,
    ) -> None:
        """As `read_planner.ReadsPlanner`; `platform` is where the quarantine is."""
        self._readers = Readers(python, inherited, folder, patience_s)
        self._checkpoints, self._platform = checkpoints, platform
        self._follower, self._fleet = follower, fleet
        self._places = Places(most, "forecasts")
        self._module = module

    async def frames(self, request: host_pb2.ForeseeHostReplayRequest) -> AsyncGenerator[bytes, None]:
        """What is found: a serialised ForeseenReplay. Raises: ApiError."""
        with self._places.one():
            await reader_process.reached(self._follower, request.min_sequence)
            name, created = request.asked.name, request.create_sequence
            job = job_of(self._fleet, name, created, self._checkpoints, platform=self._platform)
            told = host_pb2.ForeseeJob(job=job, request=request)
            # No sink is looked at.
            secrets = [*job.streams, job.platform]
            async with aclosing(
                self._readers.frames(self._module, told, "quarantine", secrets_of=secrets)
            ) as frames:
                async for frame in frames:
                    yield frame
