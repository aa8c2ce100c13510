"""Checks of the routes of a team: all that is wrong at once, by the field."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import timedelta
from typing import Final

from daggers.v1 import alerts_pb2
from google.protobuf.duration_pb2 import Duration

from api_gateway.rpc.matchers import check_label, read_matchers
from chassis.durations import format_span
from daggerspec import fields
from daggerspec.nearest import hint, nearest
from daggerspec.violation import Violation
from fleet.alerts.routing.trees import DEEPEST, SpanField, measure_depth, walk
from fleet.alerts.routing.windows import parse_window

MOST_ROUTES: Final = 200
"""Routes of a team: each alert that fires is matched against them."""
MOST_EACH: Final = 20
"""Matchers, receivers, labels and windows of one route."""
_SECOND: Final = timedelta(seconds=1)
_SPANS: Final[Mapping[SpanField, tuple[timedelta, timedelta]]] = {
    "group_wait": (timedelta(0), timedelta(hours=1)),
    "group_interval": (10 * _SECOND, timedelta(days=1)),
    "repeat_interval": (timedelta(minutes=5), timedelta(days=30)),
}
"""Least and most of each; 0 of repeat_interval is never."""
_ESCALATION: Final = (timedelta(minutes=1), timedelta(days=1))


def find_problems(routes: alerts_pb2.AlertRoute, kinds: Collection[str], team: str) -> Iterator[Violation]:
    """Yield what is wrong with a tree. `kinds`: of the receivers that the team has."""
    if measure_depth(routes) > DEEPEST:
        yield Violation("routes", f"must not be deeper than {DEEPEST} routes", "TOO_MANY")
    count = sum(1 for _ in walk(routes))
    if count > MOST_ROUTES:
        yield Violation(
            "routes", f"must not have more than {MOST_ROUTES} routes, and has {count}", "TOO_MANY"
        )
        return
    for path, route in walk(routes):
        where = "routes" + "".join(f".routes[{number}]" for number in path)
        yield from _check_route(where, route, kinds, team)
        if not path and (route.match or route.continues):
            text = "is every alert's: give its children matchers"
            yield Violation(f"{where}.{'match' if route.match else 'continues'}", text, "NOT_ALLOWED")


def _check_route(
    where: str, route: alerts_pb2.AlertRoute, kinds: Collection[str], team: str
) -> Iterator[Violation]:
    lists = {
        "match": route.match,
        "receivers": route.receivers,
        "group_by": route.group_by.names,
        "windows": route.windows.windows,
        "escalation.receivers": route.escalation.receivers,
    }
    for field, values in lists.items():
        if len(values) > MOST_EACH:
            yield Violation(f"{where}.{field}", f"must not be more than {MOST_EACH}", "TOO_MANY")
    yield from read_matchers(f"{where}.match", route.match)[1]
    for field in ("receivers", "escalation.receivers"):
        for number, kind in enumerate(lists[field]):
            if kind not in kinds:
                yield _no_receiver(f"{where}.{field}[{number}]", kind, kinds, team)
    for number, label in enumerate(route.group_by.names):
        yield from check_label(f"{where}.group_by[{number}]", label)
    for number, text in enumerate(route.windows.windows):
        try:
            parse_window(text)
        except ValueError as error:
            yield Violation(f"{where}.windows[{number}]", str(error), "INVALID_WINDOW")
    yield from _check_times(where, route)


def _check_times(where: str, route: alerts_pb2.AlertRoute) -> Iterator[Violation]:
    for field, bounds in _SPANS.items():
        if route.HasField(field):
            never = field == "repeat_interval"
            yield from _check_span(f"{where}.{field}", getattr(route, field), bounds, or_never=never)
    if route.HasField("escalation"):
        after = route.escalation.after
        yield from _check_span(f"{where}.escalation.after", after, _ESCALATION, or_never=True)
        if bool(route.escalation.receivers) != bool(after.ToNanoseconds()):
            text = "must have receivers and a time, or neither, which is off"
            yield Violation(f"{where}.escalation", text, "REQUIRED")


def _check_span(
    path: str, value: Duration, bounds: tuple[timedelta, timedelta], *, or_never: bool
) -> Iterator[Violation]:
    wrong = [*fields.duration(path, value)]
    yield from wrong
    if wrong or (or_never and not value.ToTimedelta()):
        return
    least, most = bounds
    if not least <= value.ToTimedelta() <= most:
        never = ", or 0, which is never" if or_never else ""
        text = f"must be from {format_span(least)} to {format_span(most)}{never}"
        yield Violation(path, text, "OUT_OF_RANGE")


def _no_receiver(path: str, kind: str, kinds: Collection[str], team: str) -> Violation:
    near = nearest(kind, kinds)
    has = f"it has {', '.join(kinds)}" if kinds else "it has none"
    text = f"is no receiver of team {team}: {has}{hint(near, '')}"
    return Violation(path, text, "UNKNOWN_RECEIVER", suggestion=near or "")
