"""FleetService: lists the hosts of drivers, and records a person's confirmation that one is gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import grpc
from daggers.v1 import events_pb2, gateway_pb2, gateway_pb2_grpc

from api_gateway.hosts.client import Hosts
from api_gateway.not_found import no_host
from api_gateway.state.heartbeat_cache import HeartbeatCache
from api_gateway.state.reader import StateReader
from api_gateway.state.writer import RequestWriter, refusal_error
from api_gateway.validate import request_fields
from api_gateway.validate.dagger_requests import refuse
from chassis.errors import ApiError
from chassis.interceptors import Context, actor
from chassis.logging import note
from daggerspec.protobuf import timestamp
from daggerspec.violation import Violation
from fleet import Fleet
from fleet.fold.answers import about
from fleet.fold.hosts import host_subject
from fleet.health.degradation import SHOWN

pb = gateway_pb2


class FleetService(gateway_pb2_grpc.FleetServiceServicer):
    """Lists hosts, and appends HostGone when an administrator confirms that one is gone."""

    def __init__(
        self,
        fleet: Fleet,
        writer: RequestWriter,
        reader: StateReader,
        hosts: Hosts,
        heartbeats: HeartbeatCache,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._fleet, self._writer, self._reader = fleet, writer, reader
        self._hosts, self._heartbeats, self._clock = hosts, heartbeats, clock

    async def ListHosts(  # noqa: N802 - gRPC's name
        self, request: pb.ListHostsRequest, context: Context
    ) -> pb.ListHostsResponse:
        """List all hosts of the control topic, sorted by name. Raises: ApiError."""
        refuse(list(request_fields.sequence("min_sequence", request.min_sequence)))
        fleet = await self._reader.state(context, request.min_sequence)
        daggers = Counter(fleet.host_of(fleet.daggers[name]) for name in fleet.occupied)
        hosts = [self._build_host(fleet, name, daggers[name]) for name in fleet.host_names()]
        return pb.ListHostsResponse(hosts=hosts, sequence=fleet.sequence)

    async def GetHost(  # noqa: N802 - gRPC's name
        self, request: pb.GetHostRequest, context: Context
    ) -> pb.GetHostResponse:
        """Return a host and its daggers. Raises: ApiError."""
        refuse(
            [*_validate_name(request.name), *request_fields.sequence("min_sequence", request.min_sequence)]
        )
        fleet = await self._reader.state(context, request.min_sequence)
        if not fleet.knows_host(request.name):
            raise no_host(request.name, fleet)
        daggers = _list_daggers(fleet, request.name)
        host = self._build_host(fleet, request.name, len(daggers))
        return pb.GetHostResponse(host=host, daggers=daggers, sequence=fleet.sequence)

    async def ConfirmHostGone(  # noqa: N802 - gRPC's name
        self, request: pb.ConfirmHostGoneRequest, context: Context
    ) -> pb.ConfirmHostGoneResponse:
        """Append HostGone, unless a scheduler or driver there shows that the host lives. Raises: ApiError."""
        fleet, name = self._fleet, request.name
        event = events_pb2.HostGone(
            meta=events_pb2.RequestMeta(actor=actor(), message=request.message),
            host=name,
            epoch=request.epoch if request.HasField("epoch") else fleet.standing(name).epoch,
            cause=events_pb2.HOST_GONE_CAUSE_PERSON,
        )
        daggers = _list_daggers(fleet, name)
        answer = self._writer.find_answer(request.request_id, (event,))
        if answer is None:
            refuse(
                [
                    *_validate_name(name),
                    *request_fields.sequence("epoch", request.epoch),
                    *request_fields.message("message", request.message),
                    *request_fields.request_id("request_id", request.request_id),
                ]
            )
            if not fleet.knows_host(name):
                raise no_host(name, fleet)
            refusal = fleet.refuse_loss(event)
            if refusal is not None:
                raise refusal_error(refusal)
            await self._refuse_live_host(name, context)
            if not request.validate_only:
                answer = await self._writer.write(host_subject(name), event, request.request_id, path="name")
        note(host=name, daggers=len(daggers), validate_only=request.validate_only)
        host = self._build_host(fleet, name, len(daggers))
        sequence = answer.sequence if answer else 0
        return pb.ConfirmHostGoneResponse(host=host, daggers=daggers, sequence=sequence)

    async def _refuse_live_host(self, host: str, context: Context) -> None:
        """Check that a host is silent: no recent heartbeat, no scheduler that answers. Raises: ApiError."""
        last = self._heartbeats.host_heard(host)
        if last is not None and (silence := self._clock() - last) < SHOWN.silence:
            raise _build_alive_error(host, f"it was heard {max(silence.total_seconds(), 0):.0f} s ago")
        if await self._hosts.answers(host, context):
            raise _build_alive_error(host, "its scheduler answers")

    def _build_host(self, fleet: Fleet, name: str, daggers: int) -> pb.Host:
        standing, last_heartbeat = fleet.standing(name), self._heartbeats.host_heard(name)
        host = pb.Host(
            name=name,
            epoch=standing.epoch,
            leads=fleet.leader is not None and fleet.leader.host == name,
            registered=standing.registered,
            register_time=timestamp(standing.register_time) if standing.register_time else None,
            heard_time=timestamp(last_heartbeat) if last_heartbeat else None,
            daggers=daggers,
        )
        if standing.is_gone and (loss := standing.loss) is not None:
            host.gone.CopyFrom(
                pb.HostLoss(
                    time=timestamp(loss.time),
                    actor=loss.event.meta.actor,
                    message=loss.event.meta.message,
                    cause=loss.event.cause,
                    sequence=loss.sequence,
                )
            )
        return host


def _list_daggers(fleet: Fleet, host: str) -> list[pb.HostedDagger]:
    """List the daggers that have, or may have, a driver on a host, sorted by name."""
    registered = fleet.standing(host).registered
    keeps_state = registered is not None and registered.shared_checkpoints
    return [
        pb.HostedDagger(name=dagger.name, team=dagger.spec.team, phase=dagger.phase, keeps_state=keeps_state)
        for dagger in sorted(fleet.occupied_on(host), key=lambda dagger: dagger.name)
    ]


def _validate_name(name: str) -> Iterator[Violation]:
    if not name:
        yield Violation("name", "is needed: say which host", "REQUIRED")
    yield from request_fields.message("name", name)


def _build_alive_error(host: str, why: str) -> ApiError:
    text = (
        f"host {host} is there: {why}. Only a host that is silent can be gone: stop its scheduler and the"
        f" drivers on it, wait {SHOWN.silence.total_seconds():.0f} s, and say so again"
    )
    return ApiError(
        grpc.StatusCode.FAILED_PRECONDITION, "HOST_ALIVE", text, {**about("host", host), "why": why}
    )
