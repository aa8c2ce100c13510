"""From names to addresses: what a launch needs whole."""

from __future__ import annotations

from daggers.v1 import spec_pb2
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool

from daggerspec import defaults
from fleet.catalogue import Entry, closure, defining_file
from fleet.dagger import Dagger
from fleet.fleet import Fleet


class Unresolved(Exception):  # noqa: N818 - reads as what is wrong
    """A name of a spec stands for nothing. `reason` is UPPER_SNAKE; the text is one sentence for a person."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


def job(
    fleet: Fleet,
    dagger: Dagger,
    generation: int,
    *,
    platform: spec_pb2.KafkaAddress,
    checkpoint_root: str,
    run_dir: str,
) -> spec_pb2.JobSpec:
    """What the launch `generation` of a dagger needs, whole.

    `platform` is the Kafka of heartbeats and quarantine; `checkpoint_root` and `run_dir` as in JobSpec.
    Raises: Unresolved when a cluster, stream or message is not registered, or schemas contradict each other.
    """
    spec = dagger.spec
    streams = [_resolved_stream(fleet, each) for each in spec.streams]
    wanted = [each.stream.message for each in streams]
    wanted += [each.kafka.message for each in spec.sinks if each.kafka.message]
    return spec_pb2.JobSpec(
        dagger=dagger.name,
        version=dagger.version,
        generation=generation,
        spec=spec,
        streams=streams,
        sinks=[sink(fleet, spec, each) for each in spec.sinks],
        descriptors=descriptors(fleet, wanted),
        platform=platform,
        checkpoint_root=checkpoint_root,
        run_dir=run_dir,
        references=_named(fleet, spec.sql),
    )


def _named(fleet: Fleet, sql: str) -> list[spec_pb2.ReferenceTable]:
    """The reference tables whose names stand in the query as text. More than it uses, never less."""
    return [entry.value for name, entry in sorted(fleet.references.items()) if f"'{name}'" in sql]


def message(fleet: Fleet, name: str) -> Descriptor:
    """The descriptor of a registered message, in a pool of its own. Raises: Unresolved."""
    return _build(descriptors(fleet, [name]), [name])[0]


def sink(fleet: Fleet, spec: spec_pb2.DaggerSpec, asked: spec_pb2.Sink) -> spec_pb2.ResolvedSink:
    """A sink with the empty parts of its address taken from its cluster. Raises: Unresolved."""
    resolved = spec_pb2.ResolvedSink(sink=asked)
    if asked.HasField("influx"):
        own = resolved.sink.influx.address
        default = _cluster(fleet, spec.cluster).influx
        own.url = own.url or default.url
        own.org = own.org or default.org
        own.bucket = own.bucket or default.bucket
        # A token belongs to its server: the cluster's is not sent to an address of the user's own.
        if not own.HasField("token") and default.HasField("token") and own.url == default.url:
            own.token.CopyFrom(default.token)
        if not own.url:
            raise Unresolved(
                "NO_INFLUX_ADDRESS",
                f"cluster {spec.cluster} has no InfluxDB: give the influx sink a url, or register one for it",
            )
    elif asked.HasField("kafka"):
        cluster = _cluster(fleet, asked.kafka.cluster or spec.cluster)
        resolved.kafka.CopyFrom(_kafka(cluster))
    return resolved


def descriptors(fleet: Fleet, messages: list[str]) -> FileDescriptorSet:
    """The files of every message named and all they import, in dependency order, each file once.

    Of a file registered more than once the newest registration counts. Raises: Unresolved.
    """
    names = list(dict.fromkeys(messages))
    entries = {name: _schema(fleet, name) for name in names}
    files: dict[str, FileDescriptorProto] = {}
    for name in sorted(names, key=lambda name: entries[name].sequence):
        schema = entries[name].value
        root = defining_file(schema.files, name)
        if root is None:
            raise Unresolved("UNKNOWN_MESSAGE", f"the schema registered for {name} does not define it")
        files |= {file.name: file for file in _apart(closure(schema.files, [root]), files)}
    merged = FileDescriptorSet(file=closure(FileDescriptorSet(file=files.values()), files))
    _build(merged, names)
    return merged


def _apart(
    part: list[FileDescriptorProto], files: dict[str, FileDescriptorProto]
) -> list[FileDescriptorProto]:
    """The files, renamed where one of another package has their name: two teams may have an events.proto."""
    new = {
        file.name: f"{file.package}/{file.name}"
        for file in part
        if file.name in files and files[file.name].package != file.package
    }
    renamed = []
    for file in part:
        copy = FileDescriptorProto()
        copy.CopyFrom(file)
        copy.name = new.get(file.name, file.name)
        copy.dependency[:] = [new.get(needed, needed) for needed in file.dependency]
        renamed.append(copy)
    return renamed


def _build(files: FileDescriptorSet, names: list[str]) -> list[Descriptor]:
    pool = DescriptorPool()
    try:
        for file in files.file:
            pool.AddSerializedFile(file.SerializeToString())
        return [pool.FindMessageTypeByName(name) for name in names]
    except (KeyError, TypeError) as error:
        raise Unresolved(
            "SCHEMA_CONFLICT",
            f"the files of {', '.join(names)} do not fit together: register all their files in one schema",
        ) from error


def _resolved_stream(fleet: Fleet, asked: spec_pb2.StreamInput) -> spec_pb2.ResolvedStream:
    stream = _stream(fleet, asked.stream)
    resolved = spec_pb2.ResolvedStream(
        input=asked, stream=stream, kafka=_kafka(_cluster(fleet, stream.cluster))
    )
    for topic, time in fleet.joined[stream.name].items():
        resolved.joined[topic].FromDatetime(time)
    if not asked.HasField("future_tolerance"):
        resolved.input.future_tolerance.FromTimedelta(defaults.FUTURE_TOLERANCE)
    return resolved


def _schema(fleet: Fleet, name: str) -> Entry[spec_pb2.Schema]:
    entry = fleet.messages.get(name)
    if entry is None:
        raise Unresolved("UNKNOWN_MESSAGE", f"message {name} is not registered: register its schema")
    return entry


def _stream(fleet: Fleet, name: str) -> spec_pb2.Stream:
    entry = fleet.streams.get(name)
    if entry is None:
        raise Unresolved("UNKNOWN_STREAM", f"stream {name} is not registered")
    return entry.value


def _cluster(fleet: Fleet, name: str) -> spec_pb2.Cluster:
    entry = fleet.clusters.get(name)
    if entry is None:
        raise Unresolved("UNKNOWN_CLUSTER", f"cluster {name} is not registered")
    return entry.value


def _kafka(cluster: spec_pb2.Cluster) -> spec_pb2.KafkaAddress:
    if not cluster.kafka.bootstrap_servers:
        raise Unresolved("NO_KAFKA_ADDRESS", f"cluster {cluster.name} has no Kafka: register one for it")
    return cluster.kafka
