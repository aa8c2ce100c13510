"""The newest records of streams, read by a process of the runtime with the secrets of their cluster.

A caller names a cluster and topics; address, secrets and message are those of the control topic.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import grpc
from daggers.v1 import host_pb2, spec_pb2

from chassis.errors import ApiError
from daggerspec.catalogue import Unresolved
from eventlog.follower import Follower
from fleet import Applied, Fleet, resolve
from fleet.answers import missing
from scheduler import readerprocess
from scheduler.readerprocess import RETRY, Places, environment

MODULE: Final = "runtime.samplestream"
_BEHIND_S: Final = 5.0
_RECORDS: Final = "records"


class StreamSampler:
    """Starts readers of streams; at most `most` at once."""

    def __init__(
        self,
        python: str,
        inherited: Mapping[str, str],
        folder: Path,
        follower: Follower[Applied],
        fleet: Fleet,
        *,
        most: int = 4,
        patience_s: float = 30.0,
        module: str = MODULE,
    ) -> None:
        """`inherited` is the environment that secrets are found in, `folder` where readers run, and a frame
        may take `patience_s`.
        """
        self._python, self._inherited, self._folder = python, inherited, folder
        self._follower, self._fleet = follower, fleet
        self._places = Places(most, "samples of streams")
        self._patience_s, self._module = patience_s, module

    async def frames(self, request: host_pb2.SampleHostStreamRequest) -> AsyncGenerator[bytes, None]:
        """What a reader finds: serialised SampleStreamResponses. Raises: ApiError."""
        with self._places.one():
            job = await self._job(request)
            command = (self._python, "-P", "-m", self._module, f"--last-records={request.last_records}")
            given = environment(self._inherited, job)
            async with readerprocess.running(command, self._folder, given) as process:
                await readerprocess.say(process, job.SerializeToString())
                while (frame := await readerprocess.frame(process, _RECORDS, self._patience_s)) is not None:
                    yield frame[1]

    async def _job(self, request: host_pb2.SampleHostStreamRequest) -> spec_pb2.JobSpec:
        """What a reader is told: where the topics are, and what is in them. Raises: ApiError."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_BEHIND_S):
                await self._follower.reached(request.min_sequence)
        if self._follower.sequence < request.min_sequence:
            text = f"its scheduler has read the control topic to {self._follower.sequence} so far: ask again"
            metadata = {"asked": str(request.min_sequence), "reached": str(self._follower.sequence)}
            raise ApiError(grpc.StatusCode.UNAVAILABLE, "HOST_BEHIND", text, metadata, retry_after=RETRY)
        stream = request.stream
        cluster = self._fleet.clusters.get(stream.cluster)
        if cluster is None:
            refusal = missing("cluster", stream.cluster)
            code = grpc.StatusCode.NOT_FOUND
            raise ApiError(code, refusal.reason, refusal.detail, refusal.metadata)
        resolved = spec_pb2.ResolvedStream(stream=stream, kafka=cluster.value.kafka)
        job = spec_pb2.JobSpec(streams=[resolved])
        try:
            resolve.place_secrets(job, self._fleet)
            if request.last_records:
                job.descriptors.CopyFrom(resolve.descriptors(self._fleet, [stream.message]))
        except Unresolved as error:
            code, metadata = grpc.StatusCode.FAILED_PRECONDITION, {"message": stream.message}
            raise ApiError(code, error.reason, error.detail, metadata) from error
        return job
