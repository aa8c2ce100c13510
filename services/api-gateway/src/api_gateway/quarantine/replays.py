"""Replays and discards: from a call to the request in the log, and for a discard to the topic."""

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

from api_gateway.quarantine import asked, edits
from api_gateway.quarantine.follower import AWAY, QuarantineFollower
from api_gateway.quarantine.reads import Born, Kind, QuarantineReads
from api_gateway.quarantine.topic import QuarantineTopic
from api_gateway.state.reader import no_database
from api_gateway.state.writer import Writer
from api_gateway.validate import request_fields
from api_gateway.validate.dagger_requests import Requests, refuse
from api_gateway.watch_limits import damaged
from api_gateway.watch_limits import unavailable as unreachable
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
# What is expected of the records that are meant, with these edits; None where nobody can look.
Foresee: TypeAlias = Callable[
    [events_pb2.QuarantineReplayRequested, Sequence[telemetry_pb2.QuarantineEdited]],
    Awaitable[Sequence[gateway_pb2.QuarantineForecast] | None],
]
_O = telemetry_pb2.QuarantineOutcome
# Why records are forecast not to be replayed: outcome, reason, what to do.
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
    """Asks for replays and discards, and tells of them. Raises, from every method: ApiError."""

    def __init__(
        self,
        requests: Requests,
        writer: Writer,
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
        of: Born,
        named: Collection[str],
        foresee: Foresee | None = None,
    ) -> gateway_pb2.ReplayQuarantinedResponse:
        """Ask for a replay of what is meant now; nothing where that is nothing.

        `named`: the sinks that the dagger has now. `foresee` looks at the records of a dry run.
        """
        id_ = request.request_id or uuid.uuid4().hex
        edited = await self._edited(request, of, id_)
        digests = {record.id: setaside.digest(record) for _, record in edited}
        before = await self.asked_before(request.request_id)
        if isinstance(before, events_pb2.QuarantineReplayRequested) and _same(before, request, digests):
            known = self._writer.answered(id_, (before,))
            return gateway_pb2.ReplayQuarantinedResponse(
                replay_id=id_, sequence=known.sequence if known else 0, records=before.records
            )
        ends = self._follower.ends
        kinds = await _read(lambda: self._reads.meant(of, request.selection))
        first = min((kind.first for kind in kinds), default=0)
        starts = await _read(lambda: self._reads.starts(of, first))
        forecast = list(_forecast(kinds, named, force=request.force))
        records = sum(kind.records for kind in kinds)
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
            computes=any(kind.stage != _SINK for kind in kinds),
        )
        answer = gateway_pb2.ReplayQuarantinedResponse(records=records, forecast=forecast)
        if records:
            self._requests.decided(event)
        if request.validate_only and records and foresee is not None:
            seen = await foresee(event, [edit for _, edit in edited])
            if seen is not None:
                del answer.forecast[:]
                answer.forecast.extend(seen)
        if request.validate_only or not records:
            return answer
        for partition, edit in edited:  # before the request: a replay that has its digest finds it
            await self._append(partition, edit, f"edit/{id_}/{edit.id}", of.dagger)
        written = await self._writer.write(of.dagger, event, id_, path="selection")
        note(replay=id_, records=records, edits=len(edited))
        answer.replay_id, answer.sequence = id_, written.sequence
        return answer

    async def discard(
        self, request: gateway_pb2.DiscardQuarantinedRequest, of: Born
    ) -> gateway_pb2.DiscardQuarantinedResponse:
        """Discard what is meant now; nothing where that is nothing."""
        id_ = request.request_id or uuid.uuid4().hex
        before = await self.asked_before(request.request_id)
        if isinstance(before, events_pb2.QuarantineDiscardRequested) and _repeats(before, request):
            known = self._writer.answered(id_, (before,))
            sequence = known.sequence if known else 0
            await self._tell(before, sequence, id_, of)
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
        self._requests.decided(event)
        if request.validate_only:
            return answer
        written = await self._writer.write(of.dagger, event, id_, path="selection")
        note(records=answer.records)
        await self._tell(event, written.sequence, id_, of)
        answer.sequence = written.sequence
        return answer

    async def told(
        self, request: gateway_pb2.GetReplayRequest, dagger: Dagger
    ) -> gateway_pb2.GetReplayResponse:
        """How far a replay is: the newest, or the one that is named."""
        newest = dagger.replay
        id_ = request.replay_id or (newest.id if newest else "")
        outcomes = await _read(lambda: self._reads.outcomes(dagger.name, id_)) if id_ else {}
        known = newest if newest is not None and newest.id == id_ else None
        if known is None and not outcomes:
            text = (
                f"dagger {dagger.name} has no replay {id_}" if id_ else f"dagger {dagger.name} has no replay"
            )
            raise ApiError(grpc.StatusCode.NOT_FOUND, "NOT_FOUND", text, about("dagger", dagger.name))
        return _told(id_, known, outcomes)

    async def asked_before(self, request_id: str) -> Message | None:
        """The event that a request has become; None for a new one. What was meant then is meant now."""
        answer = self._fleet.answers.get(request_id) if request_id else None
        if answer is None:
            return None
        try:
            (record,) = await self._log.read([answer.sequence])
        except LogUnavailable as error:
            raise unreachable(error, answer.sequence) from error
        except LogDamaged as error:
            raise damaged(str(error), answer.sequence) from error
        return record.message

    async def _tell(
        self, event: events_pb2.QuarantineDiscardRequested, sequence: int, id_: str, of: Born
    ) -> None:
        """Write the discard where the records stand, which is what counts."""
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
        said: telemetry_pb2.QuarantineDiscarded | telemetry_pb2.QuarantineEdited,
        id_: str,
        dagger: str,
    ) -> None:
        """Write to the topic, now."""
        now = self._clock()
        said.time.FromDatetime(now)
        value = said.SerializeToString(deterministic=True)
        draft = Draft(id_, "/api-gateway", dagger, now, said)
        try:
            await self._topic.append(partition, dagger.encode(), draft.headers(), value)
        except AWAY as error:
            kind = "discard" if isinstance(said, telemetry_pb2.QuarantineDiscarded) else "edit"
            raise unavailable(
                f"did not take the {kind}, which may be asked for again: {type(error).__name__}"
            ) from error

    async def _edited(
        self, request: gateway_pb2.ReplayQuarantinedRequest, of: Born, id_: str
    ) -> list[tuple[int, telemetry_pb2.QuarantineEdited]]:
        """What is written in place of records, and to which partition."""
        made: list[tuple[int, telemetry_pb2.QuarantineEdited]] = []
        wrong: list[Violation] = []
        for number, edit in enumerate(request.edits):
            path = f"edits[{number}]"
            records = await _read(lambda: self._reads.beginning(of, edit.id))  # noqa: B023 - awaited
            listed = next((record for record in records if record.record.id == edit.id), None)
            if listed is None:
                text = f"is no record of dagger {of.dagger} in the quarantine, or no more"
                wrong.append(Violation(f"{path}.id", text, "NOT_FOUND"))
                continue
            said = edits.edited(path, edit, listed.record, self._fleet)
            if isinstance(said, telemetry_pb2.QuarantineEdited):
                said.dagger, said.replay_id = of.dagger, id_
                made.append((listed.partition, said))
            else:
                wrong += said
        refuse(wrong)
        return made


