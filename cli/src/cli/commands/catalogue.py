"""`daggers cluster`, `daggers schema` and `daggers stream`: what daggers are made of."""

from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from daggers.v1 import gateway_pb2, spec_pb2

from cli.group import group
from cli.json_views.clusters import cluster as cluster_view
from cli.json_views.streams import description as description_view
from cli.json_views.streams import stream as stream_view
from cli.output import Printer
from cli.session import Session, command
from cli.usage_errors import UsageErrors

clusters = group("Places where daggers run and streams live.")
schemas = group("The Protobuf messages that streams carry.")
streams = group("Topics that carry one message.")


@command(
    clusters,
    "register",
    example="daggers cluster register prod --kafka k1:9092 --spark-master spark://s:7077 --influx-url http://i:8086",
)
def register_cluster(
    session: Session,
    name: Annotated[str, typer.Argument(help="Name of the cluster.")],
    kafka: Annotated[str, typer.Option(help="Kafka bootstrap servers, host:port,host:port.")] = "",
    kafka_property: Annotated[
        list[str] | None, typer.Option(help="Further client property, NAME=VALUE; may be repeated.")
    ] = None,
    kafka_secret: Annotated[
        list[str] | None,
        typer.Option(help="Secret client property, NAME=env:VARIABLE or NAME=file:PATH; may be repeated."),
    ] = None,
    spark_master: Annotated[
        str, typer.Option(help="local[n], spark://host:port, yarn or k8s://https://host:port.")
    ] = "",
    influx_url: Annotated[str, typer.Option(help="Default InfluxDB of its daggers.")] = "",
    influx_org: Annotated[str, typer.Option(help='Organisation; "-" for InfluxDB 1.8.')] = "",
    influx_bucket: Annotated[str, typer.Option(help="Bucket; database/policy for InfluxDB 1.8.")] = "",
    influx_token_env: Annotated[str, typer.Option(help="Variable of the runtime that holds the token.")] = "",
    influx_token_file: Annotated[str, typer.Option(help="File of the runtime that holds the token.")] = "",
) -> None:
    """Register a cluster, or replace it. Credentials only by reference: they are read by the driver."""
    errors = UsageErrors()
    cluster = spec_pb2.Cluster(name=name, spark_master=spark_master)
    if kafka:
        cluster.kafka.bootstrap_servers = kafka
    for text in kafka_property or ():
        if pair := errors.pair("--kafka-property", text):
            cluster.kafka.properties[pair[0]] = pair[1]
    for text in kafka_secret or ():
        pair = errors.pair("--kafka-secret", text)
        if pair and (reference := errors.reference(f"--kafka-secret {pair[0]}", pair[1])):
            cluster.kafka.secret_properties[pair[0]].CopyFrom(reference)
    for part, given in (("url", influx_url), ("org", influx_org), ("bucket", influx_bucket)):
        if given:
            setattr(cluster.influx, part, given)
    if influx_token_env and influx_token_file:
        errors.add("--influx-token-env", "give either this or --influx-token-file, not both")
    if influx_token_env:
        cluster.influx.token.env = influx_token_env
    elif influx_token_file:
        cluster.influx.token.file = influx_token_file

    def register(*, validate_only: bool = False) -> gateway_pb2.RegisterClusterResponse:
        with session.connect(_cluster_flags(cluster)) as gateway:
            return gateway.register_cluster(cluster, validate_only=validate_only)

    errors.refuse(lambda: register(validate_only=True))
    answer = register()
    document = cluster_view(answer.cluster) | {"version": answer.version, "sequence": answer.sequence}
    session.out.done(document, f"cluster {name} is registered (version {answer.version})")


