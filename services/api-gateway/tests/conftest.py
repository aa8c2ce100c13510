from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import psycopg
import pytest
from daggers.v1 import gateway_pb2, gateway_pb2_grpc, spec_pb2
from google.protobuf import descriptor_pb2, text_format

from access.limits import CallLimits
from api_gateway.auth.audit_topic import MemoryAudits
from api_gateway.auth.oidc import Verifier
from api_gateway.auth.teams import UnknownTeamAction
from api_gateway.hosts.client import HostAccess
from api_gateway.quarantine.memory import MemoryQuarantine
from api_gateway.server import Gateway, serving
from api_gateway.state.projection import Projection
from api_gateway.validate.reachability import ReachLimits
from chassis.endpoint import Endpoint
from chassis.errors import ApiError, from_rpc_error
from chassis.interceptors import Concern
from chassis.tokenfile import Tokens
from daggerspec import places
from eventlog import Log
from eventlog.memory import MemoryLog
from eventlog.testing import LogTail

QUERY = (
    "SELECT city AS tag_city, count(1) AS orders,"
    " TUMBLE_END(rowtime, INTERVAL '10' SECOND) AS window_timestamp"
    " FROM `data_stream` GROUP BY TUMBLE(rowtime, INTERVAL '10' SECOND), city"
)
BOOKING = """
file {
  name: "shop/booking.proto" package: "shop" syntax: "proto3"
  dependency: "google/protobuf/timestamp.proto"
  message_type {
    name: "Booking"
    field { name: "event_time" number: 1 label: LABEL_OPTIONAL type: TYPE_MESSAGE
            type_name: ".google.protobuf.Timestamp" json_name: "eventTime" }
    field { name: "city" number: 2 label: LABEL_OPTIONAL type: TYPE_STRING json_name: "city" }
    field { name: "status" number: 3 label: LABEL_OPTIONAL type: TYPE_ENUM type_name: ".shop.Status"
            json_name: "status" }
    field { name: "place" number: 4 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".shop.Booking.Place"
            json_name: "place" }
    nested_type {
      name: "Place"
      field { name: "lat" number: 1 label: LABEL_OPTIONAL type: TYPE_DOUBLE json_name: "lat" }
      field { name: "seen" number: 2 label: LABEL_OPTIONAL type: TYPE_MESSAGE
              type_name: ".google.protobuf.Timestamp" json_name: "seen" }
    }
    reserved_range { start: 10 end: 12 }
    reserved_name: "old_city"
  }
  message_type {
    name: "Summary"
    field { name: "tag_city" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING json_name: "tagCity" }
    field { name: "orders" number: 2 label: LABEL_OPTIONAL type: TYPE_INT64 json_name: "orders" }
    field { name: "window_timestamp" number: 3 label: LABEL_OPTIONAL type: TYPE_MESSAGE
            type_name: ".google.protobuf.Timestamp" json_name: "windowTimestamp" }
  }
  enum_type { name: "Status" value { name: "UNKNOWN" number: 0 } value { name: "COMPLETED" number: 1 } }
  source_code_info { location { path: 4 span: [1, 2, 3] leading_comments: "for people" } }
}
"""


def booking_files() -> descriptor_pb2.FileDescriptorSet:
    """A user's schema: shop.Booking with a nested message and an enum, and shop.Summary."""
    return text_format.Parse(BOOKING, descriptor_pb2.FileDescriptorSet())


def local_cluster() -> spec_pb2.Cluster:
    return spec_pb2.Cluster(
        name="local",
        kafka=spec_pb2.KafkaAddress(bootstrap_servers="127.0.0.1:9092"),
        spark_master="local[2]",
        influx=spec_pb2.InfluxAddress(url="http://127.0.0.1:8086", bucket="daggers"),
    )


def bookings_stream() -> spec_pb2.Stream:
    return spec_pb2.Stream(
        name="bookings",
        cluster="local",
        topics=["bookings-1", "bookings-2"],
        message="shop.Booking",
        time_field="event_time",
    )


def booking_spec() -> spec_pb2.DaggerSpec:
    return spec_pb2.DaggerSpec(
        team="pricing",
        cluster="local",
        streams=[spec_pb2.StreamInput(stream="bookings")],
        sql=QUERY,
        sinks=[spec_pb2.Sink(influx=spec_pb2.InfluxSink())],
    )


@dataclass
class Client:
    """What a test calls a gateway with."""

    gateway: Gateway
    log: Any
    channel: grpc.aio.Channel
    quarantined: MemoryQuarantine
    database_url: str

    @property
    def catalog(self) -> gateway_pb2_grpc.CatalogServiceStub:
        return gateway_pb2_grpc.CatalogServiceStub(self.channel)

    @property
    def daggers(self) -> gateway_pb2_grpc.DaggerServiceStub:
        return gateway_pb2_grpc.DaggerServiceStub(self.channel)

    @property
    def access(self) -> gateway_pb2_grpc.AccessServiceStub:
        return gateway_pb2_grpc.AccessServiceStub(self.channel)

    @property
    def alerts(self) -> gateway_pb2_grpc.AlertServiceStub:
        return gateway_pb2_grpc.AlertServiceStub(self.channel)

    @property
    def quarantine(self) -> gateway_pb2_grpc.QuarantineServiceStub:
        return gateway_pb2_grpc.QuarantineServiceStub(self.channel)

    async def create(self, **fields: Any) -> gateway_pb2.CreateDaggerResponse:
        fields = {"name": "completed_bookings", "spec": booking_spec(), **fields}
        return await self.daggers.CreateDagger(gateway_pb2.CreateDaggerRequest(**fields), timeout=10)


