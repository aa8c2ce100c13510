"""FleetService: lists the hosts of drivers, cordons and drains them, and records that one is gone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias, TypedDict

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
from daggerspec.limits import DEFAULT_DRIVER_MEMORY_MIB
from daggerspec.priority import is_critical
from daggerspec.protobuf import timestamp
from daggerspec.violation import Violation
from fleet import Answer, Fleet
from fleet.decide.drain import list_stays, takes_new
from fleet.decide.packing import foresee_process
from fleet.decide.placement import Candidate, describe_candidate, room_of
from fleet.fold import quotas
from fleet.fold.answers import about
from fleet.fold.cordons import Change
from fleet.fold.hosts import host_subject
from fleet.health.degradation import SHOWN

pb = gateway_pb2
LAUNCHES_WITHIN: Final = timedelta(seconds=20)
"""Time without a beat after which a host is not counted on for launches, as the leading scheduler does."""
HOST_ALIVE: Final = "HOST_ALIVE"
"""Reason of a loss that is refused because the host shows that it lives."""
_Cordoning: TypeAlias = pb.CordonHostRequest | pb.DrainHostRequest | pb.UncordonHostRequest


class _HostAnswer(TypedDict):
    """Fields that answers about one host have in common."""

    host: pb.Host
    daggers: list[pb.HostedDagger]


class FleetService(gateway_pb2_grpc.FleetServiceServicer):
    """Lists hosts, and appends what an administrator asks of one, or confirms."""

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
        hosts = [self._build_host(fleet, name) for name in fleet.host_names()]
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
        daggers = self._list_daggers(fleet, request.name)
        host = self._build_host(fleet, request.name)
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
        daggers = self._list_daggers(fleet, name)

        async def refuse_unless_gone() -> None:
            refusal = fleet.refuse_loss(event)
            if refusal is not None:
                raise refusal_error(refusal)
            await self._refuse_live_host(name, context)

        wrong = request_fields.sequence("epoch", request.epoch)
        sequence = await self._append(event, request, wrong, refuse_unless_gone)
        note(daggers=len(daggers))
        host = self._build_host(fleet, name)
        return pb.ConfirmHostGoneResponse(host=host, daggers=daggers, sequence=sequence)

    async def CordonHost(  # noqa: N802 - gRPC's name
        self, request: pb.CordonHostRequest, context: Context
    ) -> pb.CordonHostResponse:
        """Append HostCordoned. Raises: ApiError."""
        sequence = await self._change(events_pb2.HostCordoned, request)
        return pb.CordonHostResponse(**self._show(request.name), sequence=sequence)

    async def DrainHost(  # noqa: N802 - gRPC's name
        self, request: pb.DrainHostRequest, context: Context
    ) -> pb.DrainHostResponse:
        """Append HostDrainRequested. Raises: ApiError."""
        sequence = await self._change(events_pb2.HostDrainRequested, request)
        return pb.DrainHostResponse(**self._show(request.name), sequence=sequence)

    async def UncordonHost(  # noqa: N802 - gRPC's name
        self, request: pb.UncordonHostRequest, context: Context
    ) -> pb.UncordonHostResponse:
        """Append HostUncordoned. Raises: ApiError."""
        sequence = await self._change(events_pb2.HostUncordoned, request)
        return pb.UncordonHostResponse(**self._show(request.name), sequence=sequence)

    async def _change(self, kind: type[Change], request: _Cordoning) -> int:
        """Append what is asked of a host, and return its sequence. Raises: ApiError."""
        event = kind(meta=events_pb2.RequestMeta(actor=actor(), message=request.message), host=request.name)
        return await self._append(event, request)

    async def _append(
        self,
        event: Change | events_pb2.HostGone,
        request: _Cordoning | pb.ConfirmHostGoneRequest,
        wrong: Iterable[Violation] = (),
        check: Callable[[], Awaitable[None]] | None = None,
    ) -> int:
        """Append what a request asks of a host, and return its sequence; 0 where it is only checked.

        wrong: what else is wrong with the request. check: called for a host that the log knows, and refuses
        what cannot be. Raises: ApiError.
        """
        answer: Answer | None = self._writer.find_answer(request.request_id, (event,))
        if answer is None:
            refuse(
                [
                    *_validate_name(request.name),
                    *wrong,
                    *request_fields.message("message", request.message),
                    *request_fields.request_id("request_id", request.request_id),
                ]
            )
            if not self._fleet.knows_host(request.name):
                raise no_host(request.name, self._fleet)
            if check is not None:
                await check()
            if not request.validate_only:
                subject = host_subject(request.name)
                answer = await self._writer.write(subject, event, request.request_id, path="name")
        note(host=request.name, validate_only=request.validate_only)
        return answer.sequence if answer else 0

    def _show(self, name: str) -> _HostAnswer:
        daggers = self._list_daggers(self._fleet, name)
        return {"host": self._build_host(self._fleet, name), "daggers": daggers}

    async def _refuse_live_host(self, host: str, context: Context) -> None:
        """Check that a host is silent: no recent heartbeat, no scheduler that answers. Raises: ApiError."""
        last = self._heartbeats.host_heard(host)
        if last is not None and (silence := self._clock() - last) < SHOWN.silence:
            raise _build_alive_error(host, f"it was heard {max(silence.total_seconds(), 0):.0f} s ago")
        if await self._hosts.answers(host, context):
            raise _build_alive_error(host, "its scheduler answers")

    def _list_daggers(self, fleet: Fleet, host: str) -> list[pb.HostedDagger]:
        """List the daggers that have, or may have, a driver on a host, sorted by name."""
        stays = {
            dagger.name: full.error
            for dagger, full in list_stays(
                fleet,
                host,
                self._refuges(host),
                lambda dagger, other: foresee_process(fleet, dagger, other) is not None,
            )
        }
        keeps_state = fleet.standing(host).shares_checkpoints
        return [
            pb.HostedDagger(
                name=dagger.name,
                team=dagger.spec.team,
                phase=dagger.phase,
                keeps_state=keeps_state,
                critical=is_critical(dagger.spec),
                stays=stays.get(dagger.name),
            )
            for dagger in sorted(fleet.occupied_on(host), key=lambda dagger: dagger.name)
        ]

    def _refuges(self, host: str) -> list[Candidate]:
        """List the hosts that can go on with what runs on a host, as far as this gateway hears."""
        fleet, now = self._fleet, self._clock()
        if not fleet.standing(host).shares_checkpoints:
            return []
        return [
            describe_candidate(other, standing, room_of(standing, DEFAULT_DRIVER_MEMORY_MIB))
            for other, standing in sorted(fleet.standings.items())
            if other != host
            and standing.has_agent
            and takes_new(fleet, other)
            and standing.shares_checkpoints
            and (last := self._heartbeats.host_heard(other)) is not None
            and now - last < LAUNCHES_WITHIN
        ]

    def _build_host(self, fleet: Fleet, name: str) -> pb.Host:
        standing, last_heartbeat = fleet.standing(name), self._heartbeats.host_heard(name)
        host = pb.Host(
            name=name,
            epoch=standing.epoch,
            leads=fleet.leader is not None and fleet.leader.host == name,
            registered=standing.registered,
            register_time=timestamp(standing.register_time) if standing.register_time else None,
            heard_time=timestamp(last_heartbeat) if last_heartbeat else None,
            daggers=len(fleet.drivers.on(name).daggers),
            cordon=standing.cordon,
            room_left=_count_room(fleet, name),
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


def _count_room(fleet: Fleet, host: str) -> int | None:
    """Count the daggers that would fit on a host beside its own, if they need what those need on average."""
    standing = fleet.standing(host)
    if standing.registered is None or standing.is_gone:
        return None
    room, running = room_of(standing, DEFAULT_DRIVER_MEMORY_MIB), fleet.drivers.on(host).usage
    return quotas.count_alike(running, room)


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
        grpc.StatusCode.FAILED_PRECONDITION, HOST_ALIVE, text, {**about("host", host), "why": why}
    )
