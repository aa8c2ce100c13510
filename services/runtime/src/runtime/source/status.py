"""What the readers of one launch and its driver publish to each other: small files in the launch's directory.

Readers are processes of their own, and Spark gives them no way to talk. Each writes its own file, whole, and
reads the others'. Everything here is about one launch; what must survive it stands in the checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
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
from runtime.source.watermark import WatermarkState

_DRIVER = "_driver.json"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ReaderStatus:
    """What a reader publishes of itself.

    `delay` is its watermark's delay (ms); `idle` that it advances its watermark itself; `newest_record` the
    newest event time (ms) near the end of its topics, None before it was idle for the first time;
    `complete_from`, `closed` and `lost` as in `Offsets`; `warnings` begin with an UPPER_SNAKE code;
    `unreachable` is why it cannot reach its topics now, or empty. `waiting` is how many records waited by
    "topic/partition" when they were `looked` at (ms since the epoch) and no batch was due.
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
        )


@dataclass(frozen=True, slots=True)
class Gap:
    """A stretch of event time: from `begin` on (None: the first record), up to, not including, `end`."""

    begin: datetime | None
    end: datetime


@dataclass(frozen=True, slots=True)
class Published:
    """What the readers of one launch said at one moment, and what that means together."""

    statuses: Mapping[str, ReaderStatus]
    """The latest of every reader, by key."""
    observed: Mapping[str, tuple[int | None, int | None]]
    """The greatest event time (ms) of any row and of a record, by the reader's key."""
    partitions: Mapping[str, int] = field(default_factory=dict)
    """The greatest event time (us) of a record that was read of each partition, by "topic/partition"."""

    def watermarks(self) -> dict[str, WatermarkState]:
        """How far event time is for every reader, by key."""
        states = {}
        for key, status in self.statuses.items():
            any_row, record = self.observed.get(key, (None, None))
            newest = _later(record, status.newest_record)
            states[key] = WatermarkState(any_row, newest, status.delay, status.idle)
        return states

    def read_until(self) -> dict[str, int]:
        """The newest event time (us) that this launch has read of each partition, as "topic/partition"."""
        return dict(self.partitions)

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
                key, form["warnings"] = form.pop("key"), tuple(form["warnings"])
                form["lost"] = tuple(Lost(*lost) for lost in form["lost"])
                statuses[key] = ReaderStatus(**form)
        return Published(statuses, *self._observed())

    def record(
        self,
        observed: Mapping[str, tuple[int | None, int | None]],
        partitions: Mapping[str, int],
    ) -> None:
        """Remember the greatest event time (ms) of any row and of a record, by the reader's key, and that of
        a record of each partition (us).
        """
        known, newest = self._observed()
        for partition, micros in partitions.items():
            newest[partition] = max(micros, newest.get(partition, micros))
        for key, (any_row, record) in observed.items():
            before = known.get(key, (None, None))
            known[key] = (_later(before[0], any_row), _later(before[1], record))
        self._write(_DRIVER, {"observed": known, "partitions": newest})

    def _observed(self) -> tuple[dict[str, tuple[int | None, int | None]], dict[str, int]]:
        try:
            text = (self._folder / _DRIVER).read_text(encoding="utf-8")
        except FileNotFoundError:
            return {}, {}
        form = json.loads(text)
        return {key: (any_row, record) for key, (any_row, record) in form["observed"].items()}, form[
            "partitions"
        ]

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


def _later(one: int | None, other: int | None) -> int | None:
    return max((time for time in (one, other) if time is not None), default=None)


def _instant(micros: int) -> datetime | None:
    return _EPOCH + timedelta(microseconds=micros) if micros else None


def _time(micros: int) -> datetime | None:
    """An event time; None for one that no calendar has: before all records."""
    with suppress(OverflowError):
        return _EPOCH + timedelta(microseconds=micros)
    return None
