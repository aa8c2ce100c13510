"""`daggers cluster` and `daggers schema`: where daggers run, and what streams carry."""

from base64 import b64encode
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from daggers.v1 import gateway_pb2, spec_pb2

from cli.framework.deletion import DryRun, Yes, delete
from cli.framework.group import group
from cli.framework.session import Session, command
from cli.framework.usage_errors import UsageErrors
from cli.output.entries import Entries
from cli.output.json_views.answers import to_json
from cli.output.json_views.clusters import use_document
from daggerspec.executors import MAX_CORES

clusters = group()
schemas = group()


def _row(cluster: spec_pb2.Cluster) -> tuple[str, ...]:
    name = f"{cluster.name} (playground)" if cluster.playground else cluster.name
    return name, cluster.kafka.bootstrap_servers, cluster.spark_master, cluster.influx.url


CLUSTERS = Entries(("NAME", "KAFKA", "SPARK", "INFLUX"), _row, "no clusters yet")


@command(
    clusters,
    "register",
    example="daggers cluster register prod --kafka k1:9092 --spark-master spark://s:7077 --influx-url http://i:8086",
)
def register_cluster(
    session: Session,
    name: Annotated[str, typer.Argument(help="Name of the cluster.")],
    *,
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
    spark_web_url: Annotated[
        str, typer.Option(help="Pages of a standalone master; port 8080 of its host unless said.")
    ] = "",
    executors: Annotated[
        list[str] | None,
        typer.Option(
            help="What a dagger takes of the executors unless it says so: count=N, cores=N, memory=SIZE or"
            " cores_max=N; may be repeated."
        ),
    ] = None,
    executor_limit: Annotated[
        list[str] | None, typer.Option(help="The most that a dagger may take, in the same form.")
    ] = None,
    influx_url: Annotated[str, typer.Option(help="Default InfluxDB of its daggers.")] = "",
    influx_org: Annotated[str, typer.Option(help='Organisation; "-" for InfluxDB 1.8.')] = "",
    influx_bucket: Annotated[str, typer.Option(help="Bucket; database/policy for InfluxDB 1.8.")] = "",
    influx_token_env: Annotated[str, typer.Option(help="Variable of the runtime that holds the token.")] = "",
    influx_token_file: Annotated[str, typer.Option(help="File of the runtime that holds the token.")] = "",
    playground: Annotated[
        bool, typer.Option("--playground", help="Let viewers of a team run its daggers here, too.")
    ] = False,
) -> None:
    """Register a cluster, or replace it. Credentials are given by reference only: the driver reads them."""
    errors = UsageErrors()
    cluster = spec_pb2.Cluster(
        name=name, spark_master=spark_master, playground=playground, spark_web_url=spark_web_url
    )
    _set_executors(errors, "--executors", executors or (), cluster.executors)
    _set_executors(errors, "--executor-limit", executor_limit or (), cluster.executor_limits)
    if kafka:
        cluster.kafka.bootstrap_servers = kafka
    _set_kafka_properties(errors, kafka_property or (), kafka_secret or (), cluster.kafka)
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
    document = CLUSTERS.document(answer.cluster, answer)
    session.out.print_result(document, f"cluster {name} is registered (version {answer.version})")


@command(clusters, "list", example="daggers cluster list")
def list_clusters(session: Session) -> None:
    """List registered clusters, with their drivers and how many more there is room for.

    Clusters share the host of the scheduler, and its room; "-" where it sent no heartbeat lately.
    """
    with session.connect() as gateway:
        pages = list(gateway.pages(gateway.catalog.ListClusters, gateway_pb2.ListClustersRequest()))
    uses = {use.cluster: use for page in pages for use in page.uses}
    listed = [(cluster, uses.get(cluster.name)) for page in pages for cluster in page.clusters]
    session.out.show(
        [to_json(cluster) | use_document(use) for cluster, use in listed],
        lambda out: out.table(
            (*CLUSTERS.columns, "DRIVERS", "ROOM"),
            [(*CLUSTERS.row(cluster), *_use(use)) for cluster, use in listed],
            empty=CLUSTERS.empty,
        ),
    )


def _use(use: gateway_pb2.ClusterUse | None) -> tuple[str, str]:
    """Format the number of running drivers, and of those there is room for."""
    if use is None:
        return "-", "-"
    return str(use.drivers), str(use.room) if use.HasField("room") else "-"


@command(clusters, "get", example="daggers cluster get local")
def get_cluster(
    session: Session, name: Annotated[str, typer.Argument(help="Name of a registered cluster.")]
) -> None:
    """Show a cluster and its version."""
    with session.connect() as gateway:
        answer = gateway.call(gateway.catalog.GetCluster, gateway_pb2.GetClusterRequest(name=name))
    CLUSTERS.show(session.out, answer.cluster, answer)


