"""Durations and other numbers as texts for people."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

_SECONDS_WITH_PARTS: Final = 60
_SMALL_SHARE: Final = 0.01
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def format_span(span: timedelta) -> str:
    """Format a duration by its two greatest units, such as `2 min 43 s`; below a second `0 s`."""
    return _format(span, units=2)


def rough(span: timedelta) -> str:
    """Format a duration by its greatest unit, such as `2 min`; below a second `0 s`."""
    return _format(span, units=1)


def _format(span: timedelta, *, units: int) -> str:
    """Format a duration by a number of units, from the greatest one that is not zero; leave out zeros."""
    rest = max(int(span.total_seconds()), 0)
    counts: list[tuple[int, str]] = []
    for size, unit in _UNITS:
        count, rest = divmod(rest, size)
        if count or counts:
            counts.append((count, unit))
    return " ".join(f"{count} {unit}" for count, unit in counts[:units] if count) or "0 s"


def format_measure(value: float, unit: str) -> str:
    """Format a measure of an alert, or its limit: seconds ("s"), a "share" of 1, a "number" or a "count".

    Small ones have the digits that tell a value from its limit.
    """
    if unit == "number":
        return f"{value:,.6g}"
    if unit == "s" and value < _SECONDS_WITH_PARTS and value != int(value):
        return f"{value:.3g} s"
    if unit == "s":
        return format_span(timedelta(seconds=value))
    if unit == "share":
        return f"{value:.1%}" if value == 0 or value >= _SMALL_SHARE else f"{100 * value:.2g}%"
    return f"{value:,.0f}"
