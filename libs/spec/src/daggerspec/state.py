"""What becomes of a query's state when a driver starts: whether it goes on with what is kept, or from where
it reads again. The driver goes by it, and so does who says beforehand what an edit does. Pure.

Of a plan it takes what `daggersql.Plan` has: `fingerprint`, `horizon` and `lookback`.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import Enum
from typing import Final, Protocol

from daggers.v1 import spec_pb2

# A dagger that keeps records for less has little state, or little to lose: it starts a bit faster in memory.
LONG_KEPT: Final = timedelta(hours=1)
OFFSETS_FORM: Final = "by-source"
"""How offsets stand in a checkpoint: one with another form holds no state for this runtime."""


class Query(Protocol):
    """What is needed of a plan."""

    @property
    def fingerprint(self) -> str:
        """Equal ones may share a checkpoint."""

    @property
    def horizon(self) -> timedelta:
        """How far behind the newest record it still needs records; 0: not at all."""

    @property
    def lookback(self) -> timedelta:
        """How long before its window the oldest record of a row may lie."""


class Begin(Enum):
    """Where a query begins that finds the checkpoint of another one."""

    BEHIND = "behind what was read"
    """It needs no record twice."""
    FIRST = "where reading began"
    """No window was closed yet."""
    OPEN_WINDOWS = "where the oldest window begins that is open"
    """Windows that were closed were written, and what came after belonged to open ones."""


def updates(spec: spec_pb2.DaggerSpec) -> bool:
    """Whether rows are written again and again while their window is open."""
    return spec.emit == spec_pb2.EMIT_EARLY


def on_disk(spec: spec_pb2.DaggerSpec, query: Query) -> bool:
    """Whether state is kept on disk: as the spec says, else when it is kept for long."""
    if spec.state:
        return spec.state == spec_pb2.STATE_STORE_DISK
    return query.horizon >= LONG_KEPT


def identity(spec: spec_pb2.DaggerSpec, query: Query) -> str:
    """What must be equal for two launches to share a checkpoint.

    Beside the plan's fingerprint: how offsets are kept, and the place of state, which Spark pins there.
    """
    return f"{query.fingerprint}-{OFFSETS_FORM}{'-disk' if on_disk(spec, query) else ''}"


def begin(query: Query, *, closed: bool) -> Begin:
    """Where the query begins without a checkpoint of its own; `closed`: whether one had closed windows."""
    if not query.horizon:
        return Begin.BEHIND
    return Begin.OPEN_WINDOWS if closed else Begin.FIRST


def needed_since(query: Query, oldest: datetime) -> datetime:
    """From which event time on it needs records.

    `oldest` is the watermark, or when the oldest session began that is open.
    """
    return oldest - query.horizon - query.lookback
