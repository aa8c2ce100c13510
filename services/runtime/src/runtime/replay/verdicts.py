"""Build the outcomes of replayed records, and check records before they are tried. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import pyarrow as pa
from daggers.v1 import events_pb2, telemetry_pb2

from runtime.encode.rows import Layout
from runtime.replay.history import QuarantineEntry

Resolved = telemetry_pb2.QuarantineResolved
MOST_ATTEMPTS: Final = 5
"""A record that failed in this many replays is tried again only with `force`."""
SINK: Final = "sink"
"""Stage of rows that a sink refused; all other stages are of records that never became rows."""
_TYPES: Final[Mapping[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
}
"""Arrow types by their Spark names. A column of any other type passes by its name alone."""
_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")


def resolve_replayed() -> Resolved:
    """Build the outcome of a record whose rows are written."""
    return Resolved(outcome=telemetry_pb2.QUARANTINE_OUTCOME_REPLAYED)


def resolve_late(detail: str) -> Resolved:
    """Build the outcome of a record whose windows are closed."""
    outcome = telemetry_pb2.QUARANTINE_OUTCOME_LATE
    return Resolved(outcome=outcome, reason="WINDOWS_CLOSED", detail=detail)


def resolve_failed_again(entry: QuarantineEntry, reason: str, detail: str) -> Resolved:
    """Build the outcome of a record that failed again; it counts one attempt more."""
    outcome = telemetry_pb2.QUARANTINE_OUTCOME_FAILED_AGAIN
    return Resolved(outcome=outcome, reason=reason, detail=detail, attempt=entry.attempts + 1)


def resolve_not_replayable(reason: str, detail: str) -> Resolved:
    """Build the outcome of a record that cannot be replayed as it is."""
    outcome = telemetry_pb2.QUARANTINE_OUTCOME_NOT_REPLAYABLE
    return Resolved(outcome=outcome, reason=reason, detail=detail)


def check_triable(
    entry: QuarantineEntry, request: events_pb2.QuarantineReplayRequested, sinks: Mapping[str, object]
) -> Resolved | None:
    """Return why the record is not tried, as far as its entry shows it; None if it may be tried.

    sinks: the dagger's sinks by name.
    """
    if entry.attempts >= MOST_ATTEMPTS and not request.force:
        return resolve_not_replayable(
            "NEEDS_FORCE",
            f"It failed in {entry.attempts} replays: mend what is wrong, then replay with force.",
        )
    if entry.stage == SINK and entry.sink not in sinks:
        return resolve_not_replayable("SINK_GONE", f"The dagger has no sink {entry.sink} any more.")
    return None


def check_usable(record: telemetry_pb2.Quarantined) -> Resolved | None:
    """Return why the quarantined row is not complete enough to be written; None if it is."""
    if record.row:
        return None
    if record.truncated:
        return resolve_not_replayable("TRUNCATED", "The row was too large to be kept whole.")
    return resolve_not_replayable(
        "NOT_KEPT", "An older driver quarantined it, which kept only what people see of a row."
    )


def resolve_newer_may_exist(sink: str) -> Resolved:
    """Build the outcome of a row that might replace a newer one in the sink."""
    return resolve_not_replayable(
        "NEWER_MAY_EXIST",
        f"A newer row may stand in {sink}, which an old one would replace: replay with force.",
    )


def resolve_expired() -> Resolved:
    """Build the outcome of a record that the topic's retention has deleted."""
    return resolve_not_replayable("EXPIRED", "The retention of the topic has taken what was kept.")


def check_schema(layout: Layout, schema: pa.Schema) -> Resolved | None:
    """Return how the schema of a row differs from what the dagger's query yields now; None if it does not."""
    expected = [*(column.name for column in layout.columns), *layout.hidden]
    lacking = [name for name in expected if name not in schema.names]
    further = [name for name in schema.names if name not in expected]
    other = [
        f"{column.name} ({schema.field(column.name).type}, now {column.type})"
        for column in layout.columns
        if column.name in schema.names and not _fits(column.type, schema.field(column.name).type)
    ]
    parts = (("is new", lacking), ("is gone", further), ("has another type", other))
    wrong = [f"{', '.join(names)} {problem}" for problem, names in parts if names]
    if not wrong:
        return None
    return resolve_not_replayable("SINK_SCHEMA", f"The row was made by another query: {'; '.join(wrong)}.")


def _fits(spark: str, arrow: pa.DataType) -> bool:
    if match := _DECIMAL.fullmatch(spark):
        return bool(arrow == pa.decimal128(int(match[1]), int(match[2])))
    return bool(arrow == _TYPES.get(spark, arrow))
