"""The newest records of streams, and what topics there are: processes of the runtime look, with the secrets
of a cluster.

A caller names a cluster and topics; address, secrets and message are those of the control topic.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Final

import grpc
from daggers.v1 import host_pb2, spec_pb2

from chassis.errors import ApiError
from daggerspec.catalogue import Unresolved
from eventlog.follower import Follower
from fleet import Applied, Fleet
from fleet.fold import resolve
from fleet.fold.answers import missing
from scheduler.host import reader_process
from scheduler.host.reader_process import Places, Readers

MODULE: Final = "runtime.samplestream"
DISCOVERY: Final = "runtime.discovertopics"
_RECORDS: Final = "records"
_TOPICS: Final = "topics"


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
        self._readers = Readers(python, inherited, folder, patience_s)
        self._follower, self._fleet = follower, fleet
        self._places = Places(most, "samples of streams")
        self._module = module

    async def frames(self, request: host_pb2.SampleHostStreamRequest) -> AsyncGenerator[bytes, None]:
        """What a reader finds: serialised SampleStreamResponses. Raises: ApiError."""
        stream = request.stream
        with self._places.one():
            await reader_process.reached(self._follower, request.min_sequence)
            job = self._job(stream, [stream.message] if request.last_records else [])
            count = f"--last-records={request.last_records}"
            async with aclosing(
                self._readers.frames(self._module, job, _RECORDS, count, secrets_of=[job])
            ) as frames:
                async for frame in frames:
                    yield frame

    async def topics(self, request: host_pb2.DiscoverHostTopicsRequest) -> AsyncGenerator[bytes, None]:
        """What topics a Kafka has: serialised DiscoverTopicsResponses. Raises: ApiError."""
        asked = request.request
        stream = spec_pb2.Stream(cluster=asked.cluster, topics=asked.topics, message=asked.message)
        with self._places.one():
            await reader_process.reached(self._follower, request.min_sequence)
            job = self._job(stream, [asked.message] if asked.message else sorted(self._fleet.messages))
            async with aclosing(self._readers.frames(DISCOVERY, job, _TOPICS, secrets_of=[job])) as frames:
                async for frame in frames:
                    yield frame

    def _job(self, stream: spec_pb2.Stream, wanted: list[str]) -> spec_pb2.JobSpec:
        """What a reader is told: where topics are, and the messages that may be in them. Raises: ApiError."""
        cluster = self._fleet.clusters.get(stream.cluster)
        if cluster is None:
            refusal = missing("cluster", stream.cluster)
            code = grpc.StatusCode.NOT_FOUND
            raise ApiError(code, refusal.reason, refusal.detail, refusal.metadata)
        resolved = spec_pb2.ResolvedStream(stream=stream, kafka=cluster.value.kafka)
        job = spec_pb2.JobSpec(streams=[resolved])
        try:
            resolve.place_secrets(job, self._fleet)
            if wanted:
                job.descriptors.CopyFrom(resolve.descriptors(self._fleet, wanted))
        except Unresolved as error:
            code, metadata = grpc.StatusCode.FAILED_PRECONDITION, {"message": stream.message}
            raise ApiError(code, error.reason, error.detail, metadata) from error
        return job
