"""`daggers preview`: a query on real data, before anything is created."""

import sys
from collections.abc import Iterator, Sequence
from typing import Annotated

import typer
from daggers.v1 import gateway_pb2, spec_pb2

from cli.commands.preview_range import PREVIEW_S, From, Last, LastRecords, To, build_range
from cli.errors import MisusedError, RefusedError
from cli.files.dagger_file import one_dagger, with_place
from cli.framework.arguments import File, FileFlag, one_file
from cli.framework.gateway import Gateway
from cli.framework.group import group
from cli.framework.session import Session, command
from cli.output import preview_text
from daggerclient.daggerfile.parse import DaggerFile
from daggerspec.limits import PREVIEW_ROWS

TABLE = "data_stream"
ROWS = 30
OWN_TEAM = "preview"
"""Team of callers without one, who may preview in any."""
app = group()


@command(app, "preview", example="daggers preview completed_bookings.yaml --last 15m")
def preview(
    session: Session,
    file: File = None,
    flag: FileFlag = None,
    *,
    sql: Annotated[
        str,
        typer.Option("--sql", metavar="QUERY", help="Query, in place of a file; - reads standard input."),
    ] = "",
    stream: Annotated[
        list[str] | None,
        typer.Option(
            "--stream",
            metavar="[TABLE=]NAME",
            help=f"Stream that the query of --sql reads, as table {TABLE} by default; may be repeated.",
        ),
    ] = None,
    team: Annotated[str, typer.Option("--team", help="Team to preview the query of --sql for.")] = "",
    last: Last = "",
    last_records: LastRecords = None,
    begin: From = "",
    end: To = "",
    live: Annotated[
        str, typer.Option("--live", metavar="SPAN", help="Read records as they come, for up to 60s.")
    ] = "",
    limit: Annotated[
        int | None,
        typer.Option(
            min=1, max=PREVIEW_ROWS, help=f"At most this many rows; {ROWS}, in JSON {PREVIEW_ROWS}."
        ),
    ] = None,
    chart: Annotated[
        bool, typer.Option("--chart", help="Draw a chart of each series in place of a table.")
    ] = False,
) -> None:
    """Read the newest records by Kafka's time: enough for two windows, unless an option says otherwise.

    Windows that these do not fill are marked partial. Ctrl-C ends it. -o json gives one JSON document a line.
    """
    if sql and (file or flag):
        raise MisusedError("FILE and --sql: name one of them")
    if not sql and (stream or team):
        raise MisusedError("--stream and --team are for --sql: a file says them itself")
    range_ = build_range(last, last_records, begin, end, live)
    most = limit or (PREVIEW_ROWS if session.out.json or chart else ROWS)
    with session.connect({"name": "NAME", "spec.team": "--team"} if sql else {}) as gateway:
        if sql:
            one, path = _of_query(gateway, sql, stream or (), team)
        else:
            place = one_file(file, flag)
            one, path = one_dagger(session, place, "previewed"), str(place)
        request = gateway_pb2.PreviewDaggerRequest(name=one.name, spec=one.spec, max_rows=most)
        del request.spec.alerts[:]  # `daggers alerts test` judges them
        if range_ is not None:
            request.range.CopyFrom(range_)
        steps = gateway.stream(gateway.daggers.PreviewDagger, request, deadline_s=PREVIEW_S)
        try:
            _show(session, steps, chart=chart)
        except RefusedError as refusal:
            if refusal.findings and path:
                raise with_place(refusal, one, path) from refusal
            raise


def _show(session: Session, steps: Iterator[gateway_pb2.PreviewDaggerResponse], *, chart: bool) -> None:
    if session.out.json:
        for document in preview_text.documents(steps):
            session.out.document(document)
        return
    text = preview_text.follow(session.out, steps)
    for warning in text.warnings:
        session.out.note(f"warning: {warning}")
    if chart:
        from cli.output.sparkline import Series, table  # what draws takes long to load

        series = Series.collect(text.newest())
        session.out.drawing(table("preview", series, len(series)))
    else:
        session.out.table(text.head(), text.cells(), empty="no rows")
    for line in text.summary():
        session.out.note(line)


def _of_query(gateway: Gateway, sql: str, streams: Sequence[str], team: str) -> tuple[DaggerFile, str]:
    """Build the dagger of a query, which has no file. Raises: CliError."""
    text = sys.stdin.read() if sql == "-" else sql
    return DaggerFile("", _spec(gateway, text, streams, team)), ""


def _spec(gateway: Gateway, sql: str, streams: Sequence[str], team: str) -> spec_pb2.DaggerSpec:
    """Build the specification of a query. Raises: CliError."""
    if not streams:
        raise MisusedError("--stream is missing: it says what the query reads")
    spec = spec_pb2.DaggerSpec(sql=sql, team=team or _own_team(gateway))
    for stream in streams:
        table, _, name = stream.rpartition("=")
        answer = gateway.call(gateway.catalog.GetStream, gateway_pb2.GetStreamRequest(name=name))
        spec.streams.add(table=table or TABLE, stream=name)
        spec.cluster = spec.cluster or answer.stream.cluster
    return spec


def _own_team(gateway: Gateway) -> str:
    """Return the first team that the caller has a role in."""
    answer = gateway.call(gateway.access.WhoAmI, gateway_pb2.WhoAmIRequest())
    return next((role.team for role in answer.roles if role.team), OWN_TEAM)
