"""`daggers stream`: register, describe and sample streams, the topics of one message."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from daggers.v1 import gateway_pb2, spec_pb2

from cli.commands import stream_offers
from cli.framework.deletion import DryRun, Yes, delete
from cli.framework.group import group
from cli.framework.session import Session, command
from cli.output import stream_text
from cli.output.entries import Entries
from cli.output.error_text import UNCHECKED
from cli.output.json_views.answers import to_json
from cli.output.json_views.findings import finding as finding_view
from cli.output.visible import printable
from cli.output.vitals import ago
from daggerclient.times import duration
from daggerspec.limits import MAX_SAMPLED_RECORDS, SAMPLED_RECORDS
from daggerspec.nearest import hint

streams = group()
SAMPLE_S = 60.0


def _row(stream: spec_pb2.Stream) -> tuple[str, ...]:
    return stream.name, stream.cluster, " ".join(stream.topics), stream.message, stream.time_field


COLUMNS = ("NAME", "CLUSTER", "TOPICS", "MESSAGE", "TIME FIELD")
STREAMS = Entries(COLUMNS, _row, "no streams yet")


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
    time_field: Annotated[str, typer.Option(help="Path of the Timestamp field with the event time.")],
    sensitive: Annotated[
        list[str] | None,
        typer.Option(
            help="Path of a sensitive field, for those with a grant (`daggers grant sensitive`); may"
            " be repeated."
        ),
    ] = None,
) -> None:
    """Register a stream, or replace it. Topics that do not exist, or carry other messages, are warned of."""
    requested = spec_pb2.Stream(
        name=name,
        cluster=cluster,
        topics=topic,
        message=message,
        time_field=time_field,
        sensitive=sensitive or (),
    )
    with session.connect(_stream_flags(requested)) as gateway:
        answer = gateway.call(
            gateway.catalog.RegisterStream, gateway_pb2.RegisterStreamRequest(stream=requested)
        )
    outdated = list(answer.outdated_daggers)
    document = STREAMS.document(answer.stream, answer) | {
        "outdated_daggers": outdated,
        "findings": [finding_view(finding) for finding in answer.findings],
        "topics_unchecked": answer.topics_unchecked or None,
    }
    for finding in answer.findings:
        session.out.warn(finding.message)
    if answer.topics_unchecked:
        session.out.note(UNCHECKED.format(answer.topics_unchecked))
    sentence = f"stream {name} is registered (version {answer.version})"
    if outdated:
        restarts = ", ".join(f"`daggers restart {dagger}`" for dagger in outdated)
        sentence += f"\nrunning daggers read it as it was until their next start: {restarts}"
    session.out.print_result(document, sentence)


@command(streams, "offer", example="daggers stream offer bookings_by_city --dry-run")
def offer_stream(
    session: Session,
    dagger: Annotated[str, typer.Argument(help="Name of the dagger that writes to Kafka.")],
    sink: Annotated[str, typer.Option(help="Name of the Kafka sink, where it has several.")] = "",
    name: Annotated[str, typer.Option(help="Name of the stream; default: the dagger's.")] = "",
    file: Annotated[
        Path | None,
        typer.Option(
            "--file", "-f", help="Dagger file whose query is meant, before it is applied: for a new column."
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what is offered, and do nothing.")] = False,
) -> None:
    """Offer what a dagger writes to Kafka as a stream, which other daggers read.

    Register a message with a field for each column, and the stream. A sink that writes JSON gets another one
    beside it, to a topic of its own: no stream is of JSON. Do it again after the query has a new column; the
    message keeps the fields that it has.
    """
    flags = {"stream.name": "--name", "name": "DAGGER"}
    with session.connect(flags) as gateway:
        spec = stream_offers.read_spec(gateway, dagger, file)
        offer = stream_offers.find_offer(gateway, dagger, spec, sink)
        offer.stream.name = name or offer.stream.name
        if file is not None:
            offer.ClearField("further_sink")  # the file says its sinks, and is applied by itself
        steps = list(stream_offers.steps(dagger, offer))
        if not dry_run:
            answer = stream_offers.accept(session, gateway, dagger, spec, offer)
            for finding in answer.findings:
                session.out.warn(finding.message)
    lead = ["what is offered:"] if dry_run else []
    text = offer.text.splitlines() if dry_run else []
    session.out.print_result(
        stream_offers.document(offer, steps, dry_run=dry_run), "\n".join([*lead, *steps, *text])
    )


@command(streams, "list", example="daggers stream list --message examples.v1.Booking")
def list_streams(
    session: Session,
    message: Annotated[str, typer.Option(help="Only streams that carry this message.")] = "",
) -> None:
    """List registered streams, with their topics."""
    with session.connect() as gateway:
        registered = gateway.streams(message)
    STREAMS.show_all(session.out, registered)


@command(streams, "get", example="daggers stream get bookings")
def get_stream(
    session: Session, name: Annotated[str, typer.Argument(help="Name of a registered stream.")]
) -> None:
    """Show a stream and its version."""
    with session.connect() as gateway:
        answer = gateway.call(gateway.catalog.GetStream, gateway_pb2.GetStreamRequest(name=name))
    STREAMS.show(session.out, answer.stream, answer)


@command(streams, "delete", example="daggers stream delete bookings --yes")
def delete_stream(
    session: Session,
    name: Annotated[str, typer.Argument(help="Name of a registered stream.")],
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Delete a stream. Refused while a dagger reads it. Asks first on a terminal."""
    request = gateway_pb2.DeleteStreamRequest(name=name)
    delete(session, "DeleteStream", request, kind="stream", name=name, yes=yes, dry_run=dry_run)


