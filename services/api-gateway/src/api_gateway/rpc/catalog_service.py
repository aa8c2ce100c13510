"""CatalogService: register and remove clusters, schemas, streams and reference tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from daggers.v1 import events_pb2, gateway_pb2, spec_pb2

from api_gateway.auth.masking import Masking
from api_gateway.hosts.stream_samples import Samples, warnings
from api_gateway.not_found import add_suggestion
from api_gateway.rpc import removing
from api_gateway.rpc.catalog_lists import CatalogReads
from api_gateway.rpc.registering import put
from api_gateway.state.heartbeat_cache import HeartbeatCache
from api_gateway.state.reader import StateReader
from api_gateway.state.writer import RequestWriter
from api_gateway.validate import comments, reference_places, request_fields, schema_compatibility, schemas
from api_gateway.validate.dagger_requests import meta_of, refuse
from api_gateway.validate.schema_compiling import SchemaCompiler
from api_gateway.validate.topic_ownership import written_topics
from chassis.errors import invalid
from chassis.interceptors import Context, actor
from daggerspec import catalogue, secrets
from daggerspec.catalogue import UnresolvedName
from daggerspec.defaults import fill_cluster_defaults
from daggerspec.violation import Violation, unregistered_name
from fleet import Fleet
from fleet.fold import view
from fleet.fold.answers import about
from fleet.fold.resolve import FleetCatalogue
from protofiles import UploadedFile


class CatalogService(CatalogReads):
    """Serves the resources that daggers are built of."""

    def __init__(
        self,
        fleet: Fleet,
        writer: RequestWriter,
        reader: StateReader,
        samples: Samples,
        masking: Masking,
        heartbeats: HeartbeatCache,
        reference_places: Sequence[str],
    ) -> None:
        super().__init__(fleet, reader, samples, masking, heartbeats)
        self._compiler = SchemaCompiler()
        self._places = reference_places
        self._writer = writer

    async def RegisterCluster(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.RegisterClusterRequest, context: Context
    ) -> gateway_pb2.RegisterClusterResponse:
        """Register a cluster, or replace one."""
        cluster = fill_cluster_defaults(request.cluster)
        event = events_pb2.ClusterRegistered(meta=meta_of(request), cluster=cluster)
        entry = self._fleet.clusters.get(cluster.name)
        before = entry.value if entry else None
        version, sequence = await put(
            self._writer, request, event, "cluster", cluster.name, self._fleet.clusters,
            lambda: (*catalogue.cluster("cluster", cluster, before), *self._secrets("cluster", cluster)),
        )  # fmt: skip
        return gateway_pb2.RegisterClusterResponse(cluster=cluster, version=version, sequence=sequence)

    async def DeleteCluster(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.DeleteClusterRequest, context: Context
    ) -> gateway_pb2.DeleteClusterResponse:
        """Remove a cluster that no dagger uses."""
        event = events_pb2.ClusterRemoved(meta=meta_of(request), name=request.name)
        return gateway_pb2.DeleteClusterResponse(
            sequence=await removing.remove(self._writer, self._fleet, request, event)
        )

    def _secrets(self, path: str, cluster: spec_pb2.Cluster) -> Iterator[Violation]:
        """Yield what is wrong with a cluster's references to registered secrets."""
        for violation in secrets.of_cluster(path, cluster, FleetCatalogue(self._fleet).secret):
            yield add_suggestion(violation, self._fleet)

    async def RegisterSchema(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.RegisterSchemaRequest, context: Context
    ) -> gateway_pb2.RegisterSchemaResponse:
        """Register Protobuf files, reduced to what is needed, unless they break readers of registered
        schemas.

        Raises: ApiError.
        """
        wrong = list(request_fields.request_id("request_id", request.request_id))
        try:
            schema = schemas.prune(request.schema.files)
        except schemas.Unusable as error:
            raise invalid([*wrong, *error.violations]) from error
        event = events_pb2.SchemaRegistered(meta=events_pb2.RequestMeta(actor=actor()), schema=schema)
        answer = self._writer.find_answer(request.request_id, (event,))
        if answer is None:
            wrong += request_fields.event_size("schema.files", event.ByteSize())
            wrong += schema_compatibility.breaks(schema, self._fleet)
            refuse([*wrong, *_broken_streams(schema, self._fleet)])
            if request.validate_only:
                return gateway_pb2.RegisterSchemaResponse(messages=schema.messages)
            subject = schema.messages[0]
            answer = await self._writer.write(subject, event, request.request_id, path="schema.files")
        return gateway_pb2.RegisterSchemaResponse(messages=schema.messages, sequence=answer.sequence)

    async def CompileSchema(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.CompileSchemaRequest, context: Context
    ) -> gateway_pb2.CompileSchemaResponse:
        """Compile Protobuf files of a person, and check whether they could be registered.
        Raises: ApiError.
        """
        compiled = await self._compiler([UploadedFile(file.path, file.content) for file in request.files])
        answer = gateway_pb2.CompileSchemaResponse(
            missing_imports=compiled.missing,
            left_out=compiled.left_out,
            problems=[gateway_pb2.SchemaProblem(**asdict(problem)) for problem in compiled.problems],
        )
        if answer.problems:
            return answer
        try:
            schema = schemas.prune(compiled.files)
        except schemas.Unusable as error:
            wrong: Sequence[Violation] = error.violations
        else:
            wrong = (*schema_compatibility.breaks(schema, self._fleet), *_broken_streams(schema, self._fleet))
        if wrong:
            answer.problems.extend(
                gateway_pb2.SchemaProblem(reason=one.reason, message=one.description) for one in wrong
            )
            return answer
        comment_of = comments.by_message(compiled.files.file)
        answer.schema.CopyFrom(schema)
        answer.messages.extend(
            gateway_pb2.CompiledMessage(name=name, comment=comment_of.get(name, ""))
            for name in schema.messages
        )
        return answer

    async def DeleteSchema(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.DeleteSchemaRequest, context: Context
    ) -> gateway_pb2.DeleteSchemaResponse:
        """Remove a message that nothing uses."""
        event = events_pb2.SchemaRemoved(meta=meta_of(request), name=request.message)
        return gateway_pb2.DeleteSchemaResponse(
            sequence=await removing.remove(self._writer, self._fleet, request, event)
        )

    async def RegisterStream(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.RegisterStreamRequest, context: Context
    ) -> gateway_pb2.RegisterStreamResponse:
        """Register a stream, or replace one."""
        stream = request.stream
        event = events_pb2.StreamRegistered(meta=meta_of(request), stream=stream)
        version, sequence = await put(
            self._writer, request, event, "stream", stream.name, self._fleet.streams,
            lambda: (*catalogue.stream("stream", stream), *stream_violations("stream", stream, self._fleet)),
        )  # fmt: skip
        topics = await self._samples.topics(stream, context)
        return gateway_pb2.RegisterStreamResponse(
            stream=stream,
            version=version,
            sequence=sequence,
            outdated_daggers=view.find_outdated_daggers(self._fleet, stream.name),
            findings=warnings(stream, topics),
            topics_unchecked=topics.unchecked,
        )

    async def DeleteStream(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.DeleteStreamRequest, context: Context
    ) -> gateway_pb2.DeleteStreamResponse:
        """Remove a stream that no dagger reads."""
        event = events_pb2.StreamRemoved(meta=meta_of(request), name=request.name)
        return gateway_pb2.DeleteStreamResponse(
            sequence=await removing.remove(self._writer, self._fleet, request, event)
        )

    async def RegisterReference(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.RegisterReferenceRequest, context: Context
    ) -> gateway_pb2.RegisterReferenceResponse:
        """Register a reference table, or replace one."""
        table = request.reference
        event = events_pb2.ReferenceRegistered(meta=meta_of(request), reference=table)
        version, sequence = await put(
            self._writer, request, event, "reference", table.name, self._fleet.references,
            lambda: reference_places.violations("reference", table, self._places),
        )  # fmt: skip
        return gateway_pb2.RegisterReferenceResponse(reference=table, version=version, sequence=sequence)

    async def DeleteReference(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.DeleteReferenceRequest, context: Context
    ) -> gateway_pb2.DeleteReferenceResponse:
        """Remove a reference table that no query uses."""
        event = events_pb2.ReferenceRemoved(meta=meta_of(request), name=request.name)
        return gateway_pb2.DeleteReferenceResponse(
            sequence=await removing.remove(self._writer, self._fleet, request, event)
        )


