"""What one reader needs to know: built in the driver, shipped to every process that reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from daggersql import PartialAggregation
from runtime.decode.decoder import find_message, message_pool
from runtime.source.offsets import Offsets, Positions
from runtime.source.planner.idle import Windows
from runtime.source.reader import preaggregate as view
from runtime.source.reader.preaggregate import View
from runtime.source.reader.rows import Rows
from runtime.source.status import Board, Word


@dataclass(frozen=True)
class ReaderPlan:
    """One reader: its topics, how to reach and decode them, and where it begins: `start`.

    `until` is set for a reader that only comes to its end, and `gone` are topics of it that cannot be read
    any more.

    Holds resolved secrets (`kafka`, `platform`): it travels pickled, is never an option of the data source
    (Spark shows those), and its repr is silent about them. Times are in ms; `tolerance` is how far an event
    time may be ahead. `equal` are text columns and the value that rows must have there to be passed on;
    `sums`, what they are added up to.
    """

    key: str
    dagger: str
    generation: int
    group: str
    topics: tuple[str, ...]
    message: str
    time_field: str
    paths: tuple[str, ...]
    files: bytes = field(repr=False)
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
    warnings: tuple[str, ...] = ()
    equal: tuple[tuple[str, str], ...] = ()
    sums: PartialAggregation | None = None
    until: Positions | None = None
    gone: frozenset[str] = frozenset()

    @cached_property
    def descriptor(self) -> Descriptor:
        """Descriptor of the message in each record's value."""
        return _descriptor(self.files, self.message)

    def rows(self) -> Rows:
        """What decodes its records: one for all tasks of a process."""
        return _rows(self.files, self.message, self.paths, self.time_field, self.tolerance, self.equal)

    def view(self) -> View:
        """What they become on their way to Spark, for one task."""
        return view.of(self.rows().schema, self.sums)

    @property
    def board(self) -> Board:
        """Where the readers of this launch meet."""
        return Board(Path(self.run_dir))

    @property
    def word(self) -> Word:
        """What it says of itself before it has read anything."""
        start = self.start
        return Word(
            self.delay, complete_from=start.complete_from, closed=start.closed, warnings=self.warnings
        )

    def __getstate__(self) -> dict[str, Any]:
        """Without the descriptor, which does not pickle."""
        return {name: value for name, value in self.__dict__.items() if name != "descriptor"}


@lru_cache(maxsize=16)
def _rows(
    files: bytes,
    message: str,
    paths: tuple[str, ...],
    time_field: str,
    tolerance: int,
    equal: tuple[tuple[str, str], ...],
) -> Rows:
    return Rows(_descriptor(files, message), paths, time_field, tolerance, equal)


def _descriptor(files: bytes, message: str) -> Descriptor:
    return find_message(message_pool(FileDescriptorSet.FromString(files)), message)


def milliseconds(duration: Any) -> int:
    """A google.protobuf.Duration in ms."""
    return int(duration.seconds * 1000 + duration.nanos // 1_000_000)


def group_of(dagger: str, asked: str) -> str:
    """The consumer group whose offsets are committed: what the spec names, else daggers.NAME."""
    return asked or f"daggers.{dagger}"
