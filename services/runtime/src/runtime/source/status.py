"""Publish the statuses of a launch's readers, and read them: small files in the launch's directory.

Readers are processes of their own, and Spark gives them no way to talk. Each writes its own file, whole, and
reads the others'. Everything here is about one launch; what must survive it is in the checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

from chassis.files import replace_text
from daggerspec import rundir
from runtime.source.offsets import LostRecords
from runtime.source.plan import ReaderPlan
from runtime.source.watermark import NEVER, PartitionTime, WatermarkState, event_time

_DRIVER = "_driver.json"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A partition whose records are read up to `stable`, its last stable offset, though it ends at `end`.

    What lies between belongs to a transaction that is open, or comes after it. `since` is when the last
    record could be read (ms since the epoch).
    """

    stable: int
    end: int
    since: int


@dataclass(frozen=True, slots=True)
class ReaderStatus:
    """Status that a reader publishes.

    `delay` is its watermark's delay (ms); `idle` that it advances its watermark itself; `newest_record` the
    newest event time (ms) near the end of its topics, None before it was idle for the first time;
    `complete_from`, `closed` and `lost` as in `Offsets`; `warnings` begin with an UPPER_SNAKE code;
    `unreachable` is why it cannot reach its topics now, or empty. `waiting` is how many records waited by
    "topic/partition" at `waiting_at` (ms since the epoch) while no batch was due, and `reached` the newest
    event time (ms) among them, as far as it was sampled.

    `partitions` are all it reads, as "topic/partition"; `idle_partitions` those of them that event time does
    not wait for; `open_transactions` those that are not idle because of one. With `has_ended` it reads a
    range, and has planned the last records of that.
    """

    delay: int
    idle: bool = False
    newest_record: int | None = None
    complete_from: int = 0
    closed: int = 0
    warnings: tuple[str, ...] = ()
    unreachable: str = ""
    waiting_at: int = 0
    waiting: Mapping[str, int] = field(default_factory=dict)
    lost: tuple[LostRecords, ...] = ()
    partitions: tuple[str, ...] = ()
    idle_partitions: tuple[str, ...] = ()
    open_transactions: Mapping[str, OpenTransaction] = field(default_factory=dict)
    reached: Mapping[str, int] = field(default_factory=dict)
    idle_timeout: int = 0
    has_ended: bool = False

    @staticmethod
    def initial(plan: ReaderPlan) -> ReaderStatus:
        """Build the status of a reader that has read nothing yet."""
        start = plan.start
        return ReaderStatus(
            plan.delay,
            complete_from=start.complete_from,
            closed=start.closed,
            warnings=plan.warnings,
            lost=plan.lost or start.lost,
            idle_timeout=plan.idle_timeout,
        )


@dataclass(frozen=True, slots=True)
class Gap:
    """A stretch of event time: from `begin` on (None: the first record), up to, not including, `end`."""

    begin: datetime | None
    end: datetime


@dataclass(frozen=True, slots=True)
class ObservedTimes:
    """Event times (ms) of what a reader read, in one batch or in this launch so far.

    `newest` is the greatest of a record, `partitions` that of each partition, `advance` the greatest that an
    idle advance had. `usable` counts the batches that had usable records of a partition; empty for one batch.
    """

    newest: int | None = None
    advance: int | None = None
    partitions: Mapping[str, int] = field(default_factory=dict)
    usable: Mapping[str, int] = field(default_factory=dict)

    def then(self, more: ObservedTimes) -> ObservedTimes:
        """Add the times of a further batch."""
        partitions, usable = dict(self.partitions), dict(self.usable)
        for partition, time in more.partitions.items():
            partitions[partition] = max(time, partitions.get(partition, time))
            usable[partition] = usable.get(partition, 0) + 1
        newest, advance = _later(self.newest, more.newest), _later(self.advance, more.advance)
        return ObservedTimes(newest, advance, partitions, usable)


