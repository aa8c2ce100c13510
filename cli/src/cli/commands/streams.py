"""`daggers stream`: topics that carry one message."""

from typing import Annotated

import typer
from daggers.v1 import gateway_pb2, spec_pb2

from cli.deleting import Yes, delete
from cli.entries import Entries
from cli.group import group
from cli.json_views.streams import description as description_view
from cli.json_views.streams import stream as stream_view
from cli.output import Printer
from cli.session import Session, command

streams = group("Topics that carry one message.")


def _row(stream: spec_pb2.Stream) -> tuple[str, ...]:
    return stream.name, stream.cluster, " ".join(stream.topics), stream.message, stream.time_field


COLUMNS = ("NAME", "CLUSTER", "TOPICS", "MESSAGE", "TIME FIELD")
STREAMS = Entries(stream_view, COLUMNS, _row, "no streams yet")


@command(
    streams,
    "register",
    example="daggers stream register bookings --cluster local --topic booking-log "
    "--message examples.v1.Booking --time-field event_timestamp",
)
def register_stream(
    session: Session,
    name: Annotated[str, typer.Argument(help="Name of the stream.")],
    cluster: Annotated[str, typer.Option(help="Cluster whose Kafka holds the topics.")],
    topic: Annotated[list[str], typer.Option(help="Topic; may be repeated.")],
    message: Annotated[str, typer.Option(help="Fully-qualified name of the message in the records.")],
    time_field: Annotated[str, typer.Option(help="Path of the Timestamp field that is the event time.")],
) -> None:
    """Register a stream, or replace it."""
    asked = spec_pb2.Stream(name=name, cluster=cluster, topics=topic, message=message, time_field=time_field)
    with session.connect(_stream_flags(asked)) as gateway:
        answer = gateway.call(gateway.catalog.RegisterStream, gateway_pb2.RegisterStreamRequest(stream=asked))
    outdated = list(answer.outdated_daggers)
    document = STREAMS.document(answer.stream, answer) | {"outdated_daggers": outdated}
    said = f"stream {name} is registered (version {answer.version})"
    if outdated:
        restarts = ", ".join(f"`daggers restart {dagger}`" for dagger in outdated)
        said += f"\nrunning daggers read it as it was until their next start: {restarts}"
    session.out.done(document, said)


@command(streams, "list", example="daggers stream list --message examples.v1.Booking")
def list_streams(
    session: Session,
    message: Annotated[str, typer.Option(help="Only streams that carry this message.")] = "",
) -> None:
    """Registered streams: pick a message, get its topics."""
    with session.connect() as gateway:
        registered = gateway.streams(message)
    STREAMS.show_all(session.out, registered)


@command(streams, "get", example="daggers stream get bookings")
def get_stream(
    session: Session, name: Annotated[str, typer.Argument(help="Name of a registered stream.")]
) -> None:
    """One stream, and its version."""
    with session.connect() as gateway:
        answer = gateway.call(gateway.catalog.GetStream, gateway_pb2.GetStreamRequest(name=name))
    STREAMS.show(session.out, answer.stream, answer)


@command(streams, "delete", example="daggers stream delete bookings --yes")
def delete_stream(
    session: Session,
    name: Annotated[str, typer.Argument(help="Name of a registered stream.")],
    yes: Yes = False,
) -> None:
    """Delete a stream. Refused while a dagger reads it. Asks first on a terminal."""
    request = gateway_pb2.DeleteStreamRequest(name=name)
    delete(session, "DeleteStream", request, what="stream", name=name, yes=yes)


@command(streams, "describe", example="daggers stream describe bookings")
def describe_stream(
    session: Session, name: Annotated[str, typer.Argument(help="Name of a registered stream.")]
) -> None:
    """What a query can read of a stream: its columns and the fields in them, with types and examples."""
    with session.connect() as gateway:
        request = gateway_pb2.DescribeStreamRequest(name=name)
        answer = gateway.call(gateway.catalog.DescribeStream, request)
    session.out.show(description_view(answer), lambda out: _describe(out, answer))


def _describe(out: Printer, answer: gateway_pb2.DescribeStreamResponse) -> None:
    stream = answer.stream
    out.line(f"{stream.name}: {stream.message} in {' '.join(stream.topics)} of {stream.cluster}")
    out.line(f"event time: {stream.time_field}, the column rowtime")
    rows = [
        (each.path, each.type, each.protobuf_type, each.example, _values(each)) for each in answer.columns
    ]
    out.table(("COLUMN", "TYPE", "PROTOBUF", "EXAMPLE", "VALUES"), rows, empty="no columns")
    if answer.truncated:
        out.note("there are more fields, deeper in these")


def _values(column: gateway_pb2.StreamColumn) -> str:
    return " ".join(f"{value.name}={value.number}" for value in column.enum_values)


def _stream_flags(stream: spec_pb2.Stream) -> dict[str, str]:
    """The flag that fills each field of the request."""
    return {
        "stream.name": "NAME",
        "stream.cluster": "--cluster",
        "stream.topics": "--topic",
        **{f"stream.topics[{n}]": f"--topic {topic}" for n, topic in enumerate(stream.topics)},
        "stream.message": "--message",
        "stream.time_field": "--time-field",
    }
