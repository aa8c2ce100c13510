"""Plan of one reader. Pure; built in the driver, pickled to every process that plans or reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from daggersql import Condition, PartialAggregation
from runtime.source.given import GivenRecords
from runtime.source.offsets import LostRecords, Offsets, Partition, Positions
from runtime.source.watermark import Windows


@dataclass(frozen=True, slots=True)
class BatchRule:
    """Rule of when a query's batches are due; times are in ms. By default when there is something to read."""

    trigger: int = 0
    """The shortest time between the begins of two batches that read."""
    at_ends: bool = False
    """True if rows are only written when windows end: then records may wait, within the following limits."""
    longest_wait: int = 0
    """Longest time that records wait."""
    records: int = 0
    """Count of records after which none waits."""


@dataclass(frozen=True)
class ReaderPlan:
    """One reader: its topics, how to reach and decode them, and where it begins: `start`.

    `key` names it among the readers of its launch. `until` is set for a reader that only comes to its end,
    and `missing` are topics of it that cannot be read any more. `range_end` is set for a reader of a preview:
    what is behind it is not read, nothing is committed or quarantined, and at the end all windows close.
    Until `live_until`, if that is set, the range grows. With `first_rows` the records of its first window are
    read before all others. `query` is what readers of one query share, `slots` how many tasks run at once, 0
    where that is not known. `read_until` is the newest event time (us) that earlier launches have read of
    each "topic/partition", as far as is known; no window was open then before `open_from` (us; None: not
    known). `lost` is what was missed up to the newest batch that Spark has planned (of a reader that has
    none, `start` says it), and `begun` where that batch began, as long as nobody knows whether its records
    were read before they were deleted; else empty. `mended` are values that are read in place of those that
    Kafka has, by partition and offset: a replay's edits. A reader of a `shadow` commits nothing until it is
    handed over. With `given` these records are read, and Kafka is not. `late_sink` is a serialised
    `ResolvedSink` that gets the records which are late, empty where none does.

    Holds resolved secrets (`kafka`, `platform`): it travels pickled, is never an option of the data source
    (Spark shows those), and its repr is silent about them. Times are in ms; `tolerance` is how far an event
    time may be ahead. `conditions` are what rows must meet to be passed on; `pre_aggregation` is what records
    are aggregated to before they are passed on. With `marks_late` rows say how many windows of `late_for`
    they are too late for, and Spark counts that; else whoever reads does. Without a `time_field` nothing is
    decoded.
    """

    key: str
    dagger: str
    generation: int
    group: str
    topics: tuple[str, ...]
    message: str
    time_field: str
    paths: tuple[str, ...]
    descriptors: bytes = field(repr=False)
    kafka: Mapping[str, str] = field(repr=False)
    platform: Mapping[str, str] = field(repr=False)
    start: Offsets
    delay: int
    idle_timeout: int
    tolerance: int
    windows: Windows | None
    late_for: tuple[Windows, ...]
    run_dir: str
    max_rows: int
    marks_late: bool = False
    warnings: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    pre_aggregation: PartialAggregation | None = None
    until: Positions | None = None
    missing: frozenset[str] = frozenset()
    range_end: Positions | None = None
    live_until: int = 0
    first_rows: bool = False
    batches: BatchRule = field(default_factory=BatchRule)
    query: str = ""
    slots: int = 0
    read_until: Mapping[str, int] = field(default_factory=dict)
    open_from: int | None = None
    lost: tuple[LostRecords, ...] = ()
    begun: Positions = field(default_factory=dict)
    mended: Mapping[Partition, Mapping[int, bytes]] = field(default_factory=dict)
    shadow: bool = False
    given: GivenRecords | None = field(default=None, repr=False)
    late_sink: bytes = field(default=b"", repr=False)

    @property
    def has_gates(self) -> bool:
        """True if rows are grouped once for each gate of their windows."""
        return self.windows is not None and len(self.windows.gates) > 1

    @property
    def launch(self) -> str:
        """The name of its launch."""
        return f"{self.dagger}.{self.generation}"

    @property
    def name(self) -> str:
        """The name of this reader, unlike that of any other launch: two may be read in one process."""
        return f"{self.launch}.{self.key}"


def milliseconds(duration: Any) -> int:
    """Convert a google.protobuf.Duration to ms."""
    return int(duration.seconds * 1000 + duration.nanos // 1_000_000)