def stream_violations(path: str, stream: spec_pb2.Stream, fleet: Fleet) -> Iterator[Violation]:
    """Yield what is wrong with a stream against the catalogue. Pure."""
    cluster = fleet.clusters.get(stream.cluster)
    if not stream.cluster:
        yield Violation(
            f"{path}.cluster", "is required: the cluster whose Kafka holds the topics", "REQUIRED"
        )
    elif cluster is None:
        yield add_suggestion(unregistered_name(f"{path}.cluster", "cluster", stream.cluster), fleet)
    elif not cluster.value.kafka.bootstrap_servers:
        yield Violation(f"{path}.cluster", f"cluster {stream.cluster} has no Kafka", "NO_KAFKA")
    if not stream.time_field:
        yield Violation(f"{path}.time_field", "is required: the event time", "REQUIRED")
    if not stream.message:
        yield Violation(f"{path}.message", "is required: what each record holds", "REQUIRED")
        return
    try:
        message = FleetCatalogue(fleet).message(stream.message)
    except UnresolvedName as error:
        about_it = about("message", stream.message)
        yield add_suggestion(
            Violation(f"{path}.message", error.detail, error.reason, metadata=about_it), fleet
        )
        return
    if stream.time_field:
        yield from schemas.time_field(f"{path}.time_field", stream.time_field, message)
    for number, name in enumerate(stream.sensitive):
        yield from schemas.field(f"{path}.sensitive[{number}]", name, message)
    if stream.writer:
        yield from _writer_violations(f"{path}.writer", stream, fleet)


def _writer_violations(path: str, stream: spec_pb2.Stream, fleet: Fleet) -> Iterator[Violation]:
    """Yield what is wrong with the dagger that is named as the writer of a stream."""
    registered = fleet.streams.get(stream.name)
    if registered is not None and registered.value.writer == stream.writer:
        return  # it may have been deleted since, which no edit of the stream has to care for
    writer = fleet.living(stream.writer)
    if writer is None:
        yield Violation(path, f"there is no dagger {stream.writer}", "NOT_FOUND")
        return
    written = set(written_topics(writer.spec, fleet).values())
    for topic in stream.topics:
        if (stream.cluster, topic) not in written:
            yield Violation(path, f"{stream.writer} has no Kafka sink that writes {topic}", "NOT_WRITTEN")


def _broken_streams(schema: spec_pb2.Schema, fleet: Fleet) -> Iterator[Violation]:
    """Yield violations for streams whose event time is no longer in their message."""
    for name, entry in sorted(fleet.streams.items()):
        stream = entry.value
        if stream.message not in schema.messages:
            continue
        message = schemas.descriptor(schema, stream.message)
        for wrong in schemas.time_field("schema.files", stream.time_field, message):
            needs = f"stream {name} needs {stream.time_field} of {stream.message}"
            yield Violation("schema.files", f"{needs}, which {wrong.description}", wrong.reason)
