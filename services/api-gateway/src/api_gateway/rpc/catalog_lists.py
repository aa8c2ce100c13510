"""Reads of CatalogService, from the fold."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from functools import partial

from daggers.v1 import gateway_pb2, gateway_pb2_grpc, spec_pb2

from api_gateway.auth.masking import Masking
from api_gateway.hosts.stream_samples import Samples
from api_gateway.rpc import describing, lists, sql_functions
from api_gateway.state.heartbeat_cache import HeartbeatCache
from api_gateway.state.reader import StateReader
from api_gateway.validate import proto_text, schemas
from chassis.errors import invalid
from chassis.interceptors import Context
from daggerspec.limits import MAX_SAMPLED_RECORDS, MAX_TOPICS, SAMPLED_RECORDS
from daggerspec.violation import Violation
from fleet import Fleet

# Clients from before there were pages ask for none, and must get the whole list.
_page = partial(lists.page, default=100_000)


class CatalogReads(gateway_pb2_grpc.CatalogServiceServicer):
    """Serves reads of the resources that daggers are built of."""

    def __init__(
        self,
        fleet: Fleet,
        reader: StateReader,
        samples: Samples,
        masking: Masking,
        heartbeats: HeartbeatCache,
    ) -> None:
        self._fleet = fleet
        self._reader = reader
        self._samples = samples
        self._masking = masking
        self._heartbeats = heartbeats

    async def ListClusters(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.ListClustersRequest, context: Context
    ) -> gateway_pb2.ListClustersResponse:
        """List all clusters by name, with their use."""
        listed, more, sequence = await _page(self._reader, request, context, "cluster")
        return gateway_pb2.ListClustersResponse(
            clusters=listed, next_page_token=more, sequence=sequence, uses=self._uses(listed)
        )

    def _uses(self, clusters: Sequence[spec_pb2.Cluster]) -> Iterator[gateway_pb2.ClusterUse]:
        """Yield the use of each cluster."""
        living = [dagger for name in self._fleet.daggers if (dagger := self._fleet.living(name)) is not None]
        daggers = Counter(dagger.spec.cluster for dagger in living)
        drivers = Counter(launch.cluster for dagger in living for launch in dagger.footprints)
        room = self._heartbeats.room()
        for cluster in clusters:
            name = cluster.name
            yield gateway_pb2.ClusterUse(
                cluster=name,
                daggers=daggers[name],
                drivers=drivers[name],
                room=room if cluster.spark_master else None,
            )

    async def GetCluster(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.GetClusterRequest, context: Context
    ) -> gateway_pb2.GetClusterResponse:
        """Return one cluster and its version."""
        entry, sequence = await lists.one(self._reader, request, context, "cluster", request.name)
        return gateway_pb2.GetClusterResponse(cluster=entry.value, version=entry.version, sequence=sequence)

    async def ListSchemas(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.ListSchemasRequest, context: Context
    ) -> gateway_pb2.ListSchemasResponse:
        """List the registered message names."""
        listed, more, sequence = await _page(self._reader, request, context, "message", names_only=True)
        return gateway_pb2.ListSchemasResponse(messages=listed, next_page_token=more, sequence=sequence)

    async def GetSchema(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.GetSchemaRequest, context: Context
    ) -> gateway_pb2.GetSchemaResponse:
        """Return one message's file and all its imports."""
        name = request.message
        entry, sequence = await lists.one(self._reader, request, context, "message", name)
        schema = schemas.of_message(entry.value, name)
        text = proto_text.message(schema.files, name)
        return gateway_pb2.GetSchemaResponse(schema=schema, sequence=sequence, text=text)

    async def ListStreams(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.ListStreamsRequest, context: Context
    ) -> gateway_pb2.ListStreamsResponse:
        """List streams by name: all, or those of one message."""
        message = request.message
        listed, more, sequence = await _page(
            self._reader,
            request,
            context,
            "stream",
            of=message,
            wanted=lambda stream: message in ("", stream.message),
        )
        return gateway_pb2.ListStreamsResponse(streams=listed, next_page_token=more, sequence=sequence)

    async def GetStream(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.GetStreamRequest, context: Context
    ) -> gateway_pb2.GetStreamResponse:
        """Return one stream and its version."""
        entry, sequence = await lists.one(self._reader, request, context, "stream", request.name)
        return gateway_pb2.GetStreamResponse(stream=entry.value, version=entry.version, sequence=sequence)

    async def DescribeStream(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.DescribeStreamRequest, context: Context
    ) -> gateway_pb2.DescribeStreamResponse:
        """Describe the columns that a query can read of one stream."""
        entry, sequence = await lists.one(self._reader, request, context, "stream", request.name)
        answer = describing.describe_stream(entry.value, self._fleet)
        answer.sequence = sequence
        if request.topics:
            await self._samples.describe(answer, context)
        return answer

    async def SampleStream(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.SampleStreamRequest, context: Context
    ) -> AsyncIterator[gateway_pb2.SampleStreamResponse]:
        """Yield the newest records of one stream."""
        count = request.last_records or SAMPLED_RECORDS
        if not 0 < count <= MAX_SAMPLED_RECORDS:
            text = f"must be 0 to {MAX_SAMPLED_RECORDS}"
            raise invalid([Violation("last_records", text, "OUT_OF_RANGE")])
        stream = lists.entry(self._fleet, "stream", request.name).value
        async with aclosing(self._samples.records(stream, count, context)) as steps:
            async for step in steps:
                self._masking.sample(lists.entry(self._fleet, "stream", request.name).value, step.records)
                yield step

    async def DiscoverTopics(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.DiscoverTopicsRequest, context: Context
    ) -> AsyncIterator[gateway_pb2.DiscoverTopicsResponse]:
        """Yield topics of one cluster's Kafka, with the messages that their records may be."""
        lists.entry(self._fleet, "cluster", request.cluster)
        if request.message and not request.HasField("schema"):
            lists.entry(self._fleet, "message", request.message)
        wrong = list(_find_discovery_violations(request))
        if request.HasField("schema"):
            try:
                request.schema.CopyFrom(schemas.prune(request.schema.files))
            except schemas.Unusable as error:
                wrong += error.violations
            else:
                wrong += _find_message_violations(request)
        if wrong:
            raise invalid(wrong)
        async with aclosing(self._samples.discover(request, context)) as steps:
            async for step in steps:
                yield step

    async def ListFunctions(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.ListFunctionsRequest, context: Context
    ) -> gateway_pb2.ListFunctionsResponse:
        """List all functions of the SQL dialect."""
        return sql_functions.list_functions()

    async def ListReferences(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.ListReferencesRequest, context: Context
    ) -> gateway_pb2.ListReferencesResponse:
        """List all reference tables by name."""
        listed, more, sequence = await _page(self._reader, request, context, "reference")
        return gateway_pb2.ListReferencesResponse(references=listed, next_page_token=more, sequence=sequence)

    async def GetReference(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.GetReferenceRequest, context: Context
    ) -> gateway_pb2.GetReferenceResponse:
        """Return one reference table and its version."""
        entry, sequence = await lists.one(self._reader, request, context, "reference", request.name)
        return gateway_pb2.GetReferenceResponse(
            reference=entry.value, version=entry.version, sequence=sequence
        )


def _find_discovery_violations(request: gateway_pb2.DiscoverTopicsRequest) -> Iterator[Violation]:
    """Find what is wrong with a request for topics, beside names that are not registered."""
    if len(request.topics) > MAX_TOPICS:
        yield Violation("topics", f"must not be more than {MAX_TOPICS}", "TOO_MANY")
    if not 0 <= request.examples <= SAMPLED_RECORDS:
        yield Violation("examples", f"must be 0 to {SAMPLED_RECORDS}", "OUT_OF_RANGE")


def _find_message_violations(request: gateway_pb2.DiscoverTopicsRequest) -> Iterator[Violation]:
    """Find out whether the message is one of the schema's that the request has."""
    if request.message and request.message not in request.schema.messages:
        yield Violation("message", f"is not there: the schema has no message {request.message}", "NOT_FOUND")