@dataclass(frozen=True, slots=True)
class SourceState:
    """State of a launch's sources at one moment: what readers have published, and what follows from it."""

    statuses: Mapping[str, ReaderStatus]
    """Latest status of every reader, by key."""
    observed: Mapping[str, ObservedTimes] = field(default_factory=dict)
    """Event times read in this launch, by the reader's key."""
    moved: Mapping[str, int] = field(default_factory=dict)
    """Event time (ms) that each reader has reached, by key; left out: none yet."""

    def watermarks(self) -> dict[str, WatermarkState]:
        """Return the progress of event time for every reader, by key."""
        states = {}
        for key, status in self.statuses.items():
            record = self.observed.get(key, ObservedTimes()).newest
            newest = _later(record, status.newest_record)
            states[key] = WatermarkState(self.moved.get(key), newest, status.delay, status.idle)
        return states

    def watermark(self) -> int:
        """Return the query's watermark: the least of its readers'."""
        return min((state.watermark for state in self.watermarks().values()), default=NEVER)

    def read_until(self) -> dict[str, dict[str, int]]:
        """Return the newest event time (us) that this launch has read of each "topic/partition".

        By table: two streams of one topic may have their event times in different fields.
        """
        read: dict[str, dict[str, int]] = {}
        for key, times in self.observed.items():
            of_table = read.setdefault(table_of(key), {})
            for partition, time in times.partitions.items():
                of_table[partition] = max(time * 1000, of_table.get(partition, time * 1000))
        return read

    def event_times(self) -> dict[str, int | None]:
        """Return the event time (ms) of each reader's stream by what was read, by the reader's key.

        None where that is not known. Topics of one stream may be shared among readers: if one of them is
        behind, the others wait for it.
        """
        tables: dict[str, list[str]] = {}
        for key in self.statuses:
            tables.setdefault(table_of(key), []).append(key)
        times = {table: self._event_time(keys) for table, keys in tables.items()}
        return {key: times[table_of(key)] for key in self.statuses}

    def _event_time(self, keys: Sequence[str]) -> int | None:
        """Return the event time of a stream that these readers read."""
        statuses = [self.statuses[key] for key in keys]
        if not all(status.partitions for status in statuses):
            return None  # one has not published its partitions yet
        read: dict[str, int] = {}
        for key in keys:
            read |= self.observed.get(key, ObservedTimes()).partitions
        partitions = [partition for status in statuses for partition in status.partitions]
        if all(status.has_ended for status in statuses):
            # Behind the last record of a range nobody waits. What is far behind would be idle in a dagger.
            timeout = statuses[0].idle_timeout
            behind = max(read.values(), default=0) - timeout if timeout else NEVER
            return event_time(
                PartitionTime(read.get(p), p not in read or read[p] < behind) for p in partitions
            )
        idle = {partition for status in statuses for partition in status.idle_partitions}
        return event_time(PartitionTime(read.get(p), p in idle) for p in partitions)

    def after(self, read: Mapping[str, ObservedTimes]) -> SourceState:
        """Return the state once a batch has read this: event time moves by it, and never back."""
        observed = dict(self.observed)
        for key, times in read.items():
            observed[key] = observed.get(key, ObservedTimes()).then(times)
        updated = replace(self, observed=observed)
        moved = dict(self.moved)
        for key, time in updated.event_times().items():
            advance = observed.get(key, ObservedTimes()).advance
            if (further := _later(_later(time, advance), moved.get(key))) is not None:
                moved[key] = further
        return replace(updated, moved=moved)

    def complete_from(self) -> datetime | None:
        """Return the time before which rows that need records must not be emitted. None: every row is whole.

        Known once all streams are open, and always the same for a checkpoint.
        """
        return _instant(max((status.complete_from for status in self.statuses.values()), default=0))

    def lost_records(self) -> tuple[LostRecords, ...]:
        """Return the records that Kafka had deleted before they were read, by reader."""
        return tuple(lost for _, status in sorted(self.statuses.items()) for lost in status.lost)

    def gaps(self) -> list[Gap]:
        """Return the event times of which not all records are read: rows that need some of them are not
        whole.
        """
        gaps = [Gap(_time(lost.begin), _time(lost.end) or _EPOCH) for lost in self.lost_records()]
        first = self.complete_from()
        return [*([Gap(None, first)] if first is not None else []), *gaps]

    def closed_until(self) -> datetime | None:
        """Return the last end of windows that were written before an edit and must not be again. None: none
        was.
        """
        return _instant(max((status.closed for status in self.statuses.values()), default=0))

    def warnings(self) -> tuple[str, ...]:
        """Return warnings for a person about the sources, UPPER_SNAKE code first."""
        statuses = [status for _, status in sorted(self.statuses.items())]
        unreachable = [
            f"STREAM_UNREACHABLE: {status.unreachable}" for status in statuses if status.unreachable
        ]
        return (*unreachable, *(warning for status in statuses for warning in status.warnings))

    def waiting_at(self) -> datetime | None:
        """Return when records last waited for the next batch; None where none did."""
        return _instant(max((status.waiting_at for status in self.statuses.values()), default=0) * 1000)

    def waiting(self) -> dict[str, int]:
        """Count the records that waited for the next batch then, by "topic/partition"."""
        return {place: count for status in self.statuses.values() for place, count in status.waiting.items()}

    def is_reachable(self) -> bool:
        """Tell whether every reader reached its topics at its last try."""
        return not any(status.unreachable for status in self.statuses.values())


