"""`daggers events`: the records of the control topic in words."""

import re
from collections import deque
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Annotated

import typer
from daggers.v1 import gateway_pb2

from cli.framework.gateway import Gateway
from cli.framework.group import group
from cli.framework.instants import instant
from cli.framework.session import Session, command
from cli.framework.watch_resumption import by_sequence, resume
from cli.output.event_text import words
from cli.output.json_views.answers import to_json
from cli.output.json_views.events import unpack
from daggerclient.times import iso

app = group()


@command(app, "events", example="daggers events --since 10m --tail 20")
def events(
    session: Session,
    name: Annotated[str, typer.Argument(help="Only events about this dagger.")] = "",
    since: Annotated[
        str,
        typer.Option(
            metavar="WHEN",
            help="Only events of the last 10m, 2h, 1d, since 2026-01-31T12:00Z, or after this sequence.",
            show_default=False,
        ),
    ] = "-1",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow events as they come.")] = False,
    tail: Annotated[int | None, typer.Option(min=0, help="Only this many of the newest events.")] = None,
    actor: Annotated[str, typer.Option(help="Only requests of this principal.")] = "",
) -> None:
    """Print every request, and everything that happened."""
    sequence, earliest = when(since, datetime.now(UTC))

    def wanted(event: gateway_pb2.Event) -> bool:
        recent = earliest is None or event.time.ToDatetime(tzinfo=UTC) >= earliest
        return recent and actor in ("", requester(event))

    with session.connect({"name": "NAME"}) as gateway:
        selected = _events(gateway, name, sequence, wanted, tail, follow=follow)
        if session.out.stream(selected, _event_line, to_json) == 0:
            session.out.note("no event matches")


def when(since: str, now: datetime) -> tuple[int, datetime | None]:
    """Parse --since: a sequence, or an instant. Raises: MisusedError."""
    if re.fullmatch(r"-1|[0-9]{1,18}", since):
        return int(since), None
    return -1, instant("--since", since, now)


def requester(event: gateway_pb2.Event) -> str:
    """Return the principal that requested an event; empty for facts, which nobody requested."""
    message = unpack(event.data)
    meta = getattr(message, "meta", None)
    return str(getattr(meta, "actor", ""))


def _events(
    gateway: Gateway,
    name: str,
    since: int,
    wanted: Callable[[gateway_pb2.Event], bool],
    tail: int | None,
    *,
    follow: bool,
) -> Iterator[gateway_pb2.Event]:
    """Yield events after a sequence; resume a followed stream where it broke."""

    def steps(after: int | None, *, until_end: bool = False) -> Iterator[gateway_pb2.WatchEventsResponse]:
        request = gateway_pb2.WatchEventsRequest(since_sequence=after, name=name, until_end=until_end)
        return gateway.watch(request, deadline_s=120 if until_end else None)

    if tail is not None or not follow:
        replayed: Iterator[gateway_pb2.Event] | deque[gateway_pb2.Event]
        replayed = (event for event in _events_of(steps(since, until_end=True)) if wanted(event))
        if tail is not None:
            replayed = deque(replayed, maxlen=tail)
        for event in replayed:
            since = event.sequence
            yield event
    if follow:
        yield from filter(wanted, _events_of(resume(steps, since, by_sequence)))


def _events_of(steps: Iterator[gateway_pb2.WatchEventsResponse]) -> Iterator[gateway_pb2.Event]:
    """Yield the events of a watch; its other steps only tell its position."""
    return (step.event for step in steps if step.HasField("event"))


def _event_line(event: gateway_pb2.Event) -> str:
    return f"{event.sequence:>6}  {iso(event.time):<27}  {event.subject:<24}  {words(event)}"
