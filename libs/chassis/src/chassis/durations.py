"""How long something took, and other numbers, for a person to read."""

from __future__ import annotations

from datetime import timedelta


def spoken(span: timedelta) -> str:
    """A duration by its two greatest units, such as `2 min 43 s`; below a second `0 s`."""
    seconds = max(int(span.total_seconds()), 0)
    for size, name, below, part in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= size:
            rest = seconds % size // below
            return f"{seconds // size} {name} {rest} {part}" if rest else f"{seconds // size} {name}"
    return f"{seconds} s"


def measured(value: float, unit: str) -> str:
    """A number of an alert, or its limit: seconds ("s"), a "share" of 1, or a "count"."""
    if unit == "s":
        return spoken(timedelta(seconds=value))
    return f"{value:.1%}" if unit == "share" else f"{value:,.0f}"