@command(clusters, "list", example="daggers cluster list")
def list_clusters(session: Session) -> None:
    """Every registered cluster."""
    with session.connect() as gateway:
        registered = gateway.clusters()
    rows = [(c.name, c.kafka.bootstrap_servers, c.spark_master, c.influx.url) for c in registered]
    session.out.show(
        [cluster_view(cluster) for cluster in registered],
        lambda _: session.out.table(("NAME", "KAFKA", "SPARK", "INFLUX"), rows, empty="no clusters yet"),
    )


@command(schemas, "register", example="daggers schema register examples/schemas/booking.proto -I protos")
def register_schema(
    session: Session,
    files: Annotated[list[Path], typer.Argument(help=".proto files, or descriptor sets.", metavar="FILE...")],
    include: Annotated[
        list[Path] | None,
        typer.Option("-I", "--include", help="Folder to look for imports in; may be repeated."),
    ] = None,
) -> None:
    """Register the messages of Protobuf files. Imports are found beside each file, in -I, and built in."""
    from cli.schema import load  # brings protoc along

    schema = load(files, include or ())
    with session.connect({"schema.files": " ".join(map(str, files))}) as gateway:
        answer = gateway.call(
            gateway.catalog.RegisterSchema, gateway_pb2.RegisterSchemaRequest(schema=schema)
        )
    messages = list(answer.messages)
    session.out.done(
        {"messages": messages, "sequence": answer.sequence}, f"registered: {', '.join(messages)}"
    )


@command(schemas, "list", example="daggers schema list")
def list_schemas(session: Session) -> None:
    """The names of every registered message."""
    with session.connect() as gateway:
        messages = list(gateway.messages())
    session.out.show(
        messages, lambda _: session.out.table(("MESSAGE",), [[m] for m in messages], empty="no schemas yet")
    )


@command(schemas, "show", example="daggers schema show examples.v1.Booking")
def show_schema(
    session: Session,
    message: Annotated[str, typer.Argument(help="Fully-qualified name of a registered message.")],
) -> None:
    """A registered message and all it refers to, as .proto text; with -o json also its descriptors."""
    with session.connect() as gateway:
        answer = gateway.call(gateway.catalog.GetSchema, gateway_pb2.GetSchemaRequest(message=message))
    document = {
        "message": message,
        "text": answer.text,
        "descriptor_set": b64encode(answer.schema.files.SerializeToString()).decode(),
        "sequence": answer.sequence,
    }
    session.out.show(document, lambda out: out.lines(answer.text.splitlines()))


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
    document = stream_view(answer.stream) | {
        "version": answer.version,
        "sequence": answer.sequence,
        "outdated_daggers": outdated,
    }
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
    session.out.show(
        [stream_view(stream) for stream in registered],
        lambda _: session.out.table(
            ("NAME", "CLUSTER", "TOPICS", "MESSAGE", "TIME FIELD"),
            _stream_rows(registered),
            empty="no streams yet",
        ),
    )


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


def _stream_rows(registered: Sequence[spec_pb2.Stream]) -> list[tuple[str, ...]]:
    return [(s.name, s.cluster, " ".join(s.topics), s.message, s.time_field) for s in registered]


def _cluster_flags(cluster: spec_pb2.Cluster) -> dict[str, str]:
    """The flag that fills each field of the request."""
    kafka, base = cluster.kafka, "cluster.kafka"
    return {
        "cluster": "--kafka, --spark-master, --influx-url",
        "cluster.name": "NAME",
        "cluster.kafka": "--kafka",
        **{f'{base}.properties["{name}"]': f"--kafka-property {name}" for name in kafka.properties},
        **{
            f'{base}.secret_properties["{name}"]': f"--kafka-secret {name}"
            for name in kafka.secret_properties
        },
        "cluster.spark_master": "--spark-master",
        "cluster.influx.url": "--influx-url",
        "cluster.influx.org": "--influx-org",
        "cluster.influx.bucket": "--influx-bucket",
        "cluster.influx.token.env": "--influx-token-env",
        "cluster.influx.token.file": "--influx-token-file",
    }


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
