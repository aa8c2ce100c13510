"""What the readers of one launch and its driver publish to each other: small files in the launch's directory.

Readers are processes of their own, and Spark gives them no way to talk. Each writes its own file, whole, and
reads the others'. Everything here is about one launch; what must survive it stands in the checkpoint.
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
from runtime.source.offsets import Lost
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
    """What a reader publishes of itself.

    `delay` is its watermark's delay (ms); `idle` that it advances its watermark itself; `newest_record` the
    newest event time (ms) near the end of its topics, None before it was idle for the first time;
    `complete_from`, `closed` and `lost` as in `Offsets`; `warnings` begin with an UPPER_SNAKE code;
    `unreachable` is why it cannot reach its topics now, or empty. `waiting` is how many records waited by
    "topic/partition" when they were `looked` at (ms since the epoch) and no batch was due, and `reached` the
    newest event time (ms) among them, as far as it was looked at.

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
    looked: int = 0
    waiting: Mapping[str, int] = field(default_factory=dict)
    lost: tuple[Lost, ...] = ()
    partitions: tuple[str, ...] = ()
    idle_partitions: tuple[str, ...] = ()
    open_transactions: Mapping[str, OpenTransaction] = field(default_factory=dict)
    reached: Mapping[str, int] = field(default_factory=dict)
    idle_timeout: int = 0
    has_ended: bool = False

    @staticmethod
    def initial(plan: ReaderPlan) -> ReaderStatus:
        """The status of a reader that has read nothing yet."""
        start = plan.start
        return ReaderStatus(
            plan.delay,
            complete_from=start.complete_from,
            closed=start.closed,
            warnings=plan.warnings,
            lost=start.lost,
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
        """These and more."""
        partitions, usable = dict(self.partitions), dict(self.usable)
        for partition, time in more.partitions.items():
            partitions[partition] = max(time, partitions.get(partition, time))
            usable[partition] = usable.get(partition, 0) + 1
        newest, advance = _later(self.newest, more.newest), _later(self.advance, more.advance)
        return ObservedTimes(newest, advance, partitions, usable)


@dataclass(frozen=True, slots=True)
class Published:
    """What the readers of one launch said at one moment, and what that means together."""

    statuses: Mapping[str, ReaderStatus]
    """The latest of every reader, by key."""
    observed: Mapping[str, ObservedTimes] = field(default_factory=dict)
    """What was read in this launch, by the reader's key."""
    moved: Mapping[str, int] = field(default_factory=dict)
    """How far event time (ms) has come for each reader, by key; left out: nowhere yet."""

    def watermarks(self) -> dict[str, WatermarkState]:
        """How far event time is for every reader, by key."""
        states = {}
        for key, status in self.statuses.items():
            record = self.observed.get(key, ObservedTimes()).newest
            newest = _later(record, status.newest_record)
            states[key] = WatermarkState(self.moved.get(key), newest, status.delay, status.idle)
        return states

    def watermark(self) -> int:
        """The query's watermark: up to where all its readers let event time go."""
        return min((state.watermark for state in self.watermarks().values()), default=NEVER)

    def read_until(self) -> dict[str, dict[str, int]]:
        """The newest event time (us) that this launch has read of each partition, as "topic/partition", by
        table: two streams of one topic may have their event times in different fields.
        """
        read: dict[str, dict[str, int]] = {}
        for key, times in self.observed.items():
            of_table = read.setdefault(table_of(key), {})
            for partition, time in times.partitions.items():
                of_table[partition] = max(time * 1000, of_table.get(partition, time * 1000))
        return read

    def event_times(self) -> dict[str, int | None]:
        """The event time (ms) of each reader's stream by what was read, by the reader's key; None where that
        is not known.

        Topics of one stream may be shared among readers: whoever of them is behind, the others wait for it.
        """
        tables: dict[str, list[str]] = {}
        for key in self.statuses:
            tables.setdefault(table_of(key), []).append(key)
        times = {table: self._event_time(keys) for table, keys in tables.items()}
        return {key: times[table_of(key)] for key in self.statuses}

    def _event_time(self, keys: Sequence[str]) -> int | None:
        """The event time of a stream that these readers read."""
        statuses = [self.statuses[key] for key in keys]
        if not all(status.partitions for status in statuses):
            return None  # one has not looked yet
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

    def after(self, read: Mapping[str, ObservedTimes]) -> Published:
        """The same, once a batch has read this: event time moves by it, and never back."""
        observed = dict(self.observed)
        for key, times in read.items():
            observed[key] = observed.get(key, ObservedTimes()).then(times)
        known = replace(self, observed=observed)
        moved = dict(self.moved)
        for key, time in known.event_times().items():
            advance = observed.get(key, ObservedTimes()).advance
            if (further := _later(_later(time, advance), moved.get(key))) is not None:
                moved[key] = further
        return replace(known, moved=moved)

    def complete_from(self) -> datetime | None:
        """Rows that need records from before this must not be emitted. None: every row is whole.

        Known once all streams are open, and always the same for a checkpoint.
        """
        return _instant(max((status.complete_from for status in self.statuses.values()), default=0))

    def lost(self) -> tuple[Lost, ...]:
        """What Kafka had deleted before it was read, by reader."""
        return tuple(lost for _, status in sorted(self.statuses.items()) for lost in status.lost)

    def gaps(self) -> list[Gap]:
        """The event times of which not all records are read: rows that need some from there are not whole."""
        gaps = [Gap(_time(lost.begin), _time(lost.end) or _EPOCH) for lost in self.lost()]
        first = self.complete_from()
        return [*([Gap(None, first)] if first is not None else []), *gaps]

    def closed(self) -> datetime | None:
        """Windows that end up to this were written before an edit and must not be again. None: none was."""
        return _instant(max((status.closed for status in self.statuses.values()), default=0))

    def warnings(self) -> tuple[str, ...]:
        """What a person should know about the sources, UPPER_SNAKE code first."""
        statuses = [status for _, status in sorted(self.statuses.items())]
        unreachable = [
            f"STREAM_UNREACHABLE: {status.unreachable}" for status in statuses if status.unreachable
        ]
        return (*unreachable, *(warning for status in statuses for warning in status.warnings))

    def looked(self) -> datetime | None:
        """When records were last seen to wait for the next batch; None where none were."""
        return _instant(max((status.looked for status in self.statuses.values()), default=0) * 1000)

    def waiting(self) -> dict[str, int]:
        """What waited for the next batch then, by "topic/partition"."""
        return {place: count for status in self.statuses.values() for place, count in status.waiting.items()}

    def is_reachable(self) -> bool:
        """Whether every reader reached its topics when it was asked last."""
        return not any(status.unreachable for status in self.statuses.values())


class ReaderRegistry:
    """The readers of one launch: their files below `run_dir`."""

    def __init__(self, run_dir: Path) -> None:
        self._folder = run_dir / rundir.READERS

    def publish(self, key: str, status: ReaderStatus) -> None:
        """Make the status of the reader `key` known."""
        self._write(f"{quote(key, safe='')}.json", {"key": key, **asdict(status)})

    def clear(self) -> None:
        """Take away what readers of an earlier query of this launch have published."""
        for file in self._folder.glob("*.json"):
            file.unlink()

    def published(self) -> Published:
        """What all of them have published so far."""
        statuses = {}
        for file in sorted(self._folder.glob("*.json")):
            if file.name != _DRIVER:
                form = json.loads(file.read_text(encoding="utf-8"))
                key = form.pop("key")
                statuses[key] = _status(form)
        try:
            driver = json.loads((self._folder / _DRIVER).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return Published(statuses)
        observed = {key: ObservedTimes(**times) for key, times in driver["observed"].items()}
        return Published(statuses, observed, driver["moved"])

    def record(self, read: Mapping[str, ObservedTimes]) -> Published:
        """Remember what a batch has read, by the reader's key; what is published then."""
        known = self.published().after(read)
        observed = {key: asdict(times) for key, times in known.observed.items()}
        self._write(_DRIVER, {"observed": observed, "moved": known.moved})
        return known

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
    """The table of the stream that the reader with this key reads."""
    return key.rpartition(".")[0]


def _status(form: dict[str, Any]) -> ReaderStatus:
    form |= {name: tuple(form[name]) for name in ("warnings", "partitions", "idle_partitions")}
    form["lost"] = tuple(Lost(*lost) for lost in form["lost"])
    form["open_transactions"] = {
        partition: OpenTransaction(**facts) for partition, facts in form["open_transactions"].items()
    }
    return ReaderStatus(**form)


def _later(one: int | None, other: int | None) -> int | None:
    return max((time for time in (one, other) if time is not None), default=None)


def _instant(micros: int) -> datetime | None:
    return _EPOCH + timedelta(microseconds=micros) if micros else None


def _time(micros: int) -> datetime | None:
    """An event time; None for one that no calendar has: before all records."""
    with suppress(OverflowError):
        return _EPOCH + timedelta(microseconds=micros)
    return None