@dataclass
class Harness:
    """Starts gateways in this process, over a log and a database."""

    stack: AsyncExitStack
    database_url: str
    quarantined: MemoryQuarantine = field(default_factory=MemoryQuarantine)
    alerts: Any = field(default_factory=MemoryLog)
    heartbeats: Any = field(default_factory=MemoryLog)
    audits: Any = field(default_factory=MemoryLog)

    async def start(self, log: Log | None = None, *, database_url: str | None = None) -> Client:
        return await self.stack.enter_async_context(self.running(log, database_url=database_url))

    @asynccontextmanager
    async def running(
        self,
        log: Log | None = None,
        *,
        database_url: str | None = None,
        host_access: HostAccess = HostAccess(here="a"),  # noqa: B008 - a constant
        counted: Concern | None = None,
        tokens: Tokens | None = None,
        enforce: bool = False,
        bounds: ReachLimits = ReachLimits(),  # noqa: B008 - a constant
        unknown_teams: UnknownTeamAction = UnknownTeamAction.ALLOW,
        verifier: Verifier | None = None,
        limits: CallLimits = CallLimits(),  # noqa: B008 - a constant
    ) -> AsyncIterator[Client]:
        log = MemoryLog() if log is None else log
        url = database_url or self.database_url

        endpoint = Endpoint("127.0.0.1:0", tokens=tokens)
        async with (
            serving(
                log,
                Projection(url),
                self.quarantined,
                endpoint,
                alerts=self.alerts,
                heartbeats=LogTail(self.heartbeats),
                source="/api-gateway/test",
                reference_places=("/data/tables", "https://ref.example/t/"),
                secret_places=places.parse("/etc/daggers/pricing pricing http://warehouse:8086 kafka:9092"),
                drain_s=5,
                host_access=lambda: host_access,
                counted=counted,
                audits=lambda: nullcontext(self.audits),
                audit_topic=MemoryAudits(self.audits),
                enforce=enforce,
                bounds=bounds,
                unknown_teams=unknown_teams,
                verifier=verifier,
                limits=limits,
            ) as gateway,
            grpc.aio.insecure_channel(f"127.0.0.1:{gateway.port}") as channel,
        ):
            yield Client(gateway, log, channel, self.quarantined, url)


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A new, empty database, of each kind the projection may be kept in."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'projection.db'}"
    server: str = request.getfixturevalue("postgres")
    name = f"test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')  # type: ignore[call-overload] # a name made here
    return f"{server}/{name}"


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[Harness]:
    async with AsyncExitStack() as stack:
        yield Harness(stack, f"sqlite:///{tmp_path / 'gateway.db'}")


@pytest.fixture
async def client(harness: Harness) -> Client:
    """A gateway over an empty log."""
    return await harness.start()


@pytest.fixture
async def ready(client: Client) -> Client:
    """A gateway that knows a cluster, a schema and a stream."""
    await fill(client)
    return client


async def fill(client: Client) -> None:
    await client.catalog.RegisterCluster(
        gateway_pb2.RegisterClusterRequest(cluster=local_cluster()), timeout=10
    )
    await client.catalog.RegisterSchema(
        gateway_pb2.RegisterSchemaRequest(schema=spec_pb2.Schema(files=booking_files())), timeout=10
    )
    await client.catalog.RegisterStream(
        gateway_pb2.RegisterStreamRequest(stream=bookings_stream()), timeout=10
    )


@pytest.fixture
def samples() -> Any:
    """The messages tests begin with, each made anew by a call."""

    class Samples:
        query = QUERY
        files = staticmethod(booking_files)
        cluster = staticmethod(local_cluster)
        stream = staticmethod(bookings_stream)
        spec = staticmethod(booking_spec)
        fill = staticmethod(fill)

    return Samples


async def refusal_of(call: Awaitable[Any]) -> ApiError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return from_rpc_error(caught.value)


@pytest.fixture
def refusal() -> Callable[[Awaitable[Any]], Awaitable[ApiError]]:
    """Awaits a call that must fail; answers its error."""
    return refusal_of


async def take(stream: Any, count: int) -> list[Any]:
    async with asyncio.timeout(120):
        return [await stream.read() for _ in range(count)]


@pytest.fixture
def steps() -> Callable[[Any, int], Awaitable[list[Any]]]:
    """The next so many steps of a watch."""
    return take


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Log lines of the gateway go nowhere in tests."""
    import structlog

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("critical"))
    yield
    structlog.reset_defaults()
