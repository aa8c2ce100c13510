"""State of a query when a driver starts: it goes on with the checkpoint, or reads again from some place.

The driver decides by it, and so does the plan of an edit. Pure. Of a plan it needs what `daggersql.Plan` has:
`fingerprint`, `horizon` and `lookback`.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import Enum
from typing import Final, Protocol

from daggers.v1 import spec_pb2

from daggerspec import late

# A dagger that keeps records for less has little state, or little to lose: it starts a bit faster in memory.
LONG_KEPT: Final = timedelta(hours=1)
STATE_UNDIVIDED: Final = "STATE_UNDIVIDED"
"""The warning of a driver whose state has fewer or more partitions than it has cores."""
OFFSETS_FORM: Final = "by-source"
"""The form of offsets in a checkpoint: one with another form has no state for this runtime."""


class StatefulPlan(Protocol):
    """The properties of a plan that its state depends on."""

    @property
    def fingerprint(self) -> str:
        """Equal ones may share a checkpoint."""

    @property
    def horizon(self) -> timedelta:
        """The time behind the newest record for which it still needs records; 0: none."""

    @property
    def lookback(self) -> timedelta:
        """The longest time by which the oldest record of a row may precede its window."""


class Begin(Enum):
    """The start of a query that finds the checkpoint of another one."""

    BEHIND = "behind what was read"
    """It needs no record twice."""
    FIRST = "where reading began"
    """No window was closed yet."""
    OPEN_WINDOWS = "where the oldest window begins that is open"
    """Windows that were closed were written, and what came after belonged to open ones."""


def is_early(spec: spec_pb2.DaggerSpec) -> bool:
    """Return whether rows are written again and again while their window is open."""
    return spec.emit == spec_pb2.EMIT_EARLY


def updates(spec: spec_pb2.DaggerSpec) -> bool:
    """Return whether rows are written again: while their window is open, or with late records."""
    return is_early(spec) or spec.late.HasField("update")


def rewriting(spec: spec_pb2.DaggerSpec) -> tuple[spec_pb2.Emit.ValueType, timedelta]:
    """Return when its rows are emitted, and how late records may be with which they are written again."""
    return spec.emit, late.allowed_lateness(spec)


def updating_setting(spec: spec_pb2.DaggerSpec) -> str:
    """Return the setting by which its rows are written again, for a sentence."""
    return "emit early" if is_early(spec) else "late update"


def once(spec: spec_pb2.DaggerSpec) -> str:
    """Tell what to do so that each row is written once, for a sentence."""
    return "emit final" if is_early(spec) else "drop late records"


def on_disk(spec: spec_pb2.DaggerSpec, query: StatefulPlan) -> bool:
    """Return whether state is on disk: as the spec says, else if it is long-lived."""
    if spec.state:
        return spec.state == spec_pb2.STATE_STORE_DISK
    return query.horizon >= LONG_KEPT


def identity(spec: spec_pb2.DaggerSpec, query: StatefulPlan) -> str:
    """Build the text that must be equal for two launches to share a checkpoint.

    Beside the plan's fingerprint: how offsets are kept, and the place of state, which Spark pins there.
    """
    return f"{query.fingerprint}-{OFFSETS_FORM}{'-disk' if on_disk(spec, query) else ''}"


def begin(query: StatefulPlan, *, closed: bool) -> Begin:
    """Return where the query begins without a checkpoint of its own; `closed`: one had closed windows."""
    if not query.horizon:
        return Begin.BEHIND
    return Begin.OPEN_WINDOWS if closed else Begin.FIRST


def needed_since(query: StatefulPlan, oldest: datetime) -> datetime:
    """Return the event time from which on it needs records.

    `oldest` is the watermark, or when the oldest session began that is open.
    """
    return oldest - query.horizon - query.lookback
