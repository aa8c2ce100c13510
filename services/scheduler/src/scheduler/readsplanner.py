"""What a launch would read of a dagger that is edited: a process of the runtime looks at its checkpoint and
Kafka.

A caller names a dagger and what it would be; addresses, secrets, schemas and the checkpoint are those of the
control topic and of this host.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Final

import grpc
from daggers.v1 import host_pb2, spec_pb2

from chassis.errors import ApiError
from daggerspec.catalogue import Unresolved
from eventlog.follower import Follower
from fleet import Applied, Fleet, resolve
from fleet.answers import missing
from scheduler import readerprocess, retention
from scheduler.readerprocess import Places, Readers

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
            await readerprocess.reached(self._follower, request.min_sequence)
            job = self._job(request)
            # Of secrets those that Kafka asks for: no sink is looked at.
            async with aclosing(
                self._readers.frames(self._module, job, _OFFSETS, secrets_of=job.streams)
            ) as frames:
                async for frame in frames:
                    yield frame

    def _job(self, request: host_pb2.PlanHostReadsRequest) -> spec_pb2.JobSpec:
        """The launch that would follow. Raises: ApiError."""
        dagger = self._fleet.living(request.name)
        if dagger is None or dagger.create_sequence != request.create_sequence:
            refused = missing("dagger", request.name)
            raise ApiError(grpc.StatusCode.NOT_FOUND, refused.reason, refused.detail, refused.metadata)
        try:
            return resolve.job(
                self._fleet,
                replace(dagger, spec=request.spec),
                max(dagger.generation, 1),
                platform=spec_pb2.KafkaAddress(),
                checkpoint_root=retention.checkpoint_root(self._checkpoints, dagger),
                run_dir="",
            )
        except Unresolved as error:
            code = grpc.StatusCode.FAILED_PRECONDITION
            raise ApiError(code, error.reason, error.detail, {}) from error
