"""Limits of the conditions of daggers: which have one, in which unit and between which bounds. One table, for
specifications, teams and files.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from daggers.v1 import rules_pb2

from daggerspec import fields, limits
from daggerspec.nearest import hint, nearest
from daggerspec.violation import Violation

LONGEST: Final = timedelta(days=7)
"""Longest time that a condition may have to hold, or be left alone after a start."""
TIMES: Final = ("hold", "after_start")
"""Fields of limits that are times."""
_DAY_S: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class LimitKind:
    """Kind of the limit of a condition."""

    unit: str = ""
    """`s`, `share` or `count`; empty where no number decides."""
    least: float = 0
    most: float = 0
    clears: bool = False
    """True if its value comes down bit by bit, so that it may be over at less than the limit."""
    note: str = ""
    """Reason why it has no limit."""


CONDITIONS: Final[Mapping[str, LimitKind]] = {
    "failed": LimitKind(note="it fires whenever a dagger is given up"),
    "unreachable": LimitKind("s", 15, _DAY_S),
    "no_progress": LimitKind("s", 10, 7 * _DAY_S),
    "restart_loop": LimitKind("count", 2, 100, clears=True),
    "lag_growing": LimitKind("share", 0.001, 1, clears=True),
    "no_input": LimitKind("s", 60, 7 * _DAY_S),
    "no_output": LimitKind("s", limits.OVERDUE_S, 7 * _DAY_S),
    "late_rows": LimitKind("share", limits.LATE_SHARE, 1, clears=True),
    "records_expired": LimitKind(note="each record that was deleted unread is one too many"),
    "quarantine_rate": LimitKind("share", 0, 1, clears=True),
    "partition_behind": LimitKind("s", limits.BEHIND_S, 7 * _DAY_S),
    "freshness_missed": LimitKind(note="its limit is what the dagger says as `freshness`"),
    "sink_behind": LimitKind("s", 10, 7 * _DAY_S),
    "waiting_for_executors": LimitKind(note="without any it stands still; `hold` says how long it may"),
}
"""The conditions of daggers, by label. The least limits are those at which drivers report."""


def violations(path: str, conditions: Mapping[str, rules_pb2.ConditionLimits]) -> Iterator[Violation]:
    """Yield every violation of the limits at `path`, by condition."""
    for label in sorted(conditions):
        where, kind = f"{path}[{label}]", CONDITIONS.get(label)
        if kind is None:
            names = hint(nearest(label, CONDITIONS), f": {', '.join(CONDITIONS)}")
            yield Violation(where, f"{label} is no condition of daggers{names}", "UNKNOWN_CONDITION")
        else:
            yield from _of_condition(where, label, kind, conditions[label])


def _of_condition(
    path: str, label: str, kind: LimitKind, entry: rules_pb2.ConditionLimits
) -> Iterator[Violation]:
    if entry.HasField("limit"):
        yield from _of_limit(f"{path}.limit", label, kind, entry.limit)
    if entry.HasField("clear"):
        yield from _of_clear(f"{path}.clear", label, kind, entry)
    for name in TIMES:
        if entry.HasField(name):
            value = getattr(entry, name)
            yield from fields.duration(f"{path}.{name}", value)
            if value.ToTimedelta() > LONGEST:
                yield Violation(
                    f"{path}.{name}", f"must not be longer than {LONGEST.days} days", "OUT_OF_RANGE"
                )


def _of_limit(path: str, label: str, kind: LimitKind, limit: float) -> Iterator[Violation]:
    if not kind.unit:
        yield Violation(path, f"{label} has no limit: {kind.note}", "NOT_ALLOWED")
    elif not (math.isfinite(limit) and kind.least <= limit <= kind.most):
        bounds = " to ".join(write(kind.unit, bound) for bound in (kind.least, kind.most))
        yield Violation(path, f"must be from {bounds}", "OUT_OF_RANGE")


def _of_clear(
    path: str, label: str, kind: LimitKind, entry: rules_pb2.ConditionLimits
) -> Iterator[Violation]:
    if not kind.clears:
        text = f"{label} is over as soon as its cause is: say `hold`, so that it does not come and go"
        yield Violation(path, text, "NOT_ALLOWED")
    elif not (math.isfinite(entry.clear) and entry.clear >= 0):
        yield Violation(path, "must not be less than 0", "OUT_OF_RANGE")
    elif not entry.HasField("limit"):
        yield Violation(path, "needs the limit that it belongs to beside it", "REQUIRED")
    elif entry.clear > entry.limit:
        yield Violation(path, "must not be more than the limit", "OUT_OF_RANGE")


def write(unit: str, value: float) -> str:
    """Write a limit as files have it: 5 %, 90s, 3."""
    number = value * 100 if unit == "share" else value
    text = f"{round(number, 6):g}" if number < 1e6 else f"{number:.0f}"
    return text + {"share": " %", "s": "s"}.get(unit, "")
