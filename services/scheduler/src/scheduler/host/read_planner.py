"""What a launch would read of a dagger that is edited: a process of the runtime looks at its checkpoint and
Kafka.

A caller names a dagger and what it would be; addresses, secrets, schemas and the checkpoint are those of the
control topic and of this host.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Final

from daggers.v1 import host_pb2

from eventlog.follower import Follower
from fleet import Applied, Fleet
from scheduler.host import reader_process
from scheduler.host.next_launch import job_of
from scheduler.host.reader_process import Places, Readers

MODULE: Final = "runtime.planreads"
_OFFSETS: Final = "offsets"


class ReadsPlanner:
    """Starts processes that look; at most `most` at once."""

    def __init__(
        self,
        python: str,
        inherited: Mapping[str, str],
        folder: Path,
        checkpoints: str,
        follower: Follower[Applied],
        fleet: Fleet,
        *,
        most: int = 2,
        patience_s: float = 30.0,
        module: str = MODULE,
    ) -> None:
        """`inherited` is the environment that secrets are found in, `folder` where they run, `checkpoints`
        the root of all daggers' checkpoints; an answer may take `patience_s`.
        """
        self._readers = Readers(python, inherited, folder, patience_s)
        self._checkpoints, self._follower, self._fleet = checkpoints, follower, fleet
        self._places = Places(most, "plans")
        self._module = module

    async def frames(self, request: host_pb2.PlanHostReadsRequest) -> AsyncGenerator[bytes, None]:
        """What is found: a serialised PlannedReads. Raises: ApiError."""
        with self._places.one():
            await reader_process.reached(self._follower, request.min_sequence)
            name, created = request.name, request.create_sequence
            job = job_of(self._fleet, name, created, self._checkpoints, spec=request.spec)
            # Of secrets those that Kafka asks for: no sink is looked at.
            async with aclosing(
                self._readers.frames(self._module, job, _OFFSETS, secrets_of=job.streams)
            ) as frames:
                async for frame in frames:
                    yield frame
