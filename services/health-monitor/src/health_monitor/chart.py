"""Contents of a small chart: a line of measured values, their limit, and when the alert was open. Pure.

It has numbers of the platform alone, no text of rows, specifications or secrets: nothing in it is masked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from chassis.durations import format_measure

MOST_POINTS: Final = 200
"""Points and bands of a chart, at most."""


class Point(NamedTuple):
    """Value at an instant; None: none was measured, and the line has a gap."""

    time: datetime
    value: float | None


class Band(NamedTuple):
    """Time in which the alert was open."""

    begin: datetime
    end: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Chart of one alert, between two instants."""

    title: str
    """Its contents, in a few words."""
    begin: datetime
    end: datetime
    points: Sequence[Point] = ()
    """Values, the oldest first; empty: the bands alone are drawn."""
    unit: str = "count"
    """Unit of the values and the limit, as `format_measure` has it."""
    limit: float | None = None
    bands: Sequence[Band] = ()

    @property
    def alternative(self) -> str:
        """Text in place of the picture."""
        values = [point.value for point in self.points if point.value is not None]
        if not values:
            return self.title
        least, greatest, last = (
            format_measure(value, self.unit) for value in (min(values), max(values), values[-1])
        )
        limit = "" if self.limit is None else f", limit {format_measure(self.limit, self.unit)}"
        return f"{self.title}: {least} to {greatest}, at last {last}{limit}"
