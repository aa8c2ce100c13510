"""rows, watch, logs, events and `quarantine list`: what a dagger does."""

import json
import time
from collections.abc import Hashable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

import typer
from daggers.v1 import gateway_pb2
from rich.console import Console
from rich.live import Live

from cli import json_views
from cli.commands.daggers import Name
from cli.errors import RefusedError, UnreachableError
from cli.event_text import words
from cli.gateway import Gateway
from cli.output import print_line
from cli.resuming import by_sequence, resumed
from cli.rows import Look, document, newest, text, watched
from cli.session import Session, command
from cli.sparkline import Series, table
from daggerclient.times import iso
from daggerspec import sinks
from daggerspec.limits import WATCHED_ROWS
from daggerspec.row import Row

JSON_ROWS, TEXT_ROWS = 1000, 30
NO_TIME = datetime.min.replace(tzinfo=UTC)
LOG_S = 120.0
K = TypeVar("K", bound=Hashable)
quarantine = typer.Typer(help="Records that were set aside.")


def _kind(value: str | None) -> str | None:
    """A kind of sink. Raises: typer.BadParameter."""
    if value is not None and value not in sinks.names():
        raise typer.BadParameter(f"{value!r} is not one of {', '.join(sinks.names())}.")
    return value


Sink = Annotated[
    str | None,
    typer.Option(
        "--sink",
        metavar=f"[{'|'.join(sinks.names())}]",
        help="Which of its sinks to read.",
        callback=_kind,
    ),
]


def add(app: typer.Typer) -> None:
    """Register the commands."""
    command(app, "rows", example="daggers rows completed_bookings --limit 50")(rows)
    command(app, "watch", example="daggers watch completed_bookings")(watch)
    command(app, "logs", example="daggers logs completed_bookings --follow")(logs)
    command(app, "events", example="daggers events --since 120 --follow")(events)


def rows(
    session: Session,
    name: Name,
    limit: Annotated[
        int | None,
        typer.Option(min=1, max=1_000_000, help=f"At most this many; {TEXT_ROWS}, in JSON {JSON_ROWS}."),
    ] = None,
    sink: Sink = None,
) -> None:
    """The newest output rows, newest first, read from where the dagger writes them."""
    with session.connect() as gateway:
        found = newest(gateway, name, limit or (JSON_ROWS if session.out.json else TEXT_ROWS), sink or "")
    cells = [(iso(row.time) if row.time else "", _pairs(row.tags), _pairs(row.fields)) for row in found]
    session.out.show(
        [document(row) for row in found],
        lambda _: session.out.table(("WINDOW TIMESTAMP", "TAGS", "FIELDS"), cells, empty="no rows yet"),
    )


def watch(
    session: Session,
    name: Name,
    sink: Sink = None,
    seconds: Annotated[float | None, typer.Option("--for", min=0, help="End after so many seconds.")] = None,
) -> None:
    """Live rows, with a sparkline for each series. Ctrl-C ends it."""
    end = time.monotonic() + seconds if seconds is not None else None
    with session.connect() as gateway:
        looks = until(_said(session, name, watched(gateway, name, sink or "")), end)
        if session.out.console.is_terminal and not session.out.json:
            show_live(session, gateway, name, looks)
            return
        session.out.stream(unseen(looks), _row_line, document)


def logs(
    session: Session,
    name: Name,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as it is written.")] = False,
    lines: Annotated[int, typer.Option(min=0, help="At most so many of its last lines.")] = 200,
    traces: Annotated[bool, typer.Option("--traces", help="With the stack traces.")] = False,
) -> None:
    """What the dagger's newest driver printed."""
    request = gateway_pb2.ReadLogRequest(name=name, lines=lines, traces=traces)
    with session.connect() as gateway:
        if follow:
            session.out.stream(_followed(session, gateway, request), str, str)
            return
        last = list(gateway.stream(gateway.daggers.ReadLog, request, deadline_s=LOG_S))
    found = [line for step in last for line in step.lines]
    document = {"name": name, "log": last[0].path, "lines": found}
    session.out.show(document, lambda console: _print_lines(console, found))


def events(
    session: Session,
    name: Annotated[str, typer.Argument(help="Only events about this dagger.")] = "",
    since: Annotated[int, typer.Option(min=-1, help="Only events after this sequence.")] = -1,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as they come.")] = False,
) -> None:
    """The control topic: everything that was asked, and everything that happened, in order."""
    with session.connect() as gateway:
        session.out.stream(_events(gateway, name, since, follow), _event_line, json_views.event)