class ReaderRegistry:
    """The readers of one launch: their files below `run_dir`."""

    def __init__(self, run_dir: Path) -> None:
        self._folder = run_dir / rundir.READERS

    def publish(self, key: str, status: ReaderStatus) -> None:
        """Write the status of the reader `key`."""
        form = asdict(status)
        # The file keeps the name that readers of an earlier release write.
        form["looked"] = form.pop("waiting_at")
        self._write(f"{quote(key, safe='')}.json", {"key": key, **form})

    def clear(self) -> None:
        """Remove the files that readers of an earlier query of this launch have published."""
        for file in self._folder.glob("*.json"):
            file.unlink()

    def state(self) -> SourceState:
        """Read what all of them have published so far."""
        statuses = {}
        for file in sorted(self._folder.glob("*.json")):
            if file.name != _DRIVER:
                form = json.loads(file.read_text(encoding="utf-8"))
                key = form.pop("key")
                statuses[key] = _status(form)
        try:
            driver = json.loads((self._folder / _DRIVER).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return SourceState(statuses)
        observed = {key: ObservedTimes(**times) for key, times in driver["observed"].items()}
        return SourceState(statuses, observed, driver["moved"])

    def record(self, read: Mapping[str, ObservedTimes]) -> SourceState:
        """Add the event times that a batch has read, by the reader's key; return the state after that."""
        state = self.state().after(read)
        observed = {key: asdict(times) for key, times in state.observed.items()}
        self._write(_DRIVER, {"observed": observed, "moved": state.moved})
        return state

    def _write(self, name: str, form: Mapping[str, Any]) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        replace_text(self._folder / name, json.dumps(form))


class StatusPublisher:
    """Publishes the status of one reader when it changes."""

    def __init__(self, plan: ReaderPlan) -> None:
        self.registry = ReaderRegistry(Path(plan.run_dir))
        self.status = ReaderStatus.initial(plan)
        self._key = plan.key

    def update(self, **changes: Any) -> None:
        """Publish these fields of the status, if they are new."""
        status = replace(self.status, **changes)
        if status != self.status:
            self.status = status
            self.registry.publish(self._key, status)


def table_of(key: str) -> str:
    """Return the table of the stream that the reader with this key reads."""
    return key.rpartition(".")[0]


def _status(form: dict[str, Any]) -> ReaderStatus:
    form |= {name: tuple(form[name]) for name in ("warnings", "partitions", "idle_partitions")}
    form["waiting_at"] = form.pop("looked")
    form["lost"] = tuple(LostRecords(*lost) for lost in form["lost"])
    form["open_transactions"] = {
        partition: OpenTransaction(**facts) for partition, facts in form["open_transactions"].items()
    }
    return ReaderStatus(**form)


def _later(one: int | None, other: int | None) -> int | None:
    return max((time for time in (one, other) if time is not None), default=None)


def _instant(micros: int) -> datetime | None:
    return _EPOCH + timedelta(microseconds=micros) if micros else None


def _time(micros: int) -> datetime | None:
    """Convert an event time; None for one that no calendar has: before all records."""
    with suppress(OverflowError):
        return _EPOCH + timedelta(microseconds=micros)
    return None
