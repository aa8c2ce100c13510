"""A launch of a dagger's newest version beside its driver: it reads, and writes nothing (ADR 109)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from daggers.v1 import events_pb2

from fleet.fold.footprint import NOTHING, Footprint


@dataclass(frozen=True, slots=True, kw_only=True)
class Shadow:
    """The shadow that there is, or may be. Its messages must not be changed."""

    generation: int
    """Sequence of its ShadowIntended."""
    version: int
    """The version of the dagger that it runs."""
    time: datetime
    """Time when it was intended."""
    epoch: int
    """Epoch of the scheduler that intended, launched or adopted it."""
    driver: events_pb2.DriverHandle | None = None
    """Handle of its driver; None when that is not known yet."""
    boundary: datetime | None = None
    """The end of the last window that the driver beside it writes; None until that is decided."""
    footprint: Footprint = NOTHING
    """Footprint of the launch."""
