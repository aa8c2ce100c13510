"""WatchEvents: all control records after a sequence, in order, without a gap, resumable.

History comes from the log, with the fold's verdicts; new records come from the fold's own reading of it. A
watch that falls too far behind returns to the log, so a slow watcher delays nobody. A step that is neither a
snapshot nor an event only tells the watch's position: it ends the snapshot, a watch `until_end`, and a watch
that the gateway ends.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing
from typing import NamedTuple

from daggers.v1 import events_pb2, gateway_pb2

from api_gateway.rpc.past_records import PastRecords
from api_gateway.state.fold import Fold
from api_gateway.state.verdicts import RecordVerdict, verdict_of
from api_gateway.validate.dagger_requests import refuse
from api_gateway.watch_limits import begin, damage_error, draining_error, unavailable_error
from chassis.logging import note
from daggerspec.violation import Violation
from eventlog import LogDamaged, LogUnavailable, Record
from eventlog.fold import Subscription
from eventlog.follower import Follower
from fleet import ApplyResult, Fleet, about
from fleet.fold import view
from fleet.fold.phases import DELETED

Response = gateway_pb2.WatchEventsResponse


class _JudgedRecord(NamedTuple):
    """A record with the fold's verdict."""

    record: Record
    verdict: RecordVerdict


def _check(request: gateway_pb2.WatchEventsRequest) -> Iterator[Violation]:
    """Yield what is wrong with a watch of a stream's registrations: these are in the log alone."""
    if request.stream and request.name:
        yield Violation("stream", "is for a watch without a name", "UNEXPECTED")
    if request.stream and not request.HasField("since_sequence"):
        yield Violation("since_sequence", "is needed where a stream is named", "REQUIRED")


async def watch(
    request: gateway_pb2.WatchEventsRequest, past: PastRecords, follower: Follower[ApplyResult], fold: Fold
) -> AsyncGenerator[Response, None]:
    """Yield the steps of one watch.

    Raises: ApiError, UNAVAILABLE when the gateway drains or Kafka does not answer (resume elsewhere, later),
    OUT_OF_RANGE when the log ends before `since_sequence`, FAILED_PRECONDITION when it is damaged.
    """
    refuse(list(_check(request)))
    name = request.name
    since = request.since_sequence if request.HasField("since_sequence") else None
    end = await begin("name", name, since, past.end, follower)
    if since is None:
        since = follower.sequence
        for response in _snapshot(fold.fleet, name):
            yield response
        yield Response(sequence=since)
    wanted = _filter(request, fold.fleet)
    position = sent = since
    until = end if request.until_end else None
    if until is None:
        records = _records(past, follower, fold, since)
    else:
        records = _history(past, follower, fold, since, up_to=until)
    async with aclosing(records):
        async for step in records:
            position = step.record.sequence
            if wanted(step.record):
                sent = position
                yield _event(step)
    note(sequence=position)
    if until is not None and position >= until:
        if sent != position:
            yield Response(sequence=position)
        return
    yield Response(sequence=position)
    raise draining_error(position)


def _filter(request: gateway_pb2.WatchEventsRequest, fleet: Fleet) -> Callable[[Record], bool]:
    """Return whether a record is one of those that were asked for."""
    name, stream = request.name, request.stream
    if not stream:
        return lambda record: name in ("", about(record))
    entry = fleet.streams.get(stream)
    message = entry.value.message if entry else ""

    def is_of_stream(record: Record) -> bool:
        match record.message:
            case events_pb2.StreamRegistered() | events_pb2.StreamRemoved():
                return record.subject == stream
            case events_pb2.SchemaRegistered(schema=schema):
                return message in schema.messages
            case events_pb2.SchemaRemoved(name=removed):
                return removed == message
        return False

    return is_of_stream


async def _records(
    past: PastRecords, follower: Follower[ApplyResult], fold: Fold, since: int
) -> AsyncGenerator[_JudgedRecord, None]:
    """Yield all records behind `since` until the gateway drains."""
    position = since
    while not follower.draining:
        # subscribe before reading history, so that no record is missed in between
        subscription = follower.subscribe()
        try:
            behind = _history(past, follower, fold, position, up_to=follower.sequence)
            async with aclosing(behind) as history:
                async for step in history:
                    position = step.record.sequence
                    yield step
            async for step in _news(follower, subscription):
                if step.record.sequence > position:
                    position = step.record.sequence
                    yield step
        finally:
            follower.unsubscribe(subscription)


async def _history(
    past: PastRecords, follower: Follower[ApplyResult], fold: Fold, since: int, *, up_to: int
) -> AsyncGenerator[_JudgedRecord, None]:
    position = since
    try:
        async with aclosing(past.records(since, up_to)) as records:
            async for record in records:
                if follower.draining:
                    return
                position = record.sequence
                yield _JudgedRecord(record, fold.verdict(position))
    except LogUnavailable as error:
        raise unavailable_error(error, position) from error
    except LogDamaged as error:
        raise damage_error(str(error), position) from error


async def _news(
    follower: Follower[ApplyResult], subscription: Subscription[ApplyResult]
) -> AsyncIterator[_JudgedRecord]:
    """Yield new records of the fold. Ends with a drain, and when the watch falls too far behind."""
    while True:
        await follower.until(lambda: bool(subscription.steps or follower.draining or follower.damage))
        while subscription.steps:
            step = subscription.steps.popleft()
            yield _JudgedRecord(step.record, verdict_of(step.applied))
        if follower.damage:
            raise damage_error(follower.damage, follower.sequence)
        if follower.draining or subscription.overflowed:
            return


def _snapshot(fleet: Fleet, name: str) -> list[Response]:
    return [
        Response(snapshot=view.to_proto(dagger, fleet), sequence=fleet.sequence)
        for _, dagger in sorted(fleet.daggers.items())
        if dagger.phase != DELETED and name in ("", dagger.name)
    ]


def _event(step: _JudgedRecord) -> Response:
    record = step.record
    event = gateway_pb2.Event(
        sequence=record.sequence,
        id=record.id,
        type=record.type,
        source=record.source,
        subject=record.subject,
        refused=step.verdict.refused,
        version=step.verdict.version,
    )
    event.time.FromDatetime(record.time)
    # the bytes as they stand in the log, also those of types that this gateway does not know
    event.data.type_url = f"type.googleapis.com/{record.type}"
    event.data.value = record.value
    return Response(event=event, sequence=record.sequence)
