"""What happens to the rows of each micro-batch, in the driver: check the lease, write, count, wait out
troubles.

Spark calls `Batches` once for each batch. It returns when every row is durable in every sink or quarantined;
only then does Spark commit. A sink that is down makes it try again, for as long as it takes, while heartbeats
say so.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import count

from daggers.v1 import events_pb2
from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from chassis import lines
from chassis.logging import note, unit_of_work
from daggerspec.columns import SINCE, SINCE_OF_WINDOW, WINDOW_END, WINDOW_START
from runtime.errors import EXTERNAL
from runtime.launch import progress
from runtime.launch.delivery import PRINTED, REFUSED, REPORT, TROUBLE, WRITTEN, Delivery
from runtime.launch.launch import Launch
from runtime.references.loading import References
from runtime.sinks import Target, load
from runtime.source.status import Published
from runtime.source.stream import begin_batch

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 10.0
_RECENT = 100


# Py4J prints the trace of whatever Python raises to the JVM.
_PRINTS_TRACES = ("py4j.clientserver", "py4j.java_gateway")


class UnfinishedError(Exception):
    """The last batch of a drain could not be written: it is not committed and will be repeated."""


@dataclass(frozen=True, slots=True)
class Report:
    """What the workers say about one attempt."""

    written: Counter[int]
    """Rows, by sink."""
    refused: Counter[str]
    """Rows that were quarantined, by reason."""
    printed: dict[int, list[str]]
    """Lines for the log, by sink."""
    troubles: tuple[events_pb2.DaggerError, ...]
    """Why sinks must be tried again; empty when all is durable."""
    done: frozenset[tuple[int, int]]
    """(partition, sink) pairs that are finished."""
    invalid: Mapping[str, int] = field(default_factory=dict)
    """Values that functions could not use, by function."""


def read_report(lines: Sequence[Row], targets: Sequence[Target]) -> Report:
    """Put the workers' report rows together."""
    written: Counter[int] = Counter()
    refused: Counter[str] = Counter()
    printed: dict[int, list[str]] = {}
    troubles = {}
    done = set()
    for line in lines:
        if line["kind"] == TROUBLE:
            detail = f"{targets[line['sink']].name}: {line['text']}"
            troubles[line["sink"]] = events_pb2.DaggerError(
                domain=EXTERNAL, reason=line["reason"], detail=detail, retryable=True
            )
        elif line["kind"] == WRITTEN:
            written[line["sink"]] += line["rows"]
            done.add((line["partition"], line["sink"]))
        elif line["kind"] == REFUSED:
            refused[line["reason"]] += line["rows"]
        elif line["kind"] == PRINTED:
            printed.setdefault(line["sink"], []).append(line["text"])
    return Report(
        written, refused, printed, tuple(troubles[sink] for sink in sorted(troubles)), frozenset(done)
    )


def _is_news(record: logging.LogRecord) -> bool:
    """Whether a line of the log says more than that a drain has left its last batch."""
    return not (record.exc_info and isinstance(record.exc_info[1], UnfinishedError))


def whole(rows: DataFrame, complete_from: datetime | None) -> DataFrame:
    """Those that need no record from before this event time: a part would overwrite the whole."""
    told = next((each for each in (SINCE_OF_WINDOW, SINCE, WINDOW_START) if each in rows.columns), None)
    if complete_from is None or told is None:
        return rows
    if told == SINCE_OF_WINDOW:  # all rows of a window are written at once
        rows = rows.withColumn(told, F.min(told).over(Window.partitionBy(WINDOW_START, WINDOW_END)))
    return rows.filter(F.col(told).isNull() | (F.col(told) >= F.lit(complete_from)))


def unwritten(rows: DataFrame, closed: datetime | None) -> DataFrame:
    """Those that are no windows which end up to this event time: a query before this one wrote these."""
    if closed is None or WINDOW_END not in rows.columns:
        return rows
    return rows.filter(F.col(WINDOW_END) > F.lit(closed))