def replay_violations(request: gateway_pb2.ReplayQuarantinedRequest) -> Iterator[Violation]:
    """What is wrong with asking for a replay."""
    yield from fields.name("dagger", request.dagger)
    yield from asked.selection("selection", request.selection)
    yield from edits.violations(request)
    yield from request_fields.request_id("request_id", request.request_id)


def discard_violations(request: gateway_pb2.DiscardQuarantinedRequest) -> Iterator[Violation]:
    """What is wrong with asking for a discard."""
    yield from fields.name("dagger", request.dagger)
    yield from asked.selection("selection", request.selection)
    if not request.reason.strip():
        yield Violation("reason", "is needed: say why, for those who come after", "REQUIRED")
    yield from request_fields.message("reason", request.reason)
    yield from request_fields.request_id("request_id", request.request_id)


def unavailable(why: str) -> ApiError:
    """The topic cannot be used now."""
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
    kinds: Sequence[Kind], named: Collection[str], *, force: bool
) -> Iterator[gateway_pb2.QuarantineForecast]:
    """What is expected of records, those that are replayed first."""
    counts: dict[tuple[_O.ValueType, str, str], int] = {}
    for kind in kinds:
        said = _expected(kind, named, force=force)
        counts[said] = counts.get(said, 0) + kind.records
    for (outcome, reason, detail), records in sorted(counts.items()):
        yield gateway_pb2.QuarantineForecast(outcome=outcome, reason=reason, records=records, detail=detail)


def _expected(kind: Kind, named: Collection[str], *, force: bool) -> tuple[_O.ValueType, str, str]:
    """As the replay judges them, in its order."""
    if kind.worn and not force:
        return _WORN
    if kind.stage == _SINK and kind.sink not in named:
        return _SINK_GONE
    if kind.stage != _SINK:
        return _NEVER_ROWS
    return _TRUNCATED if kind.truncated else _REPLAYED


def _told(id_: str, known: Replay | None, outcomes: Mapping[str, int]) -> gateway_pb2.GetReplayResponse:
    answer = gateway_pb2.GetReplayResponse(replay_id=id_, outcomes=outcomes, finished=True)
    if known is None:
        answer.records = sum(answer.outcomes.values())
        return answer
    answer.finished = known.finished is not None
    if known.finished is not None:
        answer.outcomes.update(known.finished.outcomes)
        if known.finished.HasField("error"):
            answer.error.CopyFrom(known.finished.error)
    elif (error := known.waits or known.last_error) is not None:
        answer.last_error.CopyFrom(error)
    # Of one that nobody asked for nobody has counted them.
    answer.records = known.request.records or sum(answer.outcomes.values())
    return answer


async def _read(work: Callable[[], T]) -> T:
    try:
        return await asyncio.to_thread(work)
    except SQLAlchemyError as error:
        raise no_database(type(error).__name__) from error
