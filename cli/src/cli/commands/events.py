"""`daggers events`: the control topic, in words."""

from collections.abc import Iterator
from typing import Annotated

import typer
from daggers.v1 import gateway_pb2

from cli.event_text import words
from cli.gateway import Gateway
from cli.group import group
from cli.json_views.events import event as view
from cli.resuming import by_sequence, resumed
from cli.session import Session, command
from daggerclient.times import iso

app = group()


@command(app, "events", example="daggers events --since 120 --follow")
def events(
    session: Session,
    name: Annotated[str, typer.Argument(help="Only events about this dagger.")] = "",
    since: Annotated[int, typer.Option(min=-1, help="Only events after this sequence.")] = -1,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as they come.")] = False,
) -> None:
    """The control topic: everything that was asked, and everything that happened, in order."""
    with session.connect() as gateway:
        session.out.stream(_events(gateway, name, since, follow), _event_line, view)


def _events(gateway: Gateway, name: str, since: int, follow: bool) -> Iterator[gateway_pb2.Event]:
    """Events after a sequence; a followed stream that breaks is taken up where it was."""

    def steps(after: int | None) -> Iterator[gateway_pb2.WatchEventsResponse]:
        request = gateway_pb2.WatchEventsRequest(since_sequence=after, name=name, until_end=not follow)
        return gateway.watch(request, deadline_s=None if follow else 120)

    for step in resumed(steps, since, by_sequence) if follow else steps(since):
        if step.HasField("event"):  # other steps only tell how far the watch is
            yield step.event


def _event_line(event: gateway_pb2.Event) -> str:
    return f"{event.sequence:>6}  {iso(event.time):<27}  {event.subject:<24}  {words(event)}"
