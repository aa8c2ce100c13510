"""What a replay says of a record without trying it, and in which words. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import pyarrow as pa
from daggers.v1 import events_pb2, telemetry_pb2

from runtime.encode.rows import Layout
from runtime.replay.history import Kept

Resolved = telemetry_pb2.QuarantineResolved
MOST_ATTEMPTS: Final = 5
"""What failed so often is tried again only where it is forced."""
SINK: Final = "sink"
"""The stage of rows that a sink refused."""
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
"""What is plain in Arrow, by Spark's names; of others only the name is compared."""
_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")


def replayed() -> Resolved:
    """Its rows are written."""
    return Resolved(outcome=telemetry_pb2.QUARANTINE_OUTCOME_REPLAYED)


def late(detail: str) -> Resolved:
    """Its windows are closed."""
    outcome = telemetry_pb2.QUARANTINE_OUTCOME_LATE
    return Resolved(outcome=outcome, reason="WINDOWS_CLOSED", detail=detail)


def failed_again(kept: Kept, reason: str, detail: str) -> Resolved:
    """It was refused once more."""
    outcome = telemetry_pb2.QUARANTINE_OUTCOME_FAILED_AGAIN
    return Resolved(outcome=outcome, reason=reason, detail=detail, attempt=kept.attempts + 1)


def not_replayable(reason: str, detail: str) -> Resolved:
    """It cannot be replayed as it is."""
    outcome = telemetry_pb2.QUARANTINE_OUTCOME_NOT_REPLAYABLE
    return Resolved(outcome=outcome, reason=reason, detail=detail)


def untried(
    kept: Kept, asked: events_pb2.QuarantineReplayRequested, sinks: Mapping[str, object]
) -> Resolved | None:
    """Why a record is not tried, by what is known without what it holds; None: it is."""
    if kept.attempts >= MOST_ATTEMPTS and not asked.force:
        return not_replayable(
            "NEEDS_FORCE",
            f"It failed in {kept.attempts} replays: mend what is wrong, then replay with force.",
        )
    if kept.stage == SINK and kept.sink not in sinks:
        return not_replayable("SINK_GONE", f"The dagger has no sink {kept.sink} any more.")
    return None


def unusable(record: telemetry_pb2.Quarantined) -> Resolved | None:
    """Why a row cannot be written from what was kept of it; None: it can."""
    if record.row:
        return None
    if record.truncated:
        return not_replayable("TRUNCATED", "The row was too large to be kept whole.")
    return not_replayable(
        "NOT_KEPT", "An older driver set it aside, which kept only what people see of a row."
    )


def newer_may_exist(sink: str) -> Resolved:
    """Another row may stand in its place by now."""
    return not_replayable(
        "NEWER_MAY_EXIST",
        f"A newer row may stand in {sink}, which an old one would replace: replay with force.",
    )


def expired() -> Resolved:
    """It is gone."""
    return not_replayable("EXPIRED", "The retention of the topic has taken what was kept.")


def misfit(layout: Layout, schema: pa.Schema) -> Resolved | None:
    """Why a row of this schema is none of the dagger's any more; None: it is one."""
    expected = [*(column.name for column in layout.columns), *layout.hidden]
    lacking = [name for name in expected if name not in schema.names]
    further = [name for name in schema.names if name not in expected]
    other = [
        f"{column.name} ({schema.field(column.name).type}, now {column.type})"
        for column in layout.columns
        if column.name in schema.names and not _fits(column.type, schema.field(column.name).type)
    ]
    parts = (("is new", lacking), ("is gone", further), ("has another type", other))
    wrong = [f"{', '.join(names)} {what}" for what, names in parts if names]
    if not wrong:
        return None
    return not_replayable("SINK_SCHEMA", f"The row was made by another query: {'; '.join(wrong)}.")


def _fits(spark: str, arrow: pa.DataType) -> bool:
    if match := _DECIMAL.fullmatch(spark):
        return bool(arrow == pa.decimal128(int(match[1]), int(match[2])))
    return bool(arrow == _TYPES.get(spark, arrow))