@command(streams, "describe", example="daggers stream describe bookings --topics")
def describe_stream(
    session: Session,
    name: Annotated[str, typer.Argument(help="Name of a registered stream.")],
    topics: Annotated[
        bool,
        typer.Option(
            "--topics", help="Show partitions and records per second, too, read by a host of drivers."
        ),
    ] = False,
) -> None:
    """Show the columns of a stream and the fields in them, with types and examples.

    Print Protobuf types, numbers of values and whole comments with -o wide.
    """
    with session.connect() as gateway:
        request = gateway_pb2.DescribeStreamRequest(name=name, topics=topics)
        answer = gateway.call(gateway.catalog.DescribeStream, request)
    if answer.topics_unchecked:
        session.out.note(UNCHECKED.format(answer.topics_unchecked))
    session.out.show(to_json(answer), lambda out: stream_text.describe(out, answer))


@command(streams, "sample", example="daggers stream sample bookings --last-records 3")
def sample_stream(
    session: Session,
    name: Annotated[str, typer.Argument(help="Name of a registered stream.")],
    last_records: Annotated[
        int,
        typer.Option(
            "--last-records",
            "--last",
            min=1,
            max=MAX_SAMPLED_RECORDS,
            help="At most this many, over all its topics.",
        ),
    ] = SAMPLED_RECORDS,
) -> None:
    """Show the newest records of a stream, newest first, decoded as its message.

    Escape what is not printable. A host of drivers reads the records, with the secrets of the cluster: at
    most 8 MiB, for at most 15 seconds.
    """
    request = gateway_pb2.SampleStreamRequest(name=name, last_records=last_records)
    answer = gateway_pb2.SampleStreamResponse()
    with (
        session.connect({"name": "NAME", "last_records": "--last-records"}) as gateway,
        session.out.steps.step(f"reading {name}") as report,
    ):
        for step in gateway.stream(gateway.catalog.SampleStream, request, deadline_s=SAMPLE_S):
            answer.MergeFrom(step)
            report(f"{answer.partitions_read} of {answer.partitions} partitions")
    _warn(session, answer)
    if not session.out.json:
        session.out.note(stream_text.traffic(answer))
    now = datetime.now(UTC)
    session.out.show(
        {"stream": name} | to_json(answer),
        lambda out: out.table(
            ("RECORD", "WRITTEN", "KEY", "VALUE"), _record_rows(answer, now), empty="no records in its topics"
        ),
    )


