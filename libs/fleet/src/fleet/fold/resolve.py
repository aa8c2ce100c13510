"""Resolution of names to addresses: the whole job of a launch."""

from __future__ import annotations

from collections.abc import Iterator

from daggers.v1 import gateway_pb2, spec_pb2
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message

from daggerspec import defaults, folders, query, rules, secrets, sinks
from daggerspec.catalogue import UnresolvedName
from daggerspec.kind import ValidationContext
from fleet.fold import ownership
from fleet.fold.catalogue import Entry, closure, defining_file
from fleet.fold.dagger import Dagger
from fleet.fold.fleet import Fleet


class FleetCatalogue:
    """Registered objects by name, as a fold has them now: what rules and sinks resolve names with. Lives for
    one request.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._messages: dict[str, Descriptor] = {}
        self.clusters: dict[str, spec_pb2.Cluster] = {}
        """Clusters that were looked up."""
        self.sinks: dict[str, spec_pb2.RegisteredSink] = {}
        """Sinks that were looked up."""
        self.secrets: dict[str, spec_pb2.Secret] = {}
        """Secrets that were looked up."""

    def cluster(self, name: str) -> spec_pb2.Cluster | None:
        """Return a registered cluster, or None."""
        entry = self._fleet.clusters.get(name)
        if entry is None:
            return None
        return self.clusters.setdefault(name, entry.value)

    def stream(self, name: str) -> spec_pb2.Stream | None:
        """Return a registered stream, or None."""
        entry = self._fleet.streams.get(name)
        return entry.value if entry else None

    def message(self, name: str) -> Descriptor:
        """Return the descriptor of a registered message, in a pool of its own. Raises: UnresolvedName."""
        if name not in self._messages:  # several rules ask for one, and a pool takes milliseconds
            self._messages[name] = _build(descriptors(self._fleet, [name]), [name])[0]
        return self._messages[name]

    def sink(self, name: str) -> spec_pb2.RegisteredSink | None:
        """Return a registered sink, or None."""
        entry = self._fleet.catalogue.sinks.get(name)
        return None if entry is None else self.sinks.setdefault(name, entry.value)

    def secret(self, name: str) -> spec_pb2.Secret | None:
        """Return a registered secret, or None."""
        entry = self._fleet.catalogue.secrets.get(name)
        return None if entry is None else self.secrets.setdefault(name, entry.value)


def job(
    fleet: Fleet,
    dagger: Dagger,
    generation: int,
    *,
    platform: spec_pb2.KafkaAddress,
    checkpoint_root: str,
    run_dir: str,
    egress: spec_pb2.Egress | None = None,
) -> spec_pb2.JobSpec:
    """Build the job of launch `generation` of a dagger, with every name resolved.

    `platform` is the Kafka of heartbeats and quarantine; `checkpoint_root` and `run_dir` as in JobSpec;
    `egress` holds the connections to addresses that no administrator registered.
    Raises: UnresolvedName when a cluster, stream or message is not registered, or schemas contradict
    each other.
    """
    # What was asked before something could be said leaves it unsaid: a launch says all.
    spec = defaults.fill_defaults(dagger.name, dagger.spec)
    del spec.tests[:]  # a driver runs none
    catalogue = FleetCatalogue(fleet)
    for wrong in rules.unresolved_names("spec", dagger.name, spec, catalogue):
        raise UnresolvedName(wrong.reason, f"{wrong.field} {wrong.description}")
    context = ValidationContext(dagger.name, spec, catalogue)
    resolved = [sinks.resolve("", sink_, context)[0] for sink_ in spec.sinks]
    for resolved_sink in resolved:
        if resolved_sink.HasField("egress"):
            resolved_sink.egress.CopyFrom(egress or spec_pb2.Egress())
            resolved_sink.egress.folders[:] = folders.of(spec.team, resolved_sink.egress.folders)
        registered = catalogue.sink(resolved_sink.sink.registered)
        share = spec_pb2.RateLimit() if registered is None else _share(registered, fleet)
        if (share_limit := _stricter_limit(resolved_sink.sink.limit, share)).ListFields():
            resolved_sink.share.CopyFrom(share_limit)
    streams = [_resolve_stream(fleet, stream) for stream in spec.streams]
    wanted = [stream.stream.message for stream in streams]
    wanted += [name for sink_ in spec.sinks for name in sinks.messages(sink_).values()]
    prepared = spec_pb2.JobSpec(
        dagger=dagger.name,
        version=dagger.version,
        generation=generation,
        spec=spec,
        streams=streams,
        sinks=resolved,
        descriptors=descriptors(fleet, wanted),
        platform=platform,
        checkpoint_root=checkpoint_root,
        run_dir=run_dir,
        references=find_references(fleet, spec),
        clusters=map(_without_credentials, catalogue.clusters.values()),
        registered_sinks=catalogue.sinks.values(),
        secrets=catalogue.secrets.values(),
    )
    if dagger.destinations:
        prepared.destinations.extend(_list_destinations(fleet, spec.team, resolved))
    for message in (*prepared.streams, *prepared.sinks):
        place_secrets(message, fleet)
    return prepared


def _list_destinations(fleet: Fleet, team: str, resolved: list[spec_pb2.ResolvedSink]) -> Iterator[str]:
    """Yield the texts of what sinks write to, as addresses are now. Raises: UnresolvedName where one is
    another team's.
    """
    for place in filter(None, map(sinks.destination, resolved)):
        if (refusal := ownership.refuse_destination(fleet.catalogue, place, team)) is not None:
            raise UnresolvedName(refusal.reason, refusal.detail)
        yield str(place)


def _share(registered: spec_pb2.RegisteredSink, fleet: Fleet) -> spec_pb2.RateLimit:
    """Return a launch's equal share of a registered sink's limit, among the daggers that are to run and use
    it.
    """
    daggers = (dagger for dagger in fleet.daggers.values() if dagger.desired == gateway_pb2.DESIRED_RUNNING)
    writers = sum(sink.registered == registered.name for dagger in daggers for sink in dagger.spec.sinks) or 1
    limit = registered.limit
    return spec_pb2.RateLimit(
        rows_per_second=limit.rows_per_second / writers,
        requests_per_second=limit.requests_per_second / writers,
        max_in_flight=max(limit.max_in_flight // writers, 1) if limit.max_in_flight else 0,
    )


def _stricter_limit(one: spec_pb2.RateLimit, other: spec_pb2.RateLimit) -> spec_pb2.RateLimit:
    """Return the stricter of two limits, field by field; 0 is none."""
    least = spec_pb2.RateLimit()
    for limit in (one, other):
        for field, most in limit.ListFields():
            setattr(least, field.name, min(getattr(least, field.name) or most, most))
    return least


def place_secrets(message: Message, fleet: Fleet) -> None:
    """Say where registered secrets are that a message names. Raises: UnresolvedName for an unknown one."""
    secrets.fill_places(message, FleetCatalogue(fleet).secret)
    for reference in secrets.references(message):
        if reference.name:
            raise UnresolvedName("UNKNOWN_SECRET", f"secret {reference.name} is not registered: register it")


def _without_credentials(cluster: spec_pb2.Cluster) -> spec_pb2.Cluster:
    """Return the addresses of a cluster, without credentials."""
    servers = spec_pb2.Cluster()
    servers.CopyFrom(cluster)
    if servers.HasField("kafka"):
        servers.kafka.ClearField("properties")
        servers.kafka.ClearField("secret_properties")
    if servers.HasField("influx"):
        servers.influx.ClearField("token")
    return servers


def find_references(fleet: Fleet, spec: spec_pb2.DaggerSpec) -> Iterator[spec_pb2.ReferenceTable]:
    """Yield the reference tables that a query and its alert rules may read: at least those that they do."""
    for name in query.find_tables(spec, sorted(fleet.references)):
        yield fleet.references[name].value


def sink(
    fleet: Fleet, name: str, spec: spec_pb2.DaggerSpec, unresolved: spec_pb2.Sink
) -> spec_pb2.ResolvedSink:
    """Return a sink of the dagger `name` with its address filled in from its cluster, as far as that
    has one.
    """
    return sinks.resolve("", unresolved, ValidationContext(name, spec, FleetCatalogue(fleet)))[0]


def own_secrets(
    fleet: Fleet, name: str, spec: spec_pb2.DaggerSpec
) -> Iterator[tuple[str, spec_pb2.SecretRef, str]]:
    """Yield the secrets that the spec of a dagger implies: field, place, and address that they are sent
    to.
    """
    context = ValidationContext(name, spec, FleetCatalogue(fleet))
    for number, sink in enumerate(spec.sinks):
        for field, reference, to in sinks.own_secrets(sink, context):
            if to and secrets.is_place(reference):
                yield f"spec.sinks[{number}].{field}", reference, to


def descriptors(fleet: Fleet, messages: list[str]) -> FileDescriptorSet:
    """Return the files of these messages and of all they import, in dependency order, each file once.

    Of a file registered more than once the newest registration counts. Raises: UnresolvedName.
    """
    names = list(dict.fromkeys(messages))
    entries = {name: _schema(fleet, name) for name in names}
    files: dict[str, FileDescriptorProto] = {}
    for name in sorted(names, key=lambda name: entries[name].sequence):
        schema = entries[name].value
        root = defining_file(schema.files, name)
        if root is None:
            raise UnresolvedName("UNKNOWN_MESSAGE", f"the schema registered for {name} does not define it")
        files |= {file.name: file for file in _rename_clashing(closure(schema.files, [root]), files)}
    merged = FileDescriptorSet(file=closure(FileDescriptorSet(file=files.values()), files))
    _build(merged, names)
    return merged


def _rename_clashing(
    part: list[FileDescriptorProto], files: dict[str, FileDescriptorProto]
) -> list[FileDescriptorProto]:
    """Rename files where one of another package has their name: two teams may have an events.proto."""
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
        copy.ClearField("source_code_info")  # what a file says to people
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
        raise UnresolvedName(
            "SCHEMA_CONFLICT",
            f"the files of {', '.join(names)} do not fit together: register all their files in one schema",
        ) from error


def _resolve_stream(fleet: Fleet, stream_input: spec_pb2.StreamInput) -> spec_pb2.ResolvedStream:
    """Return a stream with its registration, its cluster's Kafka and the times when its topics joined."""
    stream = fleet.streams[stream_input.stream].value
    kafka = fleet.clusters[stream.cluster].value.kafka
    resolved = spec_pb2.ResolvedStream(input=stream_input, stream=stream, kafka=kafka)
    for topic, time in fleet.joined[stream.name].items():
        resolved.joined[topic].FromDatetime(time)
    return resolved


def _schema(fleet: Fleet, name: str) -> Entry[spec_pb2.Schema]:
    entry = fleet.messages.get(name)
    if entry is None:
        raise UnresolvedName("UNKNOWN_MESSAGE", f"message {name} is not registered: register its schema")
    return entry
