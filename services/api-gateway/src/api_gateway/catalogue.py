"""CatalogService: clusters, schemas, streams and reference tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

from daggers.v1 import events_pb2, gateway_pb2, gateway_pb2_grpc, spec_pb2

from api_gateway import compatibility, describing, paging, prototext, references, schemas, validation
from api_gateway.missing import meant, no_entry
from api_gateway.projection import Projection
from api_gateway.reader import Reader
from api_gateway.writer import Writer, refused
from chassis.errors import invalid
from chassis.interceptors import Context, actor
from daggerspec import catalogue
from daggerspec.catalogue import Unresolved
from daggerspec.defaults import filled_cluster
from daggerspec.violation import Violation, unregistered
from fleet import Fleet, view
from fleet.answers import about, version_mismatch
from fleet.catalogue import Entry
from fleet.resolve import Registered

_ALL: Final = 100_000
E = TypeVar("E", bound=paging.Sized | str)


class CatalogService(gateway_pb2_grpc.CatalogServiceServicer):
    """What daggers are made of."""

    def __init__(
        self,
        fleet: Fleet,
        writer: Writer,
        reader: Reader,
        projection: Projection,
        reference_places: Sequence[str],
    ) -> None:
        self._places = reference_places
        self._fleet = fleet
        self._writer = writer
        self._reader = reader
        self._projection = projection

    async def RegisterCluster(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.RegisterClusterRequest, context: Context
    ) -> gateway_pb2.RegisterClusterResponse:
        """Register a cluster, or replace one."""
        cluster = filled_cluster(request.cluster)
        event = events_pb2.ClusterRegistered(meta=_meta(request), cluster=cluster)
        version, sequence = await self._put(
            request, event, "cluster", cluster.name, self._fleet.clusters,
            lambda: catalogue.cluster("cluster", cluster),
        )  # fmt: skip
        return gateway_pb2.RegisterClusterResponse(cluster=cluster, version=version, sequence=sequence)

    async def ListClusters(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.ListClustersRequest, context: Context
    ) -> gateway_pb2.ListClustersResponse:
        """All clusters, by name."""
        found, more, at = await self._page(request, context, self._projection.clusters)
        return gateway_pb2.ListClustersResponse(clusters=found, next_page_token=more, sequence=at)

    async def RegisterSchema(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.RegisterSchemaRequest, context: Context
    ) -> gateway_pb2.RegisterSchemaResponse:
        """Register Protobuf files, pruned, unless they break readers of what is registered."""
        wrong = list(validation.request_id("request_id", request.request_id))
        try:
            schema = schemas.pruned(request.schema.files)
        except schemas.Unusable as error:
            raise invalid([*wrong, *error.violations]) from error
        event = events_pb2.SchemaRegistered(meta=events_pb2.RequestMeta(actor=actor()), schema=schema)
        answer = self._writer.answered(request.request_id, event)
        if answer is None:
            wrong += validation.event_size("schema.files", event.ByteSize())
            wrong += compatibility.breaks(schema, self._fleet)
            _refuse([*wrong, *_streams_broken(schema, self._fleet)])
            if request.validate_only:
                return gateway_pb2.RegisterSchemaResponse(messages=schema.messages)
            subject = schema.messages[0]
            answer = await self._writer.write(subject, event, request.request_id, at="schema.files")
        return gateway_pb2.RegisterSchemaResponse(messages=schema.messages, sequence=answer.sequence)

    async def ListSchemas(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.ListSchemasRequest, context: Context
    ) -> gateway_pb2.ListSchemasResponse:
        """The registered message names, sorted."""
        found, more, at = await self._page(request, context, self._projection.messages)
        return gateway_pb2.ListSchemasResponse(messages=found, next_page_token=more, sequence=at)

    async def GetSchema(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.GetSchemaRequest, context: Context
    ) -> gateway_pb2.GetSchemaResponse:
        """One message's file and all it imports."""
        check_sequence(request.min_sequence)
        fleet, name = await self._reader.state(context, request.min_sequence), request.message
        entry = fleet.messages.get(name)
        if entry is None:
            raise no_entry("message", name, fleet.messages)
        schema = schemas.of_message(entry.value, name)
        text = prototext.message(schema.files, name)
        return gateway_pb2.GetSchemaResponse(schema=schema, sequence=fleet.sequence, text=text)

    async def RegisterStream(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.RegisterStreamRequest, context: Context
    ) -> gateway_pb2.RegisterStreamResponse:
        """Register a stream, or replace one."""
        stream = request.stream
        event = events_pb2.StreamRegistered(meta=_meta(request), stream=stream)
        version, sequence = await self._put(
            request, event, "stream", stream.name, self._fleet.streams,
            lambda: (*catalogue.stream("stream", stream), *stream_violations("stream", stream, self._fleet)),
        )  # fmt: skip
        return gateway_pb2.RegisterStreamResponse(
            stream=stream,
            version=version,
            sequence=sequence,
            outdated_daggers=view.outdated(self._fleet, stream.name),
        )

    async def ListStreams(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.ListStreamsRequest, context: Context
    ) -> gateway_pb2.ListStreamsResponse:
        """All streams by name, or those of one message."""
        found, more, at = await self._page(
            request, context, partial(self._projection.streams, request.message), request.message
        )
        return gateway_pb2.ListStreamsResponse(streams=found, next_page_token=more, sequence=at)

    async def DescribeStream(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.DescribeStreamRequest, context: Context
    ) -> gateway_pb2.DescribeStreamResponse:
        """What a query can read of one stream."""
        check_sequence(request.min_sequence)
        fleet = await self._reader.state(context, request.min_sequence)
        entry = fleet.streams.get(request.name)
        if entry is None:
            raise no_entry("stream", request.name, fleet.streams)
        answer = describing.stream(entry.value, fleet)
        answer.sequence = fleet.sequence
        return answer

    async def RegisterReference(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.RegisterReferenceRequest, context: Context
    ) -> gateway_pb2.RegisterReferenceResponse:
        """Register a reference table, or replace one."""
        table = request.reference
        event = events_pb2.ReferenceRegistered(meta=_meta(request), reference=table)
        version, sequence = await self._put(
            request, event, "reference", table.name, self._fleet.references,
            lambda: references.violations("reference", table, self._places),
        )  # fmt: skip
        return gateway_pb2.RegisterReferenceResponse(reference=table, version=version, sequence=sequence)

    async def ListReferences(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.ListReferencesRequest, context: Context
    ) -> gateway_pb2.ListReferencesResponse:
        """All reference tables, by name."""
        found, more, at = await self._page(request, context, self._projection.references)
        return gateway_pb2.ListReferencesResponse(references=found, next_page_token=more, sequence=at)

    async def _page(
        self, request: Listed, context: Context, read: Callable[..., tuple[list[E], int]], of: str = ""
    ) -> tuple[Sequence[E], str, int]:
        """A page of a list, the token of the next, and the sequence it is of. Raises: ApiError.

        `read` answers entries by name, at most `limit`, behind `after`; `of` is what was asked of the list.
        """
        # Who asks for no page is from before there were any, and has to be answered all.
        page, wrong = paging.asked(request, of, default=_ALL)
        _refuse([*wrong, *validation.sequence("min_sequence", request.min_sequence)])
        found, at = await self._reader.read(
            context, request.min_sequence, lambda: read(after=page.after, limit=page.limit)
        )
        return *page.cut(found, paging.name), at

    async def _put(
        self,
        request: Versioned,
        event: Registration,
        kind: str,
        name: str,
        entries: Mapping[str, Entry[Any]],
        wrong: Callable[[], Iterable[Violation]],
    ) -> tuple[int, int]:
        """Register or replace what the request's field `kind` holds: its version and sequence, or zeros for a
        request that was to be checked only.

        `wrong` is asked of a new request alone: what was accepted is not judged again. Raises: ApiError.
        """
        answer = self._writer.answered(request.request_id, event)
        if answer is None:
            _refuse([*wrong(), *_envelope(request), *validation.event_size(kind, event.ByteSize())])
            _check_version(request, kind, name, entries[name].version if name in entries else 0)
            if request.validate_only:
                return 0, 0
            answer = await self._writer.write(name, event, request.request_id, at=kind)
        return answer.version, answer.sequence


