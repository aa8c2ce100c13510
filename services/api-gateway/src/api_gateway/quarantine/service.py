"""QuarantineService: list, replay and discard quarantined records, from the index of `daggers.quarantine`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

import grpc
from daggers.v1 import events_pb2, gateway_pb2, gateway_pb2_grpc, telemetry_pb2
from sqlalchemy.exc import SQLAlchemyError

from api_gateway.auth.masking import MASKED, Masking
from api_gateway.hosts.client import Hosts
from api_gateway.not_found import no_dagger
from api_gateway.quarantine import allowing, call_checks, replays, state
from api_gateway.quarantine.allowing import RefusalAllowances
from api_gateway.quarantine.decoding import decode
from api_gateway.quarantine.follower import QuarantineFollower, TopicUnreadable
from api_gateway.quarantine.foresight import forecast_replay
from api_gateway.quarantine.place import Place
from api_gateway.quarantine.reads import DaggerLife, ListedRecord, QuarantineReads
from api_gateway.quarantine.replays import Replays
from api_gateway.rpc import paging
from api_gateway.state.reader import StateReader, database_error, set_degraded
from api_gateway.validate.dagger_requests import refuse
from chassis.errors import ApiError
from chassis.interceptors import Context
from chassis.logging import note
from daggerspec import fields
from daggerspec.sinks import display_names
from daggerspec.violation import Violation
from eventlog import topics
from fleet import Dagger, Fleet
from fleet.fold.answers import about

# Longest wait of a call for the topic's bounds.
_PATIENCE_S: Final = 15.0
_RETENTION: Final = timedelta(milliseconds=topics.QUARANTINE_KEPT_MS)
_SOON: Final = timedelta(hours=48)
_CONTENT: Final = ("value", "key", "row", "decoded_prefix", "sha256")
_LEAST_ID: Final = 3
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class QuarantineParts:
    """Dependencies of the service."""

    reader: StateReader
    follower: QuarantineFollower
    reads: QuarantineReads
    masking: Masking
    replays: Replays
    allowing: RefusalAllowances
    hosts: Hosts


class QuarantineService(gateway_pb2_grpc.QuarantineServiceServicer):
    """Serves quarantined records."""

    def __init__(
        self, parts: QuarantineParts, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._parts, self._clock = parts, clock

    async def ListQuarantined(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.ListQuarantinedRequest, context: Context
    ) -> gateway_pb2.ListQuarantinedResponse:
        """List records of one dagger, newest first, a page at a time. Raises: ApiError."""
        scope = _scope(request)
        page, wrong_page = paging.read_page(request, scope)
        before, wrong_place = _place(page.after)
        refuse(
            [
                *fields.name("dagger", request.dagger),
                *wrong_page,
                *wrong_place,
                *call_checks.selection_violations("selection", request.selection),
                *call_checks.state_violations("states", request),
            ]
        )
        dagger, _ = await self._current(request.dagger, context)
        wanted = () if request.all_states else tuple(request.states) or state.NEEDED
        listed, behind = await _read(
            lambda: self._parts.reads.page(
                _life_of(dagger),
                before=before,
                limit=page.size,
                size=paging.MAX_ANSWER_BYTES,
                states=wanted,
                selection=request.selection,
            )
        )
        note(records=len(listed))
        answer = gateway_pb2.ListQuarantinedResponse(
            records=[entry.record for entry in listed], statuses=[_status(entry) for entry in listed]
        )
        await self._parts.masking.mask_quarantined(dagger, answer.records, answer.statuses)
        if request.brief:
            for record in answer.records:
                for field in _CONTENT:
                    record.ClearField(field)
        answer.next_page_token = paging.token(":".join(map(str, behind)), scope) if behind else ""
        return answer

    async def SummarizeQuarantine(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.SummarizeQuarantineRequest, context: Context
    ) -> gateway_pb2.SummarizeQuarantineResponse:
        """Count open records, of one dagger or of all that the caller may read. Raises: ApiError."""
        if request.dagger:
            refuse([*fields.name("dagger", request.dagger)])
            dagger, _ = await self._current(request.dagger, context)
            daggers = [dagger]
        else:
            fleet = await self._parts.reader.state(context, 0)
            await self._wait(context)
            living = (fleet.living(name) for name in sorted(fleet.daggers))
            daggers = [dagger for dagger in living if dagger is not None]
        expiring_ms = _ms(self._clock() - _RETENTION + _SOON)
        answer = gateway_pb2.SummarizeQuarantineResponse()
        summed = await _read(
            lambda: [
                self._parts.reads.groups(_life_of(dagger), expiring_ms=expiring_ms) for dagger in daggers
            ]
        )
        for groups in summed:
            answer.groups.extend(groups)
        return answer

    async def GetQuarantined(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.GetQuarantinedRequest, context: Context
    ) -> gateway_pb2.GetQuarantinedResponse:
        """Return one record with its decoded content. Raises: ApiError."""
        wrong = [*fields.name("dagger", request.dagger)]
        if not _LEAST_ID <= len(request.id) <= call_checks.MAX_CHARS:
            text = f"must have {_LEAST_ID} to {call_checks.MAX_CHARS} characters"
            wrong.append(Violation("id", text, "OUT_OF_RANGE"))
        refuse(wrong)
        dagger, fleet = await self._current(request.dagger, context)
        candidates = await _read(lambda: self._parts.reads.beginning(_life_of(dagger), request.id))
        if len(candidates) != 1:
            raise _id_error(request, len(candidates))
        (listed,) = candidates
        answer = gateway_pb2.GetQuarantinedResponse(record=listed.record, status=_status(listed))
        if await self._parts.masking.mask_quarantined(dagger, [answer.record], [answer.status]):
            answer.undecodable = "it has sensitive fields that are not shown to you"
        else:
            answer.decoded, answer.undecodable = decode(listed.record, fleet)
        return answer

    async def ReplayQuarantined(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.ReplayQuarantinedRequest, context: Context
    ) -> gateway_pb2.ReplayQuarantinedResponse:
        """Request a replay, or forecast it. Raises: ApiError."""
        refuse([*replays.replay_violations(request)])
        dagger, _ = await self._current(request.dagger, context)
        is_masked = await self._parts.masking.check_replay(
            dagger,
            lambda: _read(lambda: self._parts.reads.launches(_life_of(dagger), request.selection)),
            edits=bool(request.edits),
        )

        async def foresee(
            replay_request: events_pb2.QuarantineReplayRequested,
            edits: Sequence[telemetry_pb2.QuarantineEdited],
        ) -> Sequence[gateway_pb2.QuarantineForecast] | None:
            forecast = await forecast_replay(self._parts.hosts, dagger, replay_request, edits, context)
            for kind in forecast or () if is_masked else ():
                kind.detail = MASKED  # it may quote a record's time or content
            return forecast

        sink_names = display_names(dagger.spec.sinks)
        return await self._parts.replays.replay(request, _life_of(dagger), sink_names, foresee)

    async def DiscardQuarantined(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.DiscardQuarantinedRequest, context: Context
    ) -> gateway_pb2.DiscardQuarantinedResponse:
        """Discard records. Raises: ApiError."""
        refuse([*replays.discard_violations(request)])
        dagger, _ = await self._current(request.dagger, context)
        return await self._parts.replays.discard(request, _life_of(dagger))

    async def AllowRefusals(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.AllowRefusalsRequest, context: Context
    ) -> gateway_pb2.AllowRefusalsResponse:
        """Allow a dagger's sinks to refuse any number of rows for a while. Raises: ApiError."""
        refuse([*allowing.violations(request)])
        await self._parts.reader.state(context, 0)
        return await self._parts.allowing.allow(request)

    async def GetReplay(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.GetReplayRequest, context: Context
    ) -> gateway_pb2.GetReplayResponse:
        """Return the progress of a replay. Raises: ApiError."""
        refuse([*fields.name("dagger", request.dagger)])
        dagger, _ = await self._current(request.dagger, context)
        return await self._parts.replays.get_replay(request, dagger)

    async def _current(self, name: str, context: Context) -> tuple[Dagger, Fleet]:
        """Return a dagger once its records are in the index. Raises: ApiError."""
        fleet = await self._parts.reader.state(context, 0)
        dagger = fleet.living(name)
        if dagger is None:
            raise no_dagger(name, fleet)
        await self._wait(context)
        return dagger, fleet

    async def _wait(self, context: Context) -> None:
        remaining = context.time_remaining()
        patience_s = _PATIENCE_S if remaining is None else min(_PATIENCE_S, remaining / 2)
        try:
            missing = await self._parts.follower.wait_until_caught_up(patience_s)
        except TopicUnreadable as error:
            raise replays.topic_unavailable(f"cannot be read now: {error}") from error
        if missing:
            set_degraded(context, f"{missing} records of {topics.QUARANTINE} are not listed yet")


