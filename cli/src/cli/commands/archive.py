"""`daggers archive`: tables in cold storage, and what they have."""

from datetime import UTC, datetime
from typing import Annotated

import typer
from daggers.v1 import gateway_pb2, spec_pb2

from cli.framework.arguments import Name
from cli.framework.gateway import Gateway
from cli.framework.group import group
from cli.framework.session import Session, command
from cli.output.json_views import archives as views
from cli.output.json_views.answers import to_json
from cli.output.vitals import ago, size
from daggerclient.times import iso
from daggerspec.sinks import display_names

app = group()
Sink = Annotated[
    str, typer.Option("--sink", metavar="NAME", help="Sink of kind parquet to read; default: the first.")
]
HEAD = ("DAGGER", "SINK", "STREAMS", "PATH", "LAST COMMIT")


@command(app, "list", example="daggers archive list")
def list_(session: Session) -> None:
    """List the tables that daggers write to cold storage, with the streams they are made of. Read no file."""
    with session.connect() as gateway:
        listed = [
            (dagger, name, sink)
            for dagger in _daggers(gateway)
            for name, sink in zip(display_names(dagger.spec.sinks), dagger.spec.sinks, strict=True)
            if sink.HasField("parquet")
        ]
    now = datetime.now(UTC)
    session.out.show(
        [views.archive_document(dagger, name, sink) for dagger, name, sink in listed],
        lambda out: out.table(
            HEAD,
            [_row(dagger, name, sink, now) for dagger, name, sink in listed],
            empty="no dagger writes to cold storage: a sink of kind parquet does",
        ),
    )


@command(app, "describe", example="daggers archive describe completed_bookings")
def describe(session: Session, name: Name, sink: Sink = "") -> None:
    """Show how many files a table has, their size, and the hours they cover, read where they are."""
    with session.connect({"name": "NAME", "sink": "--sink"}) as gateway:
        request = gateway_pb2.DescribeArchiveRequest(name=name, sink=sink)
        archive = gateway.call(gateway.daggers.DescribeArchive, request)
    least = "at least " if archive.more else ""
    lines = [
        f"path         {archive.path}",
        f"size         {least}{size(archive.bytes)} in {archive.files} files",
        f"kept since   {iso(archive.first_hour) if archive.HasField('first_hour') else '-'}",
        f"until        {iso(archive.last_hour) if archive.HasField('last_hour') else '-'}",
        f"last write   {iso(archive.last_write) if archive.HasField('last_write') else '-'}",
    ]
    session.out.show(to_json(archive), lambda out: out.lines(lines))


def _daggers(gateway: Gateway) -> list[gateway_pb2.Dagger]:
    pages = gateway.pages(gateway.daggers.ListDaggers, gateway_pb2.ListDaggersRequest(page_size=1000))
    return [dagger for page in pages for dagger in page.daggers]


def _row(
    dagger: gateway_pb2.Dagger, name: str, sink: spec_pb2.Sink, now: datetime
) -> tuple[str, str, str, str, str]:
    committed = ago(dagger.vitals.last_commit, now) if dagger.vitals.HasField("last_commit") else "-"
    return dagger.name, name, views.streams(dagger), views.path(dagger, sink), committed
