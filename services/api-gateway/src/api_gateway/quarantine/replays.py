"""Append replays and discards of quarantined records to the log, and discards to the topic."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, TypeAlias, TypeVar

import grpc
from daggers.v1 import events_pb2, gateway_pb2, telemetry_pb2
from google.protobuf.message import Message
from sqlalchemy.exc import SQLAlchemyError

from api_gateway.quarantine import call_checks, edits
from api_gateway.quarantine.follower import AWAY, QuarantineFollower
from api_gateway.quarantine.reads import DaggerLife, QuarantineReads, ReplayGroup
from api_gateway.quarantine.topic import QuarantineTopic
from api_gateway.state.reader import database_error
from api_gateway.state.writer import RequestWriter
from api_gateway.validate import request_fields
from api_gateway.validate.dagger_requests import DaggerRequests, refuse
from api_gateway.watch_limits import damage_error
from api_gateway.watch_limits import unavailable_error as log_unavailable
from chassis.errors import ApiError
from chassis.interceptors import actor
from chassis.logging import note
from daggerspec import fields, setaside
from daggerspec.violation import Violation
from eventlog import Draft, Log, LogDamaged, LogUnavailable, topics
from fleet import Dagger, Fleet
from fleet.fold.answers import about
from fleet.fold.replay import Replay

_SINK: Final = "sink"
T = TypeVar("T")
# Forecasts a replay of records with these edits; None where no host can.
Foresee: TypeAlias = Callable[
    [events_pb2.QuarantineReplayRequested, Sequence[telemetry_pb2.QuarantineEdited]],
    Awaitable[Sequence[gateway_pb2.QuarantineForecast] | None],
]
_O = telemetry_pb2.QuarantineOutcome
# Outcomes that the index alone can forecast: outcome, reason, what to do.
_TRUNCATED: Final = (
    telemetry_pb2.QUARANTINE_OUTCOME_NOT_REPLAYABLE,
    "TRUNCATED",
    "They were too large to be kept whole.",
)
_WORN: Final = (
    telemetry_pb2.QUARANTINE_OUTCOME_NOT_REPLAYABLE,
    "NEEDS_FORCE",
    "They have failed five times or more: mend what refuses them, and replay with force.",
)
_SINK_GONE: Final = (
    telemetry_pb2.QUARANTINE_OUTCOME_NOT_REPLAYABLE,
    "SINK_GONE",
    "The dagger has no sink of that name any more: give one the name, or discard them.",
)
_NEVER_ROWS: Final = (
    telemetry_pb2.QUARANTINE_OUTCOME_REPLAYED,
    "UNSEEN",
    "They never were rows: only the host of the driver tells whether they can be read now, and whether their"
    " windows are closed (LATE).",
)
_REPLAYED: Final = (telemetry_pb2.QUARANTINE_OUTCOME_REPLAYED, "", "")


class Replays:
    """Requests replays and discards, and reports replays. Raises, from every method: ApiError."""

    def __init__(
        self,
        requests: DaggerRequests,
        writer: RequestWriter,
        follower: QuarantineFollower,
        reads: QuarantineReads,
        topic: QuarantineTopic,
        log: Log,
        fleet: Fleet,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._requests, self._writer = requests, writer
        self._follower, self._reads, self._topic = follower, reads, topic
        self._log, self._fleet, self._clock = log, fleet, clock

    async def replay(
        self,
        request: gateway_pb2.ReplayQuarantinedRequest,
        of: DaggerLife,
        sink_names: Collection[str],
        foresee: Foresee | None = None,
    ) -> gateway_pb2.ReplayQuarantinedResponse:
        """Request a replay of the records that are selected now; request nothing where there are none.

        `sink_names`: the dagger's sinks now. `foresee` examines the records of a dry run.
        """
        id_ = request.request_id or uuid.uuid4().hex
        edited_records = await self._build_edits(request, of, id_)
        digests = {record.id: setaside.digest(record) for _, record in edited_records}
        before = await self.find_event(request.request_id)
        if isinstance(before, events_pb2.QuarantineReplayRequested) and _same(before, request, digests):
            answer_before = self._writer.find_answer(id_, (before,))
            return gateway_pb2.ReplayQuarantinedResponse(
                replay_id=id_, sequence=answer_before.sequence if answer_before else 0, records=before.records
            )
        ends = self._follower.ends
        groups = await _read(lambda: self._reads.replay_groups(of, request.selection))
        first = min((group.first for group in groups), default=0)
        starts = await _read(lambda: self._reads.starts(of, first))
        forecast = list(_forecast(groups, sink_names, force=request.force))
        records = sum(group.records for group in groups)
        event = events_pb2.QuarantineReplayRequested(
            meta=events_pb2.RequestMeta(actor=actor()),
            name=of.dagger,
            replay_id=id_,
            selection=request.selection,
            up_to={number: ends.get(number, 0) for number in starts},
            starts=starts,
            force=request.force,
            recompute=request.recompute,
            records=records,
            edits=digests,
            computes=any(group.stage != _SINK for group in groups),
        )
        answer = gateway_pb2.ReplayQuarantinedResponse(records=records, forecast=forecast)
        if records:
            self._requests.decide(event)
        if request.validate_only and records and foresee is not None:
            host_forecast = await foresee(event, [edit for _, edit in edited_records])
            if host_forecast is not None:
                del answer.forecast[:]
                answer.forecast.extend(host_forecast)
        if request.validate_only or not records:
            return answer
        # before the request: a replay looks its edits up by the digests in the request
        for partition, edit in edited_records:
            await self._append(partition, edit, f"edit/{id_}/{edit.id}", of.dagger)
        written = await self._writer.write(of.dagger, event, id_, path="selection")
        note(replay=id_, records=records, edits=len(edited_records))
        answer.replay_id, answer.sequence = id_, written.sequence
        return answer

    async def discard(
        self, request: gateway_pb2.DiscardQuarantinedRequest, of: DaggerLife
    ) -> gateway_pb2.DiscardQuarantinedResponse:
        """Discard the records that are selected now; request nothing where there are none."""
        id_ = request.request_id or uuid.uuid4().hex
        before = await self.find_event(request.request_id)
        if isinstance(before, events_pb2.QuarantineDiscardRequested) and _repeats(before, request):
            answer_before = self._writer.find_answer(id_, (before,))
            sequence = answer_before.sequence if answer_before else 0
            await self._append_discard(before, sequence, id_, of)
            return gateway_pb2.DiscardQuarantinedResponse(sequence=sequence, records=before.records)
        up_to = self._follower.ends
        counts = await _read(lambda: self._reads.open_in(of, request.selection))
        answer = gateway_pb2.DiscardQuarantinedResponse(records=sum(counts.values()))
        if not counts:
            return answer
        event = events_pb2.QuarantineDiscardRequested(
            meta=events_pb2.RequestMeta(actor=actor(), message=request.reason),
            name=of.dagger,
            selection=request.selection,
            up_to={number: up_to[number] for number in counts if number in up_to},
            records=answer.records,
        )
        self._requests.decide(event)
        if request.validate_only:
            return answer
        written = await self._writer.write(of.dagger, event, id_, path="selection")
        note(records=answer.records)
        await self._append_discard(event, written.sequence, id_, of)
        answer.sequence = written.sequence
        return answer

    async def get_replay(
        self, request: gateway_pb2.GetReplayRequest, dagger: Dagger
    ) -> gateway_pb2.GetReplayResponse:
        """Return the progress of a replay: of the one that is named, or the newest."""
        newest = dagger.replay
        id_ = request.replay_id or (newest.id if newest else "")
        outcomes = await _read(lambda: self._reads.outcomes(dagger.name, id_)) if id_ else {}
        replay = newest if newest is not None and newest.id == id_ else None
        if replay is None and not outcomes:
            text = (
                f"dagger {dagger.name} has no replay {id_}" if id_ else f"dagger {dagger.name} has no replay"
            )
            raise ApiError(grpc.StatusCode.NOT_FOUND, "NOT_FOUND", text, about("dagger", dagger.name))
        return _build_progress(id_, replay, outcomes)

    async def find_event(self, request_id: str) -> Message | None:
        """Return the event of an earlier request by its id; None for a new one. A repeated call uses its
        selection.
        """
        answer = self._fleet.answers.get(request_id) if request_id else None
        if answer is None:
            return None
        try:
            (record,) = await self._log.read([answer.sequence])
        except LogUnavailable as error:
            raise log_unavailable(error, answer.sequence) from error
        except LogDamaged as error:
            raise damage_error(str(error), answer.sequence) from error
        return record.message

    async def _append_discard(
        self, event: events_pb2.QuarantineDiscardRequested, sequence: int, id_: str, of: DaggerLife
    ) -> None:
        """Write a discard to the partitions of its records, where the fold of their states reads it."""
        discarded = telemetry_pb2.QuarantineDiscarded(
            dagger=event.name,
            detail=event.meta.message,
            sequence=sequence,
            selection=event.selection,
            up_to=event.up_to,
            actor=event.meta.actor,
            created=of.since,
        )
        for partition in sorted(event.up_to):
            await self._append(partition, discarded, f"discard/{id_}", event.name)

    async def _append(
        self,
        partition: int,
        event: telemetry_pb2.QuarantineDiscarded | telemetry_pb2.QuarantineEdited,
        id_: str,
        dagger: str,
    ) -> None:
        """Append an event to the topic with the time of now. Raises: ApiError."""
        now = self._clock()
        event.time.FromDatetime(now)
        value = event.SerializeToString(deterministic=True)
        draft = Draft(id_, "/api-gateway", dagger, now, event)
        try:
            await self._topic.append(partition, dagger.encode(), draft.headers(), value)
        except AWAY as error:
            kind = "discard" if isinstance(event, telemetry_pb2.QuarantineDiscarded) else "edit"
            raise topic_unavailable(
                f"did not take the {kind}, which may be asked for again: {type(error).__name__}"
            ) from error

    async def _build_edits(
        self, request: gateway_pb2.ReplayQuarantinedRequest, of: DaggerLife, id_: str
    ) -> list[tuple[int, telemetry_pb2.QuarantineEdited]]:
        """Build the edited records, each with its partition. Raises: ApiError."""
        edited_records: list[tuple[int, telemetry_pb2.QuarantineEdited]] = []
        wrong: list[Violation] = []
        for number, edit in enumerate(request.edits):
            path = f"edits[{number}]"
            records = await _read(lambda: self._reads.beginning(of, edit.id))  # noqa: B023 - awaited
            listed = next((record for record in records if record.record.id == edit.id), None)
            if listed is None:
                text = f"is no record of dagger {of.dagger} in the quarantine, or no more"
                wrong.append(Violation(f"{path}.id", text, "NOT_FOUND"))
                continue
            edited = edits.build_edit(path, edit, listed.record, self._fleet)
            if isinstance(edited, telemetry_pb2.QuarantineEdited):
                edited.dagger, edited.replay_id = of.dagger, id_
                edited_records.append((listed.partition, edited))
            else:
                wrong += edited
        refuse(wrong)
        return edited_records


def replay_violations(request: gateway_pb2.ReplayQuarantinedRequest) -> Iterator[Violation]:
    """Yield what is wrong with a call for a replay."""
    yield from fields.name("dagger", request.dagger)
    yield from call_checks.selection_violations("selection", request.selection)
    yield from edits.violations(request)
    yield from request_fields.request_id("request_id", request.request_id)


def discard_violations(request: gateway_pb2.DiscardQuarantinedRequest) -> Iterator[Violation]:
    """Yield what is wrong with a call for a discard."""
    yield from fields.name("dagger", request.dagger)
    yield from call_checks.selection_violations("selection", request.selection)
    if not request.reason.strip():
        yield Violation("reason", "is needed: say why, for those who come after", "REQUIRED")
    yield from request_fields.message("reason", request.reason)
    yield from request_fields.request_id("request_id", request.request_id)


def topic_unavailable(why: str) -> ApiError:
    """Build the error for a topic that cannot be used now."""
    return ApiError(
        grpc.StatusCode.UNAVAILABLE,
        "QUARANTINE_UNAVAILABLE",
        f"topic {topics.QUARANTINE} {why}",
        {"topic": topics.QUARANTINE},
    )


def _same(
    event: events_pb2.QuarantineReplayRequested,
    request: gateway_pb2.ReplayQuarantinedRequest,
    digests: Mapping[str, bytes],
) -> bool:
    return (event.selection, event.force, event.recompute, dict(event.edits)) == (
        request.selection,
        request.force,
        request.recompute,
        digests,
    )


def _repeats(
    event: events_pb2.QuarantineDiscardRequested, request: gateway_pb2.DiscardQuarantinedRequest
) -> bool:
    return (event.selection, event.meta.message) == (request.selection, request.reason)


def _forecast(
    groups: Sequence[ReplayGroup], sink_names: Collection[str], *, force: bool
) -> Iterator[gateway_pb2.QuarantineForecast]:
    """Forecast the records' outcomes by what the index says, replayed ones first."""
    counts: dict[tuple[_O.ValueType, str, str], int] = {}
    for group in groups:
        expected = _forecast_group(group, sink_names, force=force)
        counts[expected] = counts.get(expected, 0) + group.records
    for (outcome, reason, detail), records in sorted(counts.items()):
        yield gateway_pb2.QuarantineForecast(outcome=outcome, reason=reason, records=records, detail=detail)