@command(quarantine, "list", example="daggers quarantine list completed_bookings")
def list_quarantined(
    session: Session,
    name: Name,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most this many.")] = 100,
) -> None:
    """The newest records that the dagger has set aside, newest first, with what could be read of them."""
    request = gateway_pb2.ListQuarantinedRequest(dagger=name, page_size=limit)
    with session.connect({"dagger": "NAME"}) as gateway:
        answer = gateway.call(gateway.quarantine.ListQuarantined, request)
    documents = [json_views.quarantined(record) for record in answer.records]
    cells = [
        (f"{r.topic}/{r.partition}@{r.offset}", r.reason, r.detail, r.decoded_prefix or "-")
        for r in answer.records
    ]
    session.out.show(
        documents,
        lambda _: session.out.table(
            ("RECORD", "REASON", "DETAIL", "DECODED PREFIX"), cells, empty="nothing was set aside"
        ),
    )


def until(looks: Iterator[Look], end: float | None) -> Iterator[Look]:
    """What is watched until `end`, if given; the first look in any case."""
    for look in looks:
        yield look
        if end is not None and time.monotonic() >= end:
            return


def unseen(looks: Iterator[Look]) -> Iterator[Row]:
    """Rows as they appear or change; what comes again in a later snapshot is left out."""
    seen: dict[str, Row] = {}
    for look in looks:
        for row in look.rows:
            whole = json.dumps(document(row) | {"key": row.key}, sort_keys=True)
            if not look.snapshot or whole not in seen:
                yield row
            remember(seen, whole, row)


def remember(seen: dict[K, Row], identity: K, row: Row) -> None:
    """Keep a row as the newest of a few."""
    seen.pop(identity, None)
    seen[identity] = row
    if len(seen) > WATCHED_ROWS:
        del seen[next(iter(seen))]


def show_live(session: Session, gateway: Gateway, name: str, looks: Iterator[Look]) -> None:
    """Show the rows of a watch on a terminal, with a sparkline for each series."""
    seen: dict[tuple[object, ...], Row] = {}
    phase = ""
    with Live(console=session.out.console, screen=False, auto_refresh=False) as live:
        for look in looks:
            for row in look.rows:
                remember(seen, row.identity, row)
            newest_first = sorted(seen.values(), key=lambda row: row.time or NO_TIME, reverse=True)
            series = Series.collect(newest_first)
            with suppress(UnreachableError, RefusedError):  # the looks end by themselves
                phase = gateway_pb2.Phase.Name(gateway.get(name).phase)
            live.update(table(f"{name}  {phase}", series, session.out.console.height - 6), refresh=True)


def _said(session: Session, name: str, looks: Iterator[Look]) -> Iterator[Look]:
    """The looks, with a word on stderr where rows begin to be left out, and at the end of all."""
    truncated = False
    for look in looks:
        if look.truncated and not truncated:
            session.out.note(f"only the newest {WATCHED_ROWS:,} rows of a look are shown")
        truncated = look.truncated
        yield look
    session.out.note(f"{name} was deleted")


def _followed(session: Session, gateway: Gateway, request: gateway_pb2.ReadLogRequest) -> Iterator[str]:
    """The lines of a log as they are written; one that breaks is taken up where it was.

    Where the next driver's begin, and that the dagger is deleted, stands on stderr.
    """

    def steps(position: str | None) -> Iterator[gateway_pb2.ReadLogResponse]:
        request.follow, request.position = True, position or ""
        return gateway.stream(gateway.daggers.ReadLog, request, deadline_s=None)

    path = ""
    for step in resumed(steps, None, lambda step: step.position):
        if step.gap:
            session.out.note("some lines are missing here: the driver's log was moved away")
        if path and step.path not in ("", path):
            session.out.note(f"the next driver writes to {step.path} on {step.host}")
        path = step.path or path
        yield from step.lines
    session.out.note(f"{request.name} was deleted")


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


def _row_line(row: Row) -> str:
    cells = (iso(row.time) if row.time else "", _pairs(row.tags), _pairs(row.fields))
    return "  ".join(filter(None, cells))


def _print_lines(console: Console, lines: list[str]) -> None:
    for line in lines:
        print_line(console, line)


def _pairs(values: Any) -> str:
    return " ".join(f"{key}={text(value)}" for key, value in values.items())
