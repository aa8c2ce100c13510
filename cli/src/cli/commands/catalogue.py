"""`daggers cluster`, `daggers schema` and `daggers stream`: what daggers are made of."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from daggers.v1 import gateway_pb2, spec_pb2

from cli import shapes
from cli.errors import MisusedError
from cli.schema import load
from cli.session import Session, command

clusters = typer.Typer(help="Places where daggers run and streams live.")
schemas = typer.Typer(help="The Protobuf messages that streams carry.")
streams = typer.Typer(help="Topics that carry one message.")


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
    spark_master: Annotated[str, typer.Option(help="local[n] or spark://host:port.")] = "",
    influx_url: Annotated[str, typer.Option(help="Default InfluxDB of its daggers.")] = "",
    influx_org: Annotated[str, typer.Option(help='Organisation; "-" for InfluxDB 1.8.')] = "",
    influx_bucket: Annotated[str, typer.Option(help="Bucket; database/policy for InfluxDB 1.8.")] = "",
    influx_token_env: Annotated[str, typer.Option(help="Variable of the runtime that holds the token.")] = "",
    influx_token_file: Annotated[str, typer.Option(help="File of the runtime that holds the token.")] = "",
) -> None:
    """Register a cluster, or replace it. Credentials only by reference: they are read by the driver."""
    if influx_token_env and influx_token_file:
        raise MisusedError("give either --influx-token-env or --influx-token-file, not both")
    token = None
    if influx_token_env or influx_token_file:
        kind = "env" if influx_token_env else "file"
        token = _secret(f"--influx-token-{kind}", kind, influx_token_env or influx_token_file)
    cluster = spec_pb2.Cluster(
        name=name,
        kafka=spec_pb2.KafkaAddress(
            bootstrap_servers=kafka,
            properties=dict(_pair(text, "--kafka-property") for text in kafka_property or ()),
        ),
        spark_master=spark_master,
    )
    if influx_url or influx_org or influx_bucket or token:
        cluster.influx.CopyFrom(
            spec_pb2.InfluxAddress(url=influx_url, org=influx_org, bucket=influx_bucket, token=token)
        )
    for text in kafka_secret or ():
        prop, place = _pair(text, "--kafka-secret")
        kind, _, where = place.partition(":")
        cluster.kafka.secret_properties[prop].CopyFrom(_secret(f"--kafka-secret {prop}", kind, where))
    with session.connect() as gateway:
        answer = gateway.register_cluster(cluster)
    document = shapes.cluster(answer.cluster) | {"version": answer.version, "sequence": answer.sequence}
    session.out.done(document, f"cluster {name} is registered (version {answer.version})")


@command(clusters, "list", example="daggers cluster list")
def list_clusters(session: Session) -> None:
    """Every registered cluster."""
    with session.connect() as gateway:
        found = gateway.clusters()
    rows = [(c.name, c.kafka.bootstrap_servers, c.spark_master, c.influx.url) for c in found]
    session.out.show(
        [shapes.cluster(cluster) for cluster in found],
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
    schema = load(files, include or ())
    with session.connect() as gateway:
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
        answer = gateway.call(gateway.catalog.ListSchemas, gateway_pb2.ListSchemasRequest())
    messages = list(answer.messages)
    session.out.show(
        messages, lambda _: session.out.table(("MESSAGE",), [[m] for m in messages], empty="no schemas yet")
    )


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
    with session.connect() as gateway:
        answer = gateway.call(gateway.catalog.RegisterStream, gateway_pb2.RegisterStreamRequest(stream=asked))
    document = shapes.stream(answer.stream) | {"version": answer.version, "sequence": answer.sequence}
    session.out.done(document, f"stream {name} is registered (version {answer.version})")


@command(streams, "list", example="daggers stream list --message examples.v1.Booking")
def list_streams(
    session: Session,
    message: Annotated[str, typer.Option(help="Only streams that carry this message.")] = "",
) -> None:
    """Registered streams: pick a message, get its topics."""
    with session.connect() as gateway:
        found = gateway.streams(message)
    session.out.show(
        [shapes.stream(stream) for stream in found],
        lambda _: session.out.table(
            ("NAME", "CLUSTER", "TOPICS", "MESSAGE", "TIME FIELD"),
            _stream_rows(found),
            empty="no streams yet",
        ),
    )


def _stream_rows(found: Sequence[spec_pb2.Stream]) -> list[tuple[str, ...]]:
    return [(s.name, s.cluster, " ".join(s.topics), s.message, s.time_field) for s in found]


def _pair(text: str, flag: str) -> tuple[str, str]:
    name, found, value = text.partition("=")
    if not (name and found):
        raise MisusedError(f"{flag} {name}: it must be NAME=VALUE")
    return name, value


def _secret(flag: str, kind: str, where: str) -> spec_pb2.SecretRef:
    if kind not in ("env", "file") or not where:
        # what was given may be the secret itself: do not repeat it
        raise MisusedError(
            f"{flag}: a secret is given by reference, env:VARIABLE or file:PATH", reason="USAGE"
        )
    return spec_pb2.SecretRef(**{kind: where})
