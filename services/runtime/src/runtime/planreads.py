"""Plan the reads of a launch after an edit: `python -m runtime.planreads`.

Reads a JobSpec with the edited spec from standard input. The plan uses what the launch will use: the
checkpoint of the query before, `launch.predecessor`, and the start offsets of each stream. It changes nothing
and starts no Spark: the starts of open sessions are unknown to it. Frames on standard output:

    S  PlannedReads   the answer
    E  DaggerError    why there is no answer
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from daggers.v1 import gateway_pb2, spec_pb2

from daggerspec import checkpointroot, state
from runtime import framed
from runtime.clients import kafka
from runtime.errors import external, user
from runtime.launch import planned
from runtime.launch.predecessor import predecessor_offsets
from runtime.source.event_times import EventTimes
from runtime.source.offsets import Offsets, Partition
from runtime.source.planner import start_offsets
from runtime.source.planner.broker import Broker
from runtime.source.planner.start_offsets import Predecessor
from runtime.state import checkpoint
from runtime.state.checkpoint import Stand
from runtime.state.store.local import LocalPlace

MAX_RANGES: Final = 1_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_AGAIN: Final = 3


def main() -> int:
    """Read and write frames; return 0."""
    return framed.answer_job("offsets", spec_pb2.JobSpec, lambda job: [reads(job)])


def reads(job: spec_pb2.JobSpec) -> gateway_pb2.PlannedReads:
    """Plan what a launch of the job reads again, and count records Kafka has deleted. Raises: JobError."""
    plan = planned.check_spec(job)
    stand = standing(job.checkpoint_root, state.identity(job.spec, plan))
    before = predecessor_offsets(stand, plan, lambda _: None)
    answer = gateway_pb2.PlannedReads()
    if stand is not None and stand.watermark is not None:
        answer.closed.FromDatetime(stand.watermark)
    if before is not None and before.since is not None:
        answer.since.FromDatetime(before.since)
    wanted = {read.table for read in plan.reads}
    whole_from, ranges = 0, list[gateway_pb2.PlannedRange]()
    for stream in (stream for stream in job.streams if stream.input.table in wanted):
        begin, of_stream, since = _of_stream(stream, job, before)
        whole_from = max(whole_from, begin.complete_from)
        ranges += of_stream
        answer.records_since += since
    if whole_from:
        answer.whole_from.FromDatetime(_EPOCH + timedelta(microseconds=whole_from))
    answer.missing = sum(max(0, range_.first - range_.begin) for range_ in ranges)
    for range_ in ranges:
        range_.begin = max(range_.begin, range_.first)
    present = [range_ for range_ in ranges if range_.end > range_.begin]
    answer.records = sum(range_.end - range_.begin for range_ in present)
    most = sorted(present, key=lambda range_: range_.begin - range_.end)[:MAX_RANGES]
    answer.ranges.extend(sorted(most, key=lambda part: (part.topic, part.partition)))
    return answer


def standing(root: str, identity: str) -> Stand | None:
    """Return the progress of the checkpoint that a launch would go by; None for none.

    Raises: JobError; a retryable one where a driver keeps changing the files.
    """
    directory = checkpointroot.directory(root)
    if directory is None:
        scheme = checkpointroot.scheme(root)
        detail = f"Checkpoints in {scheme}:// take a JVM to look at: only the launch does that."
        raise user("CHECKPOINT_ELSEWHERE", detail)
    place = LocalPlace(Path(directory))
    for _ in range(_AGAIN):
        try:
            return checkpoint.predecessor(place, identity)
        except (OSError, ValueError):
            continue  # a driver commits a batch, or removes what is outdated
    raise external("CHECKPOINT_BUSY", "The checkpoint changed while it was read.", retryable=True)


def _of_stream(
    stream: spec_pb2.ResolvedStream, job: spec_pb2.JobSpec, before: Predecessor | None
) -> tuple[Offsets, list[gateway_pb2.PlannedRange], int]:
    """Plan one stream: the begin of its partitions, the range of each, and a count of records.

    These records are those that Kafka took since the time from which on they are needed. Raises: JobError.
    """
    times = EventTimes.of_stream(stream, job.descriptors)
    start = start_offsets.start_position(stream.input.start)
    properties = kafka.client_properties(stream.kafka)
    with closing(Broker(properties, job.spec.consumer_group)) as broker:
        begin = start_offsets.start_offsets(broker, stream.stream.topics, start, before, times)
        first, end = broker.first(begin.next), broker.end(begin.next)
        needed: Mapping[Partition, int] = {}
        if before is not None and before.since is not None:
            needed = broker.first_at(start_offsets.millis(before.since), begin.next)
    since = sum(max(0, end[p] - max(offset, begin.next[p])) for p, offset in needed.items())
    ranges = [
        gateway_pb2.PlannedRange(
            topic=partition.topic,
            partition=partition.number,
            begin=offset,
            end=end[partition],
            first=first[partition],
        )
        for partition, offset in begin.next.items()
    ]
    return begin, ranges, since


if __name__ == "__main__":
    sys.exit(main())
