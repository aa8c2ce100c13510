"""Trees of routes as messages, and destinations as a fact has them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Final, Literal, TypeAlias

from daggers.v1 import alerts_pb2
from google.protobuf.duration_pb2 import Duration

from daggerspec.receivers import name as name_receiver
from fleet.alerts.routing.matching import parse_matcher
from fleet.alerts.routing.routes import NEVER, Destination, Route
from fleet.alerts.routing.windows import parse_window

SpanField: TypeAlias = Literal["group_wait", "group_interval", "repeat_interval"]
"""Field of a route that is a time."""
DEEPEST: Final = 8
"""Routes from the root of a tree to a leaf."""


def parse_routes(message: alerts_pb2.AlertRoute, team: str) -> Route:
    """Convert the tree of a team, with the full names of its receivers. Raises: ValueError."""
    if measure_depth(message) > DEEPEST:
        raise ValueError(f"the tree must not be deeper than {DEEPEST} routes")
    return _parse(message, team)


def measure_depth(message: alerts_pb2.AlertRoute, limit: int = DEEPEST + 1) -> int:
    """Count the routes from this one to its deepest leaf, itself included, up to a limit."""
    if limit <= 1 or not message.routes:
        return 1
    return 1 + max(measure_depth(child, limit - 1) for child in message.routes)


def walk(
    message: alerts_pb2.AlertRoute, path: tuple[int, ...] = ()
) -> Iterator[tuple[tuple[int, ...], alerts_pb2.AlertRoute]]:
    """Yield every route of a tree with its place, parents first, to the depth of DEEPEST and one more."""
    yield path, message
    if len(path) < DEEPEST:
        for number, child in enumerate(message.routes):
            yield from walk(child, (*path, number))


def _parse(message: alerts_pb2.AlertRoute, team: str) -> Route:
    escalates = message.HasField("escalation")
    return Route(
        match=tuple(map(parse_matcher, message.match)),
        receivers=_name_all(team, message.receivers),
        group_by=tuple(message.group_by.names) if message.HasField("group_by") else None,
        group_wait=_read_span(message, "group_wait"),
        group_interval=_read_span(message, "group_interval"),
        repeat_interval=_or_never(_read_span(message, "repeat_interval")),
        windows=tuple(map(parse_window, message.windows.windows)) if message.HasField("windows") else None,
        escalate_after=_or_never(message.escalation.after.ToTimedelta()) if escalates else None,
        escalate_to=_name_all(team, message.escalation.receivers) if escalates else None,
        continues=message.continues,
        routes=tuple(_parse(child, team) for child in message.routes),
    )


def _name_all(team: str, kinds: Iterable[str]) -> tuple[str, ...]:
    return tuple(name_receiver(team, kind) for kind in kinds)


def _read_span(message: alerts_pb2.AlertRoute, field: SpanField) -> timedelta | None:
    value: Duration = getattr(message, field)
    return value.ToTimedelta() if message.HasField(field) else None


def _or_never(span: timedelta | None) -> timedelta | None:
    return span if span is None or span else NEVER


def build_destination(destination: Destination) -> alerts_pb2.AlertDestination:
    """Convert a destination to its message."""
    message = alerts_pb2.AlertDestination(
        revision=destination.revision,
        path=destination.path,
        why=destination.why,
        receivers=destination.receivers,
        group_by=destination.group_by,
        windows=map(str, destination.windows),
        escalate_to=destination.escalate_to,
    )
    message.group_wait.FromTimedelta(destination.group_wait)
    message.group_interval.FromTimedelta(destination.group_interval)
    for field, span in (
        (message.repeat_interval, destination.repeat_interval),
        (message.escalate_after, destination.escalate_after),
    ):
        field.FromTimedelta(timedelta(0) if span == NEVER else span)
    return message


def parse_destination(message: alerts_pb2.AlertDestination) -> Destination:
    """Convert a destination that a monitor wrote. Raises: ValueError, where it has no meaning here."""
    interval = message.group_interval.ToTimedelta()
    if not interval > timedelta(0):
        raise ValueError("group_interval must be longer than 0 s")
    return Destination(
        revision=message.revision,
        path=tuple(message.path),
        why=tuple(message.why),
        receivers=tuple(message.receivers),
        group_by=tuple(message.group_by),
        group_wait=message.group_wait.ToTimedelta(),
        group_interval=interval,
        repeat_interval=message.repeat_interval.ToTimedelta() or NEVER,
        windows=tuple(map(parse_window, message.windows)),
        escalate_after=message.escalate_after.ToTimedelta() or NEVER,
        escalate_to=tuple(message.escalate_to),
    )