@command(streams, "discover", example="daggers stream discover --cluster local")
def discover_topics(
    session: Session,
    cluster: Annotated[str, typer.Option(help="Name of a registered cluster.")],
    message: Annotated[
        str,
        typer.Option(help="Show how this message fits each topic; default: which registered messages do."),
    ] = "",
    topic: Annotated[list[str] | None, typer.Option(help="Only this topic; may be repeated.")] = None,
) -> None:
    """List the topics of a cluster's Kafka, and the registered messages that fit their records.

    Try the ten newest records of each topic. FIT is the part of their bytes that are fields of the message.
    """
    request = gateway_pb2.DiscoverTopicsRequest(cluster=cluster, message=message, topics=topic or ())
    answer = gateway_pb2.DiscoverTopicsResponse()
    with (
        session.connect({"cluster": "--cluster", "message": "--message", "topics": "--topic"}) as gateway,
        session.out.steps.step(f"looking into the topics of {cluster}") as report,
    ):
        for step in gateway.stream(gateway.catalog.DiscoverTopics, request, deadline_s=SAMPLE_S):
            answer.MergeFrom(step)
            report(f"{answer.topics_read} of {answer.topics_total} topics")
    answer.topics.sort(key=lambda topic: topic.topic)
    _warn(session, answer)
    sampled = [topic for topic in answer.topics if topic.sampled]
    if sampled and not any(topic.fits for topic in sampled):
        session.out.warn("no registered message fits: `daggers schema register FILE` registers yours")
    columns = ("TOPIC", "PARTITIONS", "OFFSETS", "PER SECOND", "RETENTION", "STREAMS", "MESSAGE", "FIT")
    session.out.show(
        to_json(answer), lambda out: out.table(columns, _topic_rows(answer), empty="no topics there")
    )


def _warn(
    session: Session, answer: gateway_pb2.SampleStreamResponse | gateway_pb2.DiscoverTopicsResponse
) -> None:
    """Warn of missing topics, and of results that were cut short."""
    for topic in answer.missing_topics:
        session.out.warn(f"there is no topic {topic.topic}{hint(topic.suggestion or None, '')}")
    if answer.cut:
        session.out.warn(answer.cut)


def _topic_rows(answer: gateway_pb2.DiscoverTopicsResponse) -> Iterator[tuple[str, ...]]:
    """Yield a row for each topic, and one more for each further message that fits it."""
    for topic in answer.topics:
        retention = duration(topic.retention) if topic.HasField("retention") else "-"
        rate = f"{topic.records_per_second:,.1f}"
        having = " ".join(topic.streams) or "-"
        about = (topic.topic, str(topic.partitions), f"{topic.offsets:,}", rate, retention, having)
        fits = [(one.message, _fit(one)) for one in topic.fits]
        first, *further = fits or [("-", "none fits" if topic.sampled else "no records")]
        yield *about, *first
        yield from ((*("",) * len(about), *one) for one in further)


def _fit(fits: gateway_pb2.MessageFit) -> str:
    return f"{fits.score:.0%}" + (f": {fits.problem}" if fits.problem else "")


def _record_rows(answer: gateway_pb2.SampleStreamResponse, now: datetime) -> Iterator[tuple[str, ...]]:
    for record in answer.records:
        yield (
            f"{record.topic}/{record.partition}@{record.offset}",
            ago(record.time, now) if record.HasField("time") else "-",
            printable(record.key.decode(errors="backslashreplace")) or "-",
            printable(record.json or f"({record.problem}; {record.size:,} bytes)"),
        )


def _stream_flags(stream: spec_pb2.Stream) -> dict[str, str]:
    """Map fields of the request to the flags that fill them."""
    return {
        "stream.name": "NAME",
        "stream.cluster": "--cluster",
        "stream.topics": "--topic",
        **{f"stream.topics[{n}]": f"--topic {topic}" for n, topic in enumerate(stream.topics)},
        "stream.message": "--message",
        "stream.time_field": "--time-field",
    }
