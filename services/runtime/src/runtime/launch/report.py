"""What workers report of one attempt to write a batch, in a few rows, and these rows put together. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from daggers.v1 import events_pb2
from pyspark.sql import Row
from pyspark.sql.pandas.types import from_arrow_schema

from runtime.errors import EXTERNAL, JobError, TemporaryError

# What a worker reports, as Arrow and as Spark see it: of words Spark would make that anew for each batch.
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
    ]
)
REPORT = from_arrow_schema(SCHEMA)
WRITTEN, REFUSED, PRINTED, RECEIPT, TROUBLE = "written", "refused", "printed", "receipt", "trouble"


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a sink must be tried again."""

    error: events_pb2.DaggerError
    retry_after: float | None = None
    """Seconds that it asks to be left alone for; None where it does not say."""


@dataclass(frozen=True, slots=True)
class Report:
    """What the workers say about one attempt, or about several; sinks by their names."""

    written: Counter[str] = field(default_factory=Counter)
    """Rows, by sink."""
    refused: Counter[str] = field(default_factory=Counter)
    """Rows that were quarantined, by reason."""
    printed: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Lines for the log, by sink."""
    troubles: Mapping[str, Trouble] = field(default_factory=dict)
    """Why sinks must be tried again; empty when all is durable."""
    done: frozenset[tuple[int, str]] = frozenset()
    """(partition, sink) pairs that are finished."""
    receipts: Mapping[str, Sequence[bytes]] = field(default_factory=dict)
    """What the driver commits, by sink."""
    skipped: Counter[str] = field(default_factory=Counter)
    """Bytes that were quarantined because their sink was away, by sink."""
    invalid: Mapping[str, int] = field(default_factory=dict)
    """Values that functions could not use, by function."""

    def then(self, later: Report) -> Report:
        """This and a later attempt, which wrote what this one had not finished.

        Every attempt computes all rows again: of troubles and of invalid values the last one counts.
        """
        return Report(
            self.written + later.written,
            self.refused + later.refused,
            _joined(self.printed, later.printed),
            later.troubles,
            self.done | later.done,
            _joined(self.receipts, later.receipts),
            self.skipped + later.skipped,
            later.invalid,
        )


def read_report(lines: Iterable[Row]) -> Report:
    """Put the workers' report rows together."""
    written, refused, skipped = Counter[str](), Counter[str](), Counter[str]()
    printed, receipts = dict[str, list[str]](), dict[str, list[bytes]]()
    troubles = dict[str, Trouble]()
    done = set()
    for line in lines:
        sink = line["sink"]
        match line["kind"]:
            case "trouble":
                trouble = Trouble(_error(sink, line["reason"], line["text"]), line["retry_after"])
                troubles[sink] = _worse(troubles.get(sink), trouble)
            case "written":
                written[sink] += line["rows"]
                skipped[sink] += line["bytes"]
                done.add((line["partition"], sink))
            case "refused":
                refused[line["reason"]] += line["rows"]
            case "printed":
                printed.setdefault(sink, []).append(line["text"])
            case "receipt":
                receipts.setdefault(sink, []).append(bytes(line["content"]))
    troubles = {sink: troubles[sink] for sink in sorted(troubles)}
    return Report(written, refused, printed, troubles, frozenset(done), receipts, skipped)


def trouble_of(sink: str, error: JobError) -> Trouble:
    """Why a sink must be tried again. Raises: JobError, the same, where that cannot help."""
    if not waits(error):
        raise error
    told = _error(sink, error.error.reason, error.error.detail)
    return Trouble(told, error.retry_after if isinstance(error, TemporaryError) else None)


def waits(error: JobError) -> bool:
    """Whether a batch waits after this error of a sink, until somebody mends it; others end the job."""
    return error.error.domain == EXTERNAL and error.error.retryable


def _error(sink: str, reason: str, detail: str) -> events_pb2.DaggerError:
    told = f"{sink}: {detail}"
    return events_pb2.DaggerError(domain=EXTERNAL, reason=reason, detail=told, retryable=True)


def line(sink: str, kind: str, **more: Any) -> Mapping[str, Any]:
    """A report row, but for its partition."""
    unsaid = {"reason": "", "text": "", "content": b"", "rows": 0, "bytes": 0, "retry_after": None}
    return {"sink": sink, "kind": kind, **unsaid, **more}


def _worse(one: Trouble | None, other: Trouble) -> Trouble:
    """Of two partitions' troubles with a sink the one that asks for more time; else the later one."""
    if one is None or (one.retry_after or 0) <= (other.retry_after or 0):
        return other
    return one


def _joined(one: Mapping[str, Sequence[Any]], other: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    return {sink: [*one.get(sink, ()), *other.get(sink, ())] for sink in {**one, **other}}
