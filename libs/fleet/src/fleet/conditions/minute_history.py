"""History of a condition over the minutes of a day: its values, and when it would have fired. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fleet.health.minutes import UNKNOWN

LABELS: Final = ("late_rows", "quarantine_rate", "freshness_missed")
"""The conditions whose values the minutes tell."""
_WINDOW: Final = 5
"""Minutes over which a share is counted, as the condition counts it."""

Series = Mapping[str, Sequence[int]]
"""Numbers of a dagger by field (`fleet.health.minutes.FIELDS`), one for each minute."""


@dataclass(frozen=True, slots=True)
class MinuteHistory:
    """Range of a condition's values, and when it would have fired."""

    minutes: int
    """Minutes of which a value is known."""
    least: float
    greatest: float
    greatest_at: int
    """Index of its minute."""
    firings: Sequence[tuple[int, int]]
    """Index of the first minute, and of the first one behind it."""


def list_values(label: str, series: Series) -> list[float | None]:
    """Return the value of a condition in each minute, in its unit; None where it is not known."""
    if label == "freshness_missed":
        return [None if number == UNKNOWN else number / 1_000 for number in series["freshness_p95_ms"]]
    field = {"late_rows": "late_rows", "quarantine_rate": "quarantined"}[label]
    counted, records = series[field], series["records"]
    return [_share(counted, records, last, beside=field == "quarantined") for last in range(len(records))]


def _share(counted: Sequence[int], records: Sequence[int], last: int, *, beside: bool) -> float | None:
    """Return the share over the minutes up to the last one. `beside`: what is counted is no part of the
    records.
    """
    minutes = [minute for minute in range(max(0, last - _WINDOW + 1), last + 1) if records[minute] != UNKNOWN]
    if not minutes or minutes[-1] != last:
        return None
    some = sum(max(counted[minute], 0) for minute in minutes)
    read = sum(records[minute] for minute in minutes) + (some if beside else 0)
    return some / read if read else 0.0


def simulate(
    values: Sequence[float | None], *, limit: float, clear: float, hold_minutes: int
) -> MinuteHistory | None:
    """Return the history of values: a firing begins once they were above the limit for `hold_minutes`, and
    ends with the first that is no more than `clear`. Unknown ones change nothing. None where none is known.
    """
    values_by_minute = [(value, index) for index, value in enumerate(values) if value is not None]
    if not values_by_minute:
        return None
    firings: list[tuple[int, int]] = []
    begun, above = -1, 0
    for value, index in values_by_minute:
        above = above + 1 if value > limit else 0
        if begun < 0 and above > 0 and above >= hold_minutes:
            begun = index
        elif begun >= 0 and value <= clear:
            firings.append((begun, index))
            begun = -1
    if begun >= 0:
        firings.append((begun, len(values)))
    greatest, place = max(values_by_minute, key=lambda pair: (pair[0], -pair[1]))
    return MinuteHistory(len(values_by_minute), min(values_by_minute)[0], greatest, place, firings)
