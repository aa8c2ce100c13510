"""Build the parts of a gateway: the only module that knows all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import grpc
from daggers.v1 import gateway_pb2, gateway_pb2_grpc

from api_gateway.auth.audit import Audit
from api_gateway.auth.audit_topic import AuditTopic
from api_gateway.auth.authorization import Gate
from api_gateway.auth.masking import Masking
from api_gateway.auth.provenance import Provenance
from api_gateway.auth.teams import Teams, UnknownTeamAction
from api_gateway.hosts.client import HostAccess, Hosts
from api_gateway.hosts.preview_usage import PreviewSeconds
from api_gateway.hosts.previews import Previews
from api_gateway.hosts.query_tests import QueryTests
from api_gateway.hosts.rows_and_logs import DaggerReads
from api_gateway.hosts.sink_tests import SinkTests
from api_gateway.hosts.stream_samples import Samples
from api_gateway.quarantine import service as quarantine_service
from api_gateway.quarantine.allowing import RefusalAllowances
from api_gateway.quarantine.follower import QuarantineFollower
from api_gateway.quarantine.reads import QuarantineReads
from api_gateway.quarantine.replays import Replays
from api_gateway.quarantine.service import QuarantineService
from api_gateway.quarantine.topic import QuarantineTopic
from api_gateway.rpc import dagger_service
from api_gateway.rpc.access_service import AccessService
from api_gateway.rpc.alert_log import Alerts
from api_gateway.rpc.alert_service import AlertService
from api_gateway.rpc.audit_service import AuditService
from api_gateway.rpc.catalog_service import CatalogService
from api_gateway.rpc.dagger_service import DaggerService
from api_gateway.rpc.fleet_service import FleetService
from api_gateway.rpc.sink_service import SinkService
from api_gateway.rpc.watch_vitals import Vitals
from api_gateway.state.fold import Fold
from api_gateway.state.heartbeat_cache import HeartbeatCache
from api_gateway.state.minute_sums import MinuteCache
from api_gateway.state.projection import Projection
from api_gateway.state.projector import Projector
from api_gateway.state.reader import StateReader
from api_gateway.state.writer import RequestWriter
from api_gateway.validate.dagger_requests import DaggerRequests
from api_gateway.validate.query_check_pool import Checker
from api_gateway.validate.query_checks import Checks
from api_gateway.validate.reachability import Reach, ReachLimits
from daggerspec.places import Place
from eventlog import Log
from eventlog.follower import Follower
from fleet import ApplyResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """The logs that a gateway follows, and the state that it derives from them, before it serves calls."""

    log: Log
    """The control topic."""
    follower: Follower[ApplyResult]
    fold: Fold
    projector: Projector
    projection: Projection
    alerts: Alerts
    quarantine: QuarantineTopic
    quarantine_follower: QuarantineFollower
    """Follows `quarantine` into its index."""
    heartbeats: HeartbeatCache
    minutes: MinuteCache
    vitals: Vitals
    audit: Audit


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayOptions:
    """Options of a gateway: see `server.serving`."""

    source: str
    reference_places: Sequence[str]
    secret_places: Sequence[Place]
    away: Callable[[], str]
    host_access: Callable[[], HostAccess]
    audit_topic: AuditTopic
    enforce: bool
    checker: Checker
    bounds: ReachLimits
    unknown_teams: UnknownTeamAction


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayServices:
    """The gate of all calls, and the services."""

    gate: Gate
    daggers: DaggerService
    catalog: CatalogService
    access: AccessService
    sinks: SinkService
    quarantine: QuarantineService
    alerts: AlertService
    audits: AuditService
    fleet: FleetService

    def add_to(self, server: grpc.aio.Server) -> None:
        """Have a server answer by them."""
        gateway_pb2_grpc.add_DaggerServiceServicer_to_server(self.daggers, server)
        gateway_pb2_grpc.add_CatalogServiceServicer_to_server(self.catalog, server)
        gateway_pb2_grpc.add_AccessServiceServicer_to_server(self.access, server)
        gateway_pb2_grpc.add_SinkServiceServicer_to_server(self.sinks, server)
        gateway_pb2_grpc.add_QuarantineServiceServicer_to_server(self.quarantine, server)
        gateway_pb2_grpc.add_AlertServiceServicer_to_server(self.alerts, server)
        gateway_pb2_grpc.add_AuditServiceServicer_to_server(self.audits, server)
        gateway_pb2_grpc.add_FleetServiceServicer_to_server(self.fleet, server)


def assemble(ground: Ground, options: GatewayOptions) -> GatewayServices:
    """Build the services on a fold that has reached the end of the log. Starts no task."""
    fold, fleet, enforce = ground.fold, ground.fold.fleet, options.enforce
    reader = StateReader(ground.follower, fold, ground.projector, options.away)
    gate = Gate(gateway_pb2.DESCRIPTOR, fold, ground.audit, enforce=enforce, places=options.secret_places)
    writer = RequestWriter(ground.follower, fleet, options.source)
    hosts = Hosts(ground.follower, fold, options.host_access)
    samples = Samples(hosts, fleet)
    reach = Reach(fleet, samples.kafka_id, options.bounds, enforce=enforce)
    teams = Teams(fleet, options.unknown_teams)
    requests = DaggerRequests(fleet, writer, Checks(options.checker), gate, reach, teams)
    masking = Masking(fleet, Provenance(fleet, ground.log, reach.ownership), requests.trace_origins)
    seconds = PreviewSeconds()
    tests = SinkTests(hosts, requests, gate)
    previews = Previews(hosts, fleet, requests, masking, seconds)
    daggers = dagger_service.DaggerParts(
        log=ground.log,
        follower=ground.follower,
        fold=fold,
        writer=writer,
        reader=reader,
        projection=ground.projection,
        hosts=hosts,
        samples=samples,
        heartbeats=ground.heartbeats,
        minutes=ground.minutes,
        requests=requests,
        previews=previews,
        query_tests=QueryTests(hosts, fleet, requests, masking, previews),
        reads=DaggerReads(fold, hosts, ground.heartbeats, requests, masking),
        vitals=ground.vitals,
        gate=gate,
        sink_tests=tests,
    )
    reads = QuarantineReads(ground.projection.database)
    replays = Replays(
        requests, writer, ground.quarantine_follower, reads, ground.quarantine, ground.log, fleet
    )
    allowances = RefusalAllowances(requests, writer, replays.find_event)
    return GatewayServices(
        gate=gate,
        daggers=DaggerService(daggers),
        catalog=CatalogService(
            fleet,
            writer,
            reader,
            samples,
            masking,
            ground.heartbeats,
            options.reference_places,
        ),
        access=AccessService(fleet, writer, reader, ground.heartbeats, seconds, reach, requests, masking),
        sinks=SinkService(fleet, writer, reader, reach, tests, masking, options.secret_places),
        quarantine=QuarantineService(
            quarantine_service.QuarantineParts(
                reader, ground.quarantine_follower, reads, masking, replays, allowances, hosts
            )
        ),
        alerts=AlertService(
            ground.alerts, fleet, options.away, heartbeats=ground.heartbeats, minutes=ground.minutes
        ),
        audits=AuditService(options.audit_topic),
        fleet=FleetService(fleet, writer, reader, hosts, ground.heartbeats),
    )
