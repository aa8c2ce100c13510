"""QuarantineService: what was set aside and what becomes of it, from the index of `daggers.quarantine`."""

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
from api_gateway.quarantine import allowing, asked, replays, state
from api_gateway.quarantine.allowing import Allowing
from api_gateway.quarantine.decoding import decoded
from api_gateway.quarantine.follower import QuarantineFollower, Unread
from api_gateway.quarantine.foresight import foreseen
from api_gateway.quarantine.place import Place
from api_gateway.quarantine.reads import Born, Listed, QuarantineReads
from api_gateway.quarantine.replays import Replays
from api_gateway.rpc import paging
from api_gateway.state.reader import Reader, no_database, say_degraded
from api_gateway.validate.dagger_requests import refuse
from chassis.errors import ApiError
from chassis.interceptors import Context
from chassis.logging import note
from daggerspec import fields
from daggerspec.sinks import called
from daggerspec.violation import Violation
from eventlog import topics
from fleet import Dagger, Fleet
from fleet.fold.answers import about

# How long an answer waits for the topic to say what it holds.
_PATIENCE_S: Final = 15.0
_KEPT: Final = timedelta(milliseconds=topics.QUARANTINE_KEPT_MS)
_SOON: Final = timedelta(hours=48)
_CONTENT: Final = ("value", "key", "row", "decoded_prefix", "sha256")
_LEAST_ID: Final = 3
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Parts:
    """What the service asks."""

    reader: Reader
    follower: QuarantineFollower
    reads: QuarantineReads
    masking: Masking
    replays: Replays
    allowing: Allowing
    hosts: Hosts