def _life_of(dagger: Dagger) -> DaggerLife:
    # an earlier dagger of this name had its own records; its launches came before this one was created
    return DaggerLife(dagger.name, dagger.create_sequence)


async def _read(work: Callable[[], T]) -> T:
    try:
        return await asyncio.to_thread(work)
    except SQLAlchemyError as error:
        raise database_error(type(error).__name__) from error


def _status(listed: ListedRecord) -> gateway_pb2.QuarantineStatus:
    record_state = listed.state
    status = gateway_pb2.QuarantineStatus(
        state=record_state.state,
        attempts=record_state.attempts,
        reason=record_state.reason,
        detail=record_state.why,
        replay_id=record_state.replay,
    )
    status.expire_time.FromMilliseconds(listed.time_ms + _ms_of(_RETENTION))
    return status


def _ms_of(span: timedelta) -> int:
    return span // timedelta(milliseconds=1)


def _ms(time: datetime) -> int:
    return round(time.timestamp() * 1_000)


def _id_error(request: gateway_pb2.GetQuarantinedRequest, candidates: int) -> ApiError:
    metadata = {**about("dagger", request.dagger), "id": request.id}
    if candidates:
        text = f"several records of dagger {request.dagger} have an id that begins with {request.id}"
        return ApiError(grpc.StatusCode.FAILED_PRECONDITION, "ID_NOT_UNIQUE", text, metadata)
    text = f"dagger {request.dagger} has no record {request.id} in the quarantine, or no more"
    return ApiError(grpc.StatusCode.NOT_FOUND, "NOT_FOUND", text, metadata)


def _scope(request: gateway_pb2.ListQuarantinedRequest) -> str:
    """Return the text that a page token is valid for: dagger, selection and states."""
    chosen = gateway_pb2.ListQuarantinedRequest(
        selection=request.selection, states=request.states, all_states=request.all_states
    ).SerializeToString(deterministic=True)
    return f"{request.dagger} {chosen.hex()}" if chosen else request.dagger


def _place(last: str) -> tuple[Place | None, Sequence[Violation]]:
    """Parse the place that a page begins behind; None for the first page."""
    if not last:
        return None, []
    try:
        time_ms, offset, partition = map(int, last.split(":"))
    except ValueError:
        return None, [paging.unreadable()]
    return (time_ms, offset, partition), []
