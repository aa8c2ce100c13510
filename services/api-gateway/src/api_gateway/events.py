"""WatchEvents: every control record after a sequence, in order, without a gap, resumable.

History comes from the log, what is new from the fold's own reading of it. A watch that falls too far behind
goes back to the log, so a slow watcher slows nobody down. A step that is neither a snapshot nor an event says
only how far the watch is: it ends the snapshot, a watch `until_end`, and a watch that the gateway ends.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

import grpc
from daggers.v1 import gateway_pb2

from api_gateway.follower import Follower, Step, Subscription
from api_gateway.writer import damaged
from chassis.errors import ApiError, invalid
from chassis.logging import note
from daggerspec import fields
from daggerspec.violation import Violation
from eventlog import Log, LogDamaged, LogUnavailable
from fleet import about, view
from fleet.phases import DELETED

Response = gateway_pb2.WatchEventsResponse


async def watch(
    request: gateway_pb2.WatchEventsRequest, log: Log, follower: Follower
) -> AsyncGenerator[Response, None]:
    """The steps of one watch.

    Raises: ApiError, UNAVAILABLE when the gateway drains or Kafka does not answer (resume elsewhere, later),
    OUT_OF_RANGE when the log ends before `since_sequence`, FAILED_PRECONDITION when it is damaged.
    """
    name = request.name
    since = request.since_sequence if request.HasField("since_sequence") else None
    wrong = list(fields.name("name", name)) if name else []
    if since is not None and since < -1:
        wrong.append(Violation("since_sequence", "must not be less than -1", "OUT_OF_RANGE"))
    if wrong:
        raise invalid(wrong)
    if follower.damage:
        raise damaged(follower.damage)
    end = await _end(log)
    if since is not None and since > end:
        text = f"the log ends at {end}, before {since}: this is not the log the sequence is of"
        raise ApiError(grpc.StatusCode.OUT_OF_RANGE, "BEHIND_END", text)
    if not await follower.reached(end):
        raise damaged(follower.damage)
    if since is None:
        since = follower.fleet.sequence
        for step in _snapshot(follower, name):
            yield step
        yield Response(sequence=since)
    position = said = since
    until = end if request.until_end else None
    steps = _steps(log, follower, since) if until is None else _history(log, follower, since, up_to=until)
    async with aclosing(steps):
        async for each in steps:
            position = each.record.sequence
            if name in ("", about(each.record)):
                said = position
                yield _event(each)
    note(sequence=position)
    if until is not None and position >= until:
        if said != position:
            yield Response(sequence=position)
        return
    yield Response(sequence=position)
    raise _draining(position)


async def _steps(log: Log, follower: Follower, since: int) -> AsyncGenerator[Step, None]:
    """Every step behind `since`, until the gateway drains."""
    position = since
    while not follower.draining:
        # Subscribed first, so that nothing falls between what the log says now and what comes.
        subscription = follower.subscribe()
        try:
            async with aclosing(_history(log, follower, position, up_to=follower.fleet.sequence)) as history:
                async for step in history:
                    position = step.record.sequence
                    yield step
            async for step in _news(follower, subscription):
                if step.record.sequence > position:
                    position = step.record.sequence
                    yield step
        finally:
            follower.unsubscribe(subscription)


async def _history(log: Log, follower: Follower, since: int, *, up_to: int) -> AsyncGenerator[Step, None]:
    if since >= up_to:
        return
    try:
        async with aclosing(log.replay(since)) as records:
            async for record in records:
                if record.sequence > up_to or follower.draining:
                    return
                yield Step(record, follower.refused(record.sequence))
    except LogUnavailable as error:
        raise _unavailable(error) from error
    except LogDamaged as error:
        raise damaged(str(error)) from error


async def _news(follower: Follower, subscription: Subscription) -> AsyncIterator[Step]:
    """What the fold takes from now on. Ends with a drain, and when the watch fell too far behind."""
    while True:
        await follower.until(lambda: bool(subscription.steps or follower.draining or follower.damage))
        while subscription.steps:
            yield subscription.steps.popleft()
        if follower.damage:
            raise damaged(follower.damage)
        if follower.draining or subscription.overflowed:
            return


async def _end(log: Log) -> int:
    try:
        return await log.end()
    except LogUnavailable as error:
        raise _unavailable(error) from error
    except LogDamaged as error:
        raise damaged(str(error)) from error


def _snapshot(follower: Follower, name: str) -> list[Response]:
    fleet = follower.fleet
    return [
        Response(snapshot=view.to_proto(dagger, fleet), sequence=fleet.sequence)
        for _, dagger in sorted(fleet.daggers.items())
        if dagger.phase != DELETED and name in ("", dagger.name)
    ]


def _event(step: Step) -> Response:
    record = step.record
    event = gateway_pb2.Event(
        sequence=record.sequence,
        id=record.id,
        type=record.type,
        source=record.source,
        subject=record.subject,
        refused=step.refused,
    )
    event.time.FromDatetime(record.time)
    # The bytes as they stand in the log: also those of a type this gateway does not know.
    event.data.type_url = f"type.googleapis.com/{record.type}"
    event.data.value = record.value
    return Response(event=event, sequence=record.sequence)


def _draining(position: int) -> ApiError:
    return ApiError(
        grpc.StatusCode.UNAVAILABLE,
        "DRAINING",
        f"the gateway shuts down: resume with since_sequence {position}",
        metadata={"since_sequence": str(position)},
    )


def _unavailable(error: LogUnavailable) -> ApiError:
    return ApiError(grpc.StatusCode.UNAVAILABLE, "LOG_UNAVAILABLE", str(error))
