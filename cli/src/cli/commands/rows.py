"""`daggers rows` and `daggers watch`: what a dagger writes."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from daggers.v1 import gateway_pb2

from cli.framework.arguments import Name
from cli.framework.group import group
from cli.framework.instants import instant
from cli.framework.row_reads import Look, condition, order, read, remember, watch_rows
from cli.framework.session import Session, command
from cli.output.row_text import document, text
from cli.output.visible import printable
from daggerclient.times import iso
from daggerspec import sinks
from daggerspec.exactjson import dumps
from daggerspec.limits import WATCHED_ROWS
from daggerspec.row import Row

JSON_ROWS, TEXT_ROWS = 1000, 30
FLAGS = {"name": "NAME", "since": "--since", "where": "--where", "order_by": "--sort"}
app = group()


Sink = Annotated[
    str | None,
    typer.Option(
        "--sink",
        metavar=f"[NAME|{'|'.join(sinks.names())}]",
        help="Sink to read, by its name or its kind.",
    ),
]


@command(
    app, "rows", example="daggers rows completed_bookings --since 1h --where tag_city=12 --sort num:desc"
)
def rows(
    session: Session,
    name: Name,
    limit: Annotated[
        int | None,
        typer.Option(min=1, max=1_000_000, help=f"At most this many; {TEXT_ROWS}, in JSON {JSON_ROWS}."),
    ] = None,
    sink: Sink = None,
    since: Annotated[
        str,
        typer.Option(
            metavar="WHEN",
            help="Only rows of the last 10m, 2h, 1d, or since 2026-01-31T12:00Z: of kafka by when"
            " they were written, else by their own time.",
        ),
    ] = "",
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD=VALUE",
            help="Only rows whose column has this value; also !=, <, <=, >, >=. May be repeated: all"
            " must hold.",
        ),
    ] = None,
    sort: Annotated[
        str,
        typer.Option(
            metavar="FIELD[:desc]", help="Sort by this column, descending with :desc; default: newest first."
        ),
    ] = "",
) -> None:
    """Order rows as their sink does: influx by their time, kafka and log by when they were last written."""
    request = gateway_pb2.ReadRowsRequest(
        name=name,
        sink=sink or "",
        limit=limit or (JSON_ROWS if session.out.json else TEXT_ROWS),
        where=map(condition, where or ()),
        order_by=order(sort),
    )
    if since:
        request.since.FromDatetime(instant("--since", since, datetime.now(UTC)))
    with session.connect(FLAGS) as gateway:
        output = read(gateway, request)
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
    seconds: Annotated[
        float | None, typer.Option("--for", min=0, help="Stop after this many seconds.")
    ] = None,
) -> None:
    """Run until Ctrl-C."""
    end = time.monotonic() + seconds if seconds is not None else None
    with session.connect() as gateway:
        looks = until(_with_notes(session, name, watch_rows(gateway, name, sink or "")), end)
        if session.out.terminal and not session.out.json:
            from cli.commands.rows_live import show_live  # what draws takes long to load

            show_live(session, gateway, name, looks)
            return
        session.out.stream(unseen(looks), _row_line, document)


def until(looks: Iterator[Look], end: float | None) -> Iterator[Look]:
    """Yield reads until `end`, if given; the first one in any case."""
    for look in looks:
        yield look
        if end is not None and time.monotonic() >= end:
            return


def unseen(looks: Iterator[Look]) -> Iterator[Row]:
    """Yield rows as they appear or change; rows that repeat in a later snapshot are left out."""
    seen: dict[str, Row] = {}
    for look in looks:
        for row in look.rows:
            fields = dict(sorted(row.fields.items()))
            whole = dumps(document(row) | {"fields": fields, "key": row.key})
            if not look.snapshot or whole not in seen:
                yield row
            remember(seen, whole, row)


def _with_notes(session: Session, name: str, looks: Iterator[Look]) -> Iterator[Look]:
    """Yield the reads, and note on stderr where rows begin to be left out, and the end."""
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
    return " ".join(f"{key}={printable(text(value))}" for key, value in values.items())