def stream_violations(at: str, stream: spec_pb2.Stream, fleet: Fleet) -> Iterator[Violation]:
    """What is wrong with a stream against the catalogue. Pure."""
    cluster = fleet.clusters.get(stream.cluster)
    if not stream.cluster:
        yield Violation(f"{at}.cluster", "is required: the cluster whose Kafka holds the topics", "REQUIRED")
    elif cluster is None:
        yield meant(unregistered(f"{at}.cluster", "cluster", stream.cluster), fleet)
    elif not cluster.value.kafka.bootstrap_servers:
        yield Violation(f"{at}.cluster", f"cluster {stream.cluster} has no Kafka", "NO_KAFKA")
    if not stream.time_field:
        yield Violation(f"{at}.time_field", "is required: the event time", "REQUIRED")
    if not stream.message:
        yield Violation(f"{at}.message", "is required: what each record holds", "REQUIRED")
        return
    try:
        message = Registered(fleet).message(stream.message)
    except Unresolved as error:
        about_it = about("message", stream.message)
        yield meant(Violation(f"{at}.message", error.detail, error.reason, metadata=about_it), fleet)
        return
    if stream.time_field:
        yield from schemas.time_field(f"{at}.time_field", stream.time_field, message)


def check_sequence(min_sequence: int) -> None:
    """Raises: ApiError for a min_sequence that cannot be."""
    _refuse(list(validation.sequence("min_sequence", min_sequence)))


