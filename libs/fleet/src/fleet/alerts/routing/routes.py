"""Routes: a tree of matchers, and the destinations that it gives an incident. Pure.

As in Alertmanager: a route that matches asks its children, the first that matches has the incident, and with
`continues` the next ones, too; where no child matches, the route itself has it. What a route does not say is
as its parent has it. Where the tree of a team gives no receiver, the platform's is asked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from fleet.alerts.routing.labels import Labels
from fleet.alerts.routing.matching import Matcher, matches_all
from fleet.alerts.routing.windows import TimeWindow

NEVER: Final = timedelta.max
"""Interval of what is not repeated, and not escalated."""
_AHEAD: Final = timedelta(days=8)
_MINUTE: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Node of a tree of routes. None and an empty tuple of receivers: as the parent has it."""

    match: tuple[Matcher, ...] = ()
    receivers: tuple[str, ...] = ()
    group_by: tuple[str, ...] | None = None
    """Labels whose values incidents of one notice have in common."""
    group_wait: timedelta | None = None
    """Time from the first incident of a group to its first notice, for others that come meanwhile."""
    group_interval: timedelta | None = None
    """Time between two looks at a group: whether incidents came, or are over."""
    repeat_interval: timedelta | None = None
    """Time after which a notice of which nothing changed is sent again."""
    windows: tuple[TimeWindow, ...] | None = None
    """Times in which it is active; empty: always. What is due outside of them is told when one begins."""
    escalate_after: timedelta | None = None
    """Time from the first notice after which those of `escalate_to` are told, unless it is acknowledged."""
    escalate_to: tuple[str, ...] | None = None
    continues: bool = False
    """True if the routes behind it are asked, too."""
    routes: tuple[Route, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """Route that an incident takes, with everything that it has from its parents."""

    revision: int = 0
    """Revision of the routes."""
    path: tuple[int, ...] = ()
    """Place of the route in its tree: the number of each child from the root on."""
    why: tuple[str, ...] = ()
    """Matchers that led here, from the root on."""
    receivers: tuple[str, ...] = ()
    group_by: tuple[str, ...] = ("dagger", "condition")
    group_wait: timedelta = timedelta(seconds=30)
    group_interval: timedelta = timedelta(minutes=5)
    repeat_interval: timedelta = timedelta(hours=4)
    windows: tuple[TimeWindow, ...] = ()
    escalate_after: timedelta = NEVER
    escalate_to: tuple[str, ...] = ()

    def is_active(self, instant: datetime) -> bool:
        """Tell whether it may be told at an instant."""
        return not self.windows or any(window.contains(instant) for window in self.windows)

    def find_active(self, look: datetime) -> datetime | None:
        """Return the first look from this one on at which it may be told; None in none of the next eight
        days, which windows that lie between two looks may bring about.
        """
        for minute in range(_AHEAD // _MINUTE):
            instant = look + minute * _MINUTE
            if self.is_active(instant):
                later = look + -((look - instant) // self.group_interval) * self.group_interval
                if self.is_active(later):
                    return later
        return None


_INHERITED: Final = (
    "group_by",
    "group_wait",
    "group_interval",
    "repeat_interval",
    "windows",
    "escalate_after",
    "escalate_to",
)


def find_destinations(tree: Route | None, labels: Labels, *, fallback: Route) -> list[Destination]:
    """List where an incident goes by the tree of its team; by `fallback` where that names no receiver."""
    own = [] if tree is None else _find(tree, labels)
    return own or _find(fallback, labels)


def keep_receivers(destinations: Iterable[Destination], own: Collection[str]) -> Iterator[Destination]:
    """Leave out receivers that are not a team's `own` any more, and destinations that have none then."""
    for destination in destinations:
        receivers = tuple(name for name in destination.receivers if name in own)
        escalate_to = tuple(name for name in destination.escalate_to if name in own)
        if receivers:
            after = destination.escalate_after if escalate_to else NEVER
            yield replace(destination, receivers=receivers, escalate_to=escalate_to, escalate_after=after)


def _find(tree: Route, labels: Labels) -> list[Destination]:
    return [destination for destination in _descend(tree, labels, Destination(), ()) if destination.receivers]


def _descend(
    route: Route, labels: Labels, parent: Destination, path: tuple[int, ...]
) -> Iterator[Destination]:
    if not matches_all(route.match, labels):
        return
    here = _inherit(route, parent, path)
    is_taken = False
    for number, child in enumerate(route.routes):
        deeper = list(_descend(child, labels, here, (*path, number)))
        yield from deeper
        is_taken = is_taken or bool(deeper)
        if deeper and not child.continues:
            return
    if not is_taken:
        yield here


def _inherit(route: Route, parent: Destination, path: tuple[int, ...]) -> Destination:
    own = {name: getattr(route, name) for name in _INHERITED}
    inherited = {name: getattr(parent, name) for name in _INHERITED}
    return Destination(
        path=path,
        why=(*parent.why, *map(str, route.match)),
        receivers=route.receivers or parent.receivers,
        **inherited | {name: value for name, value in own.items() if value is not None},
    )
