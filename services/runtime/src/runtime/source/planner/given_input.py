"""Divide the given records of a query into what its readers read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from daggers.v1 import host_pb2, spec_pb2

from runtime.source.event_times import EventTimes
from runtime.source.given import GivenRecords, part_ends
from runtime.source.given_records import make_records
from runtime.source.offsets import Offsets, Partition

_ID: Final = "given"
_NO_LIMIT_MS: Final = 2**52
"""A clock by which no event time is from the future."""


@dataclass(frozen=True, slots=True)
class GivenInput:
    """The given records of a query, by table."""

    tables: Mapping[str, tuple[bytes, ...]]
    now_ms: int

    @staticmethod
    def begin(topics: Sequence[str]) -> tuple[Offsets, dict[Partition, int]]:
        """Return where the records of a table begin: at the start of a partition."""
        start = {Partition(topics[0], 0): 0}
        return Offsets({topics[0]: _ID}, start), start

    def count(self, table: str) -> int:
        """Count the records of a table."""
        return len(self.tables.get(table, ()))

    def records(self, table: str, times: EventTimes) -> GivenRecords:
        """Return the records of a table in their parts."""
        values = self.tables.get(table, ())
        usable = times.of_records(make_records(values, self.now_ms), self.now_ms)
        return GivenRecords(values, self.now_ms, part_ends(usable, len(values), times.delay_ms))


def newest_ms(given: host_pb2.GivenInput, job: spec_pb2.JobSpec) -> int | None:
    """Return the newest event time (ms, rounded up) of all given records; None where none has one."""
    values = {table.table: tuple(table.records) for table in given.tables}
    newest = [
        micros
        for stream in job.streams
        for _, micros in EventTimes.of_stream(stream, job.descriptors).of_records(
            make_records(values.get(stream.input.table, ()), _NO_LIMIT_MS), _NO_LIMIT_MS
        )
    ]
    return -(-max(newest) // 1000) if newest else None