class QuarantineService(gateway_pb2_grpc.QuarantineServiceServicer):
    """Records that were set aside."""

    def __init__(self, parts: Parts, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._parts, self._clock = parts, clock

    async def ListQuarantined(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.ListQuarantinedRequest, context: Context
    ) -> gateway_pb2.ListQuarantinedResponse:
        """Records of one dagger, newest first, a page at a time. Raises: ApiError."""
        scope = _scope(request)
        page, wrong_page = paging.asked(request, scope)
        before, wrong_place = _place(page.after)
        refuse(
            [
                *fields.name("dagger", request.dagger),
                *wrong_page,
                *wrong_place,
                *asked.selection("selection", request.selection),
                *asked.states("states", request),
            ]
        )
        dagger, _ = await self._current(request.dagger, context)
        wanted = () if request.all_states else tuple(request.states) or state.NEEDED
        listed, behind = await _read(
            lambda: self._parts.reads.page(
                _born(dagger),
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
        await self._parts.masking.quarantined(dagger, answer.records, answer.statuses)
        if request.brief:
            for record in answer.records:
                for field in _CONTENT:
                    record.ClearField(field)
        answer.next_page_token = paging.token(":".join(map(str, behind)), scope) if behind else ""
        return answer

    async def SummarizeQuarantine(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.SummarizeQuarantineRequest, context: Context
    ) -> gateway_pb2.SummarizeQuarantineResponse:
        """How many records are open, of one dagger or of all that who asks may read. Raises: ApiError."""
        if request.dagger:
            refuse([*fields.name("dagger", request.dagger)])
            dagger, _ = await self._current(request.dagger, context)
            daggers = [dagger]
        else:
            fleet = await self._parts.reader.state(context, 0)
            await self._wait(context)
            living = (fleet.living(name) for name in sorted(fleet.daggers))
            daggers = [dagger for dagger in living if dagger is not None]
        expiring_ms = _ms(self._clock() - _KEPT + _SOON)
        answer = gateway_pb2.SummarizeQuarantineResponse()
        summed = await _read(
            lambda: [self._parts.reads.groups(_born(dagger), expiring_ms=expiring_ms) for dagger in daggers]
        )
        for groups in summed:
            answer.groups.extend(groups)
        return answer

    async def GetQuarantined(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.GetQuarantinedRequest, context: Context
    ) -> gateway_pb2.GetQuarantinedResponse:
        """One record, and what it holds. Raises: ApiError."""
        wrong = [*fields.name("dagger", request.dagger)]
        if not _LEAST_ID <= len(request.id) <= asked.MAX_CHARS:
            text = f"must have {_LEAST_ID} to {asked.MAX_CHARS} characters"
            wrong.append(Violation("id", text, "OUT_OF_RANGE"))
        refuse(wrong)
        dagger, fleet = await self._current(request.dagger, context)
        candidates = await _read(lambda: self._parts.reads.beginning(_born(dagger), request.id))
        if len(candidates) != 1:
            raise _not_one(request, len(candidates))
        (listed,) = candidates
        answer = gateway_pb2.GetQuarantinedResponse(record=listed.record, status=_status(listed))
        if await self._parts.masking.quarantined(dagger, [answer.record], [answer.status]):
            answer.undecodable = "it has sensitive fields that are not shown to you"
        else:
            answer.decoded, answer.undecodable = decoded(listed.record, fleet)
        return answer

    async def ReplayQuarantined(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.ReplayQuarantinedRequest, context: Context
    ) -> gateway_pb2.ReplayQuarantinedResponse:
        """Ask for a replay. Raises: ApiError."""
        refuse([*replays.replay_violations(request)])
        dagger, _ = await self._current(request.dagger, context)
        is_masked = await self._parts.masking.check_replay(
            dagger,
            lambda: _read(lambda: self._parts.reads.launches(_born(dagger), request.selection)),
            edits=bool(request.edits),
        )

        async def foresee(
            asked: events_pb2.QuarantineReplayRequested, edits: Sequence[telemetry_pb2.QuarantineEdited]
        ) -> Sequence[gateway_pb2.QuarantineForecast] | None:
            forecast = await foreseen(self._parts.hosts, dagger, asked, edits, context)
            for kind in forecast or () if is_masked else ():
                kind.detail = MASKED  # it may say when a record was, or what stands in it
            return forecast

        named = called(dagger.spec.sinks)
        return await self._parts.replays.replay(request, _born(dagger), named, foresee)

    async def DiscardQuarantined(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.DiscardQuarantinedRequest, context: Context
    ) -> gateway_pb2.DiscardQuarantinedResponse:
        """Discard records. Raises: ApiError."""
        refuse([*replays.discard_violations(request)])
        dagger, _ = await self._current(request.dagger, context)
        return await self._parts.replays.discard(request, _born(dagger))

    async def AllowRefusals(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.AllowRefusalsRequest, context: Context
    ) -> gateway_pb2.AllowRefusalsResponse:
        """Let sinks refuse as many rows as they like for a while. Raises: ApiError."""
        refuse([*allowing.violations(request)])
        await self._parts.reader.state(context, 0)
        return await self._parts.allowing.allow(request)

    async def GetReplay(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.GetReplayRequest, context: Context
    ) -> gateway_pb2.GetReplayResponse:
        """How far a replay is. Raises: ApiError."""
        refuse([*fields.name("dagger", request.dagger)])
        dagger, _ = await self._current(request.dagger, context)
        return await self._parts.replays.told(request, dagger)

    async def _current(self, name: str, context: Context) -> tuple[Dagger, Fleet]:
        """A dagger, once its records are in the index. Raises: ApiError."""
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
            missing = await self._parts.follower.caught_up(patience_s)
        except Unread as error:
            raise replays.unavailable(f"cannot be read now: {error}") from error
        if missing:
            say_degraded(context, f"{missing} records of {topics.QUARANTINE} are not listed yet")


def _born(dagger: Dagger) -> Born:
    # an earlier dagger of this name had its own records; its launches came before this one was created
    return Born(dagger.name, dagger.create_sequence)


async def _read(work: Callable[[], T]) -> T:
    try:
        return await asyncio.to_thread(work)
    except SQLAlchemyError as error:
        raise no_database(type(error).__name__) from error


def _status(listed: Listed) -> gateway_pb2.QuarantineStatus:
    became = listed.became
    status = gateway_pb2.QuarantineStatus(
        state=became.state,
        attempts=became.attempts,
        reason=became.reason,
        detail=became.why,
        replay_id=became.replay,
    )
    status.expire_time.FromMilliseconds(listed.time_ms + _ms_of(_KEPT))
    return status


def _ms_of(span: timedelta) -> int:
    return span // timedelta(milliseconds=1)


def _ms(time: datetime) -> int:
    return round(time.timestamp() * 1_000)


def _not_one(request: gateway_pb2.GetQuarantinedRequest, candidates: int) -> ApiError:
    metadata = {**about("dagger", request.dagger), "id": request.id}
    if candidates:
        text = f"several records of dagger {request.dagger} have an id that begins with {request.id}"
        return ApiError(grpc.StatusCode.FAILED_PRECONDITION, "ID_NOT_UNIQUE", text, metadata)
    text = f"dagger {request.dagger} has no record {request.id} in the quarantine, or no more"
    return ApiError(grpc.StatusCode.NOT_FOUND, "NOT_FOUND", text, metadata)


def _scope(request: gateway_pb2.ListQuarantinedRequest) -> str:
    """What a page token is good for."""
    chosen = gateway_pb2.ListQuarantinedRequest(
        selection=request.selection, states=request.states, all_states=request.all_states
    ).SerializeToString(deterministic=True)
    return f"{request.dagger} {chosen.hex()}" if chosen else request.dagger


def _place(last: str) -> tuple[Place | None, Sequence[Violation]]:
    """The place a page begins behind; None for the first."""
    if not last:
        return None, []
    try:
        time_ms, offset, partition = map(int, last.split(":"))
    except ValueError:
        return None, [paging.unreadable()]
    return (time_ms, offset, partition), []