class Batches:
    """Called by Spark with each micro-batch (`foreachBatch`)."""

    def __init__(
        self,
        launch: Launch,
        targets: Sequence[Target],
        *,
        published: Callable[[], Published],
        references: References,
    ) -> None:
        """`published` tells what the readers have published so far."""
        self.failure: BaseException | None = None
        """Why the last batch failed, as it was raised here: Spark only keeps its text."""
        self.unfinished = ""
        """Why the last batch of a drain was left unwritten; it is not committed and will be repeated."""
        self.last = threading.Event()
        """Set by whoever drains the query, once Spark will not begin another batch."""
        self._launch = launch
        self._targets = targets
        self._delivery = Delivery(
            tuple(targets),
            launch.spec.generation,
            launch.spec.platform.SerializeToString(deterministic=True),
            batch_id=-1,
            done=frozenset(),
            store=launch.lease_in_workers,
        )
        self._published = published
        self._references = references
        self._attempts: dict[int, int] = {}

    def attempts(self, batch_id: int) -> int:
        """How often the rows of a recent batch were computed: what Spark observed counts that often."""
        return self._attempts.get(batch_id, 1)

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        """Write one batch."""
        try:
            with unit_of_work("batch", dagger=self._launch.spec.dagger, batch_id=batch_id):
                self._batch(rows, batch_id)
        except BaseException as failure:
            self.failure = failure
            raise

    def _batch(self, rows: DataFrame, batch_id: int) -> None:
        self._launch.heartbeat.update(
            partial(progress.batch_began, batch_id=batch_id, time=datetime.now(UTC))
        )
        self._references.refresh(self._launch.session)
        begin_batch(self._launch.session)  # not the rows' session: that one knows no queries
        readers = self._published()
        wanted = whole(unwritten(rows, readers.closed()), readers.complete_from())
        report = self._deliver(wanted, batch_id)
        sinks = range(len(self._targets))
        self._launch.heartbeat.update(
            partial(
                progress.batch_written,
                rows=[report.written[sink] for sink in sinks],
                refused=report.refused,
                invalid=report.invalid,
            )
        )
        self._print(report)
        note(
            rows=[report.written[sink] for sink in sinks],
            refused=dict(report.refused),
            invalid=dict(report.invalid),
        )

    def _deliver(self, rows: DataFrame, batch_id: int) -> Report:
        """Write until everything is durable. One Spark job for each attempt, all sinks from the same pass."""
        total = Report(Counter(), Counter(), {}, (), frozenset())
        pause = _FIRST_PAUSE_S
        for attempt in count(1):
            self._attempts[batch_id] = attempt
            # Spark tells of a batch while the next ones run already, but never of so many.
            self._attempts.pop(batch_id - _RECENT, None)
            self._launch.lease.confirm()
            last_attempt = self._launch.stopping.is_set()
            write = replace(self._delivery, batch_id=batch_id, done=total.done)
            invalid_before = Counter(self._launch.functions.counts())
            report = read_report(rows.mapInArrow(write, REPORT).collect(), self._targets)
            total = Report(
                total.written + report.written,
                total.refused + report.refused,
                {
                    sink: total.printed.get(sink, []) + report.printed.get(sink, [])
                    for sink in {*total.printed, *report.printed}
                },
                report.troubles,
                total.done | report.done,
                # Every attempt computes all rows again: the last one counts.
                Counter(self._launch.functions.counts()) - invalid_before,
            )
            if not report.troubles:
                break
            self._launch.heartbeat.update(partial(progress.retrying, why=report.troubles))
            if last_attempt:
                self._leave("; ".join(trouble.detail for trouble in report.troubles))
            self._launch.stopping.wait(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_S)
        return total

    def _leave(self, why: str) -> None:
        """Leave the batch unwritten: raises, once the query is ending, what Spark takes for that end.

        Of a query that is being stopped Spark expects to hear that its jobs were cancelled: it commits
        nothing then, and prints no trace.
        """
        self.unfinished = why
        self.last.wait()
        for name in _PRINTS_TRACES:
            logging.getLogger(name).addFilter(_is_news)
        group = self._launch.session.sparkContext.getLocalProperty("spark.jobGroup.id")
        raise UnfinishedError(f"org.apache.spark.SparkException: part of cancelled job group {group}")

    def _print(self, report: Report) -> None:
        """The lines of sinks that print, up to their limit, on the driver's stdout."""
        for sink, printed in sorted(report.printed.items()):
            target = self._targets[sink]
            shown = printed[: load(target.name).limit_of(target)]
            if more := report.written[sink] - len(shown):
                shown.append(f"… and {more} more")
            now = datetime.now(UTC)
            sys.stdout.write("".join(f"{lines.line(now, 'INFO', target.name, row)}\n" for row in shown))
        sys.stdout.flush()
