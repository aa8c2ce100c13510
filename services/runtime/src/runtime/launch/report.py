"""Encode what workers report of an attempt to write a batch in a few rows, and merge these rows. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import pyarrow as pa
from daggers.v1 import events_pb2
from pyspark.sql import Row
from pyspark.sql.pandas.types import from_arrow_schema

from runtime.errors import EXTERNAL, JobError, TemporaryError
from runtime.launch.row_ages import PartAges
from runtime.spool.marker import SpooledPart

# schema of report rows, for Arrow and for Spark; as a text Spark would parse it for each batch
SCHEMA = pa.schema(
    [
        ("partition", pa.int64()),
        ("sink", pa.string()),
        ("kind", pa.string()),
        ("reason", pa.string()),
        ("text", pa.string()),
        ("content", pa.binary()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("retry_after", pa.float64()),
        ("seconds", pa.float64()),
    ]
)
REPORT = from_arrow_schema(SCHEMA)
WRITTEN, REFUSED, PRINTED, RECEIPT, TROUBLE = "written", "refused", "printed", "receipt", "trouble"
AGES, SPOOLED, JUDGED = "ages", "spooled", "judged"


@dataclass(frozen=True, slots=True)
class Trouble:
    """Error of a sink that has to be tried again."""

    error: events_pb2.DaggerError
    retry_after: float | None = None
    """Seconds that the sink asks to wait; None where it does not."""


@dataclass(frozen=True, slots=True)
class Report:
    """Results of one attempt, or of several; sinks are given by name."""

    written: Counter[str] = field(default_factory=Counter)
    """Written rows by sink."""
    refused: Counter[str] = field(default_factory=Counter)
    """Quarantined rows by reason."""
    printed: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Lines for the log by sink."""
    troubles: Mapping[str, Trouble] = field(default_factory=dict)
    """Sinks that have to be tried again; empty once everything is durable."""
    done: frozenset[tuple[int, str]] = frozenset()
    """Finished (partition, sink) pairs."""
    receipts: Mapping[str, Sequence[bytes]] = field(default_factory=dict)
    """Receipts for the driver to commit, by sink."""
    skipped: Counter[str] = field(default_factory=Counter)
    """Bytes quarantined for an outage, by sink."""
    invalid: Mapping[str, int] = field(default_factory=dict)
    """Unusable inputs by function."""
    ages: Mapping[str, Sequence[PartAges]] = field(default_factory=dict)
    """Ages of the rows of finished partitions, by sink."""
    waiting: Mapping[str, datetime] = field(default_factory=dict)
    """Event time of the oldest row that waits, by sink that has to be tried again, or has a log."""
    spooled: Mapping[str, Sequence[bytes]] = field(default_factory=dict)
    """Partitions that stand in the log of a sink, as `SpooledPart`, by sink."""
    spent: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Seconds that each worker, by its name, has spent on writing to a sink, by sink."""
    rule_rows: Sequence[bytes] = ()
    """Rows of which alert rules say something (`rules.selection`)."""

    def longest_s(self, sink: str) -> float:
        """Return the seconds for which a sink has kept the busiest of the workers from all else."""
        return max(self.spent.get(sink, {}).values(), default=0.0)

    def merge(self, later: Report) -> Report:
        """Merge with a later attempt, which wrote what this one had not finished.

        Every attempt computes all rows again: of troubles, what waits, invalid values and what alert rules
        say the last one counts.
        """
        return Report(
            self.written + later.written,
            self.refused + later.refused,
            _concat(self.printed, later.printed),
            later.troubles,
            self.done | later.done,
            _concat(self.receipts, later.receipts),
            self.skipped + later.skipped,
            later.invalid,
            _concat(self.ages, later.ages),
            _merge_oldest(
                {sink: self.waiting[sink] for sink in self.spooled if sink in self.waiting}, later.waiting
            ),
            _concat(self.spooled, later.spooled),
            _add_seconds(self.spent, later.spent),
            later.rule_rows,
        )

    def without_staged(self, sinks: Collection[str]) -> Report:
        """Return what remains when these sinks commit nothing that they have staged: it is written anew."""
        undone = self.receipts.keys() & set(sinks)
        return replace(
            self,
            written=Counter({sink: rows for sink, rows in self.written.items() if sink not in undone}),
            done=frozenset(pair for pair in self.done if pair[1] not in undone),
            receipts={sink: staged for sink, staged in self.receipts.items() if sink not in undone},
            ages={sink: parts for sink, parts in self.ages.items() if sink not in undone},
        )

    def without_spooled(self, sinks: Collection[str]) -> Report:
        """Return what remains when what these sinks have in their logs is of no batch: it is written anew."""
        undone = self.spooled.keys() & set(sinks)
        return replace(
            self,
            done=frozenset(
                (number, sink)
                for number, sink in self.done
                if sink not in undone or number not in _numbers(self.spooled[sink])
            ),
            spooled={sink: parts for sink, parts in self.spooled.items() if sink not in undone},
        )


def read_report(lines: Iterable[Row | Mapping[str, Any]]) -> Report:
    """Merge the workers' report rows."""
    written, refused, skipped = Counter[str](), Counter[str](), Counter[str]()
    printed, receipts = dict[str, list[str]](), dict[str, list[bytes]]()
    troubles = dict[str, Trouble]()
    ages, waiting = dict[str, list[PartAges]](), dict[str, datetime]()
    spooled = dict[str, list[bytes]]()
    spent = defaultdict[str, dict[str, float]](dict)
    rule_rows: list[bytes] = []
    done = set()
    for line in lines:
        sink = line["sink"]
        match line["kind"]:
            case "trouble":
                trouble = Trouble(_named_error(sink, line["reason"], line["text"]), line["retry_after"])
                troubles[sink] = _worse(troubles.get(sink), trouble)
            case "written":
                written[sink] += line["rows"]
                skipped[sink] += line["bytes"]
                spent[sink][line["text"]] = spent[sink].get(line["text"], 0.0) + line["seconds"]
                done.add((line["partition"], sink))
            case "spooled":
                spooled.setdefault(sink, []).append(bytes(line["content"]))
                done.add((line["partition"], sink))
            case "refused":
                refused[line["reason"]] += line["rows"]
            case "printed":
                printed.setdefault(sink, []).append(line["text"])
            case "judged":
                rule_rows.append(bytes(line["content"]))
            case "receipt":
                receipts.setdefault(sink, []).append(bytes(line["content"]))
            case "ages":
                part = PartAges.decode(line["content"])
                if part.acknowledged is not None:
                    ages.setdefault(sink, []).append(part)
                elif part.oldest is not None:
                    waiting[sink] = min(part.oldest, waiting.get(sink, part.oldest))
    troubles = {sink: troubles[sink] for sink in sorted(troubles)}
    return Report(
        written,
        refused,
        printed,
        troubles,
        frozenset(done),
        receipts,
        skipped,
        ages=ages,
        waiting=waiting,
        spooled=spooled,
        spent=spent,
        rule_rows=rule_rows,
    )