@command(clusters, "delete", example="daggers cluster delete local --yes")
def delete_cluster(
    session: Session,
    name: Annotated[str, typer.Argument(help="Name of a registered cluster.")],
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Delete a cluster. Refused while a stream or a dagger names it. Asks first on a terminal."""
    request = gateway_pb2.DeleteClusterRequest(name=name)
    delete(session, "DeleteCluster", request, kind="cluster", name=name, yes=yes, dry_run=dry_run)


@command(schemas, "register", example="daggers schema register examples/schemas/booking.proto -I protos")
def register_schema(
    session: Session,
    files: Annotated[
        list[Path],
        typer.Argument(help=".proto files, folders or zips of them, or descriptor sets.", metavar="FILE..."),
    ],
    include: Annotated[
        list[Path] | None,
        typer.Option("-I", "--include", help="Folder to look for imports in; may be repeated."),
    ] = None,
) -> None:
    """Register the messages of Protobuf files. Imports are found beside each file, in -I, and built in.

    Whatever is wrong is named by file and line, all at once; nothing is registered then. At most 200 files of
    8 MiB together are compiled.

    `daggers stream describe` shows the comments of fields: those of .proto files, and of a descriptor set
    that protoc has made with --include_source_info.
    """
    from cli.files.proto_files import load

    schema = load(files, include or ())
    with session.connect({"schema.files": " ".join(map(str, files))}) as gateway:
        answer = gateway.call(
            gateway.catalog.RegisterSchema, gateway_pb2.RegisterSchemaRequest(schema=schema)
        )
    messages = list(answer.messages)
    session.out.print_result(
        {"messages": messages, "sequence": answer.sequence}, f"registered: {', '.join(messages)}"
    )


@command(schemas, "list", example="daggers schema list")
def list_schemas(session: Session) -> None:
    """List the names of registered messages."""
    with session.connect() as gateway:
        messages = list(gateway.messages())
    session.out.show(
        messages, lambda _: session.out.table(("MESSAGE",), [[m] for m in messages], empty="no schemas yet")
    )


@command(schemas, "get", example="daggers schema get examples.v1.Booking")
@command(schemas, "show", example="daggers schema show examples.v1.Booking")
def show_schema(
    session: Session,
    message: Annotated[str, typer.Argument(help="Fully-qualified name of a registered message.")],
) -> None:
    """Show a registered message and all it refers to, as .proto text; with -o json also its descriptors."""
    with session.connect() as gateway:
        answer = gateway.call(gateway.catalog.GetSchema, gateway_pb2.GetSchemaRequest(message=message))
    document = {
        "message": message,
        "text": answer.text,
        "descriptor_set": b64encode(answer.schema.files.SerializeToString()).decode(),
        "sequence": answer.sequence,
    }
    session.out.show(document, lambda out: out.lines(answer.text.splitlines()))


@command(schemas, "delete", example="daggers schema delete examples.v1.Booking --yes")
def delete_schema(
    session: Session,
    message: Annotated[str, typer.Argument(help="Fully-qualified name of a registered message.")],
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Delete a registered message. Refused while a stream or a dagger names it. Asks first on a terminal."""
    request = gateway_pb2.DeleteSchemaRequest(message=message)
    delete(session, "DeleteSchema", request, kind="message", name=message, yes=yes, dry_run=dry_run)


def _set_kafka_properties(
    errors: UsageErrors, texts: Iterable[str], secrets: Iterable[str], into: spec_pb2.KafkaAddress
) -> None:
    """Set the client properties of a Kafka: NAME=VALUE each, of secrets a reference."""
    for text in texts:
        if pair := errors.pair("--kafka-property", text):
            into.properties[pair[0]] = pair[1]
    for text in secrets:
        pair = errors.pair("--kafka-secret", text)
        if pair and (reference := errors.reference(f"--kafka-secret {pair[0]}", pair[1])):
            into.secret_properties[pair[0]].CopyFrom(reference)


def _set_executors(errors: UsageErrors, flag: str, texts: Iterable[str], into: spec_pb2.Executors) -> None:
    """Set parts of what a dagger takes of executors: KEY=VALUE each."""
    for text in texts:
        from daggerclient.daggerfile.forms import parse_memory  # YAML: not for a list of clusters

        if (pair := errors.pair(flag, text)) is None:
            continue
        key, value = pair
        if key == "memory" and (mebibytes := parse_memory(value)):
            into.memory_mib = mebibytes
        elif key in ("count", "cores", "cores_max") and value.isdigit() and 0 < int(value) <= MAX_CORES:
            setattr(into, key, int(value))
        else:
            errors.add(flag, f"{text} must be count=N, cores=N, memory=SIZE (600m, 2g) or cores_max=N")


def _cluster_flags(cluster: spec_pb2.Cluster) -> dict[str, str]:
    """Map fields of the request to the flags that fill them."""
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
        "cluster.spark_web_url": "--spark-web-url",
        "cluster.executors": "--executors",
        "cluster.executor_limits": "--executor-limit",
        "cluster.influx.url": "--influx-url",
        "cluster.influx.org": "--influx-org",
        "cluster.influx.bucket": "--influx-bucket",
        "cluster.influx.token.env": "--influx-token-env",
        "cluster.influx.token.file": "--influx-token-file",
    }