Listed: TypeAlias = (
    gateway_pb2.ListClustersRequest
    | gateway_pb2.ListSchemasRequest
    | gateway_pb2.ListStreamsRequest
    | gateway_pb2.ListReferencesRequest
)


Versioned: TypeAlias = (
    gateway_pb2.RegisterClusterRequest
    | gateway_pb2.RegisterStreamRequest
    | gateway_pb2.RegisterReferenceRequest
)


Registration: TypeAlias = (
    events_pb2.ClusterRegistered | events_pb2.StreamRegistered | events_pb2.ReferenceRegistered
)


def _streams_broken(schema: spec_pb2.Schema, fleet: Fleet) -> Iterator[Violation]:
    """Streams whose event time is no longer in their message."""
    for name, entry in sorted(fleet.streams.items()):
        stream = entry.value
        if stream.message not in schema.messages:
            continue
        message = schemas.descriptor(schema, stream.message)
        for wrong in schemas.time_field("schema.files", stream.time_field, message):
            needs = f"stream {name} needs {stream.time_field} of {stream.message}"
            yield Violation("schema.files", f"{needs}, which {wrong.description}", wrong.reason)


def _envelope(request: Versioned) -> Iterator[Violation]:
    yield from validation.request_id("request_id", request.request_id)
    yield from validation.version("expected_version", request.expected_version)


def _meta(request: Versioned) -> events_pb2.RequestMeta:
    meta = events_pb2.RequestMeta(actor=actor())
    if request.HasField("expected_version"):
        meta.expected_version = request.expected_version
    return meta


def _check_version(request: Versioned, kind: str, name: str, version: int) -> None:
    if request.HasField("expected_version"):
        refusal = version_mismatch(kind, name, request.expected_version, version)
        if refusal is not None:
            raise refused(refusal)


def _refuse(violations: Sequence[Violation]) -> None:
    if violations:
        raise invalid(violations)
