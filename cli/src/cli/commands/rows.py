"""`daggers rows` and `daggers watch`: what a dagger writes."""

import json
import time
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from cli.arguments import Name
from cli.group import group
from cli.rows import Look, document, newest, remember, text, watched
from cli.session import Session, command
from daggerclient.times import iso
from daggerspec import sinks
from daggerspec.limits import WATCHED_ROWS
from daggerspec.row import Row

JSON_ROWS, TEXT_ROWS = 1000, 30
app = group()


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


@command(app, "rows", example="daggers rows completed_bookings --limit 50")
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
        output = newest(gateway, name, limit or (JSON_ROWS if session.out.json else TEXT_ROWS), sink or "")
    cells = [(iso(row.time) if row.time else "", _pairs(row.tags), _pairs(row.fields)) for row in output]
    session.out.show(
        [document(row) for row in output],
        lambda _: session.out.table(("WINDOW TIMESTAMP", "TAGS", "FIELDS"), cells, empty="no rows yet"),
    )


@command(app, "watch", example="daggers watch completed_bookings")
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
        if session.out.terminal and not session.out.json:
            from cli.live import show_live  # what draws takes long to load

            show_live(session, gateway, name, looks)
            return
        session.out.stream(unseen(looks), _row_line, document)


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


def _said(session: Session, name: str, looks: Iterator[Look]) -> Iterator[Look]:
    """The looks, with a word on stderr where rows begin to be left out, and at the end of all."""
    truncated = False
    for look in looks:
        if look.truncated and not truncated:
            session.out.note(f"only the newest {WATCHED_ROWS:,} rows of a look are shown")
        truncated = look.truncated
        yield look
    session.out.note(f"{name} was deleted")


def _row_line(row: Row) -> str:
    cells = (iso(row.time) if row.time else "", _pairs(row.tags), _pairs(row.fields))
    return "  ".join(filter(None, cells))


def _pairs(values: Any) -> str:
    return " ".join(f"{key}={text(value)}" for key, value in values.items())
