"""Context of the source: the facts of the job that it reads for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from daggers.v1 import spec_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from daggerspec.limits import BATCH_RECORDS
from runtime.source.plan import BatchRule
from runtime.source.planner.ranges import Range
from runtime.source.planner.start_offsets import Predecessor
from runtime.source.status import ReaderRegistry
from runtime.source.watermark import Windows


@dataclass(frozen=True)
class SourceContext:
    """Facts about the job of one launch.

    `checkpoint` is the directory (path or Hadoop URI) of the query's checkpoint; `run_dir` belongs to this
    launch; `windows` are what waits for event time, None for a forwarding query; `late_for` those that a
    record of this stream may be late for, and `marks_late` whether its rows have to say so, because Spark
    counts them (`daggersql.StagedQuery`). `past` is what was read before an edit; `open` (aware) the event
    time from which on windows are open, None while none was closed; `max_rows` bounds a batch of one reader,
    unless everything there is fits into a trigger, and `max_rows_of_all` that of all readers together, where
    it is not 0; `batches` says when one is due, `slots` how many tasks run at once, 0 where not known.
    `read_until` is as in `ReaderPlan`, by table, and `ended_in_order` that it is as of the last committed
    batch: the launch before ended by itself. `range` is the range of a preview, in place of what comes;
    `shadow` that it begins beside another driver; `late_sink` as in `ReaderPlan`.
    """

    dagger: str
    generation: int
    checkpoint: str
    run_dir: Path
    platform: spec_pb2.KafkaAddress
    descriptors: FileDescriptorSet
    windows: Windows | None
    consumer_group: str
    late_for: tuple[Windows, ...] = ()
    marks_late: bool = False
    past: Predecessor | None = None
    open: datetime | None = None
    max_rows: int = BATCH_RECORDS
    max_rows_of_all: int = 0
    batches: BatchRule = field(default_factory=BatchRule)
    slots: int = 0
    read_until: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    ended_in_order: bool = False
    range: Range | None = None
    shadow: bool = False
    late_sink: bytes = field(default=b"", repr=False)

    @property
    def registry(self) -> ReaderRegistry:
        """Return the registry in which its readers publish."""
        return ReaderRegistry(self.run_dir)