def trouble_of(sink: str, error: JobError) -> Trouble:
    """Build the trouble of a sink. Raises: the error itself where trying again cannot help."""
    if not is_waitable(error):
        raise error
    sink_error = _named_error(sink, error.error.reason, error.error.detail)
    return Trouble(sink_error, error.retry_after if isinstance(error, TemporaryError) else None)


def is_waitable(error: JobError) -> bool:
    """Tell whether a batch waits until this error of a sink is fixed; any other ends the job."""
    return error.error.domain == EXTERNAL and error.error.retryable


def _named_error(sink: str, reason: str, detail: str) -> events_pb2.DaggerError:
    text = f"{sink}: {detail}"
    return events_pb2.DaggerError(domain=EXTERNAL, reason=reason, detail=text, retryable=True)


def line(sink: str, kind: str, **more: Any) -> Mapping[str, Any]:
    """Build a report row without its partition."""
    defaults: dict[str, Any] = {"reason": "", "text": "", "content": b"", "rows": 0, "bytes": 0}
    defaults |= {"retry_after": None, "seconds": 0.0}
    return {"sink": sink, "kind": kind, **defaults, **more}


def _worse(one: Trouble | None, other: Trouble) -> Trouble:
    """Return the trouble that asks for the longer wait; of equal ones the later."""
    if one is None or (one.retry_after or 0) <= (other.retry_after or 0):
        return other
    return one


def _merge_oldest(one: Mapping[str, datetime], other: Mapping[str, datetime]) -> dict[str, datetime]:
    return {sink: min(times[sink] for times in (one, other) if sink in times) for sink in {**one, **other}}


def _add_seconds(
    one: Mapping[str, Mapping[str, float]], other: Mapping[str, Mapping[str, float]]
) -> dict[str, dict[str, float]]:
    total = {sink: dict(workers) for sink, workers in one.items()}
    for sink, workers in other.items():
        of_sink = total.setdefault(sink, {})
        for worker, seconds in workers.items():
            of_sink[worker] = of_sink.get(worker, 0.0) + seconds
    return total


def _numbers(spooled: Sequence[bytes]) -> set[int]:
    return {SpooledPart.decode(part).number for part in spooled}


def _concat(one: Mapping[str, Sequence[Any]], other: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    return {sink: [*one.get(sink, ()), *other.get(sink, ())] for sink in {**one, **other}}