def _forecast_group(
    group: ReplayGroup, sink_names: Collection[str], *, force: bool
) -> tuple[_O.ValueType, str, str]:
    """Return the forecast for a group, by the rules of the replay in their order."""
    if group.needs_force and not force:
        return _WORN
    if group.stage == _SINK and group.sink not in sink_names:
        return _SINK_GONE
    if group.stage != _SINK:
        return _NEVER_ROWS
    return _TRUNCATED if group.truncated else _REPLAYED


def _build_progress(
    id_: str, replay: Replay | None, outcomes: Mapping[str, int]
) -> gateway_pb2.GetReplayResponse:
    answer = gateway_pb2.GetReplayResponse(replay_id=id_, outcomes=outcomes, finished=True)
    if replay is None:
        answer.records = sum(answer.outcomes.values())
        return answer
    answer.finished = replay.finished is not None
    if replay.finished is not None:
        answer.outcomes.update(replay.finished.outcomes)
        if replay.finished.HasField("error"):
            answer.error.CopyFrom(replay.finished.error)
    elif (error := replay.waits or replay.last_error) is not None:
        answer.last_error.CopyFrom(error)
    # a replay that was requested without a count has 0 there
    answer.records = replay.request.records or sum(answer.outcomes.values())
    return answer


async def _read(work: Callable[[], T]) -> T:
    try:
        return await asyncio.to_thread(work)
    except SQLAlchemyError as error:
        raise database_error(type(error).__name__) from error
