"""WatchEvents: every control record after a sequence, in order, without a gap, resumable.

History comes from the log, what is new from the fold's own reading of it. A watch that falls too far behind
goes back to the log, so a slow watcher slows nobody down. A step that is neither a snapshot nor an event says
only how far the watch is: it ends the snapshot, a watch `until_end`, and a watch that the gateway ends.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import NamedTuple

from daggers.v1 import gateway_pb2

from api_gateway.fold import Fold
from api_gateway.watching import begin, damaged, draining, unavailable
from chassis.logging import note
from eventlog import Log, LogDamaged, LogUnavailable, Record
from eventlog.fold import Subscription
from eventlog.follower import Follower
from fleet import Applied, Fleet, about, view
from fleet.phases import DELETED

Response = gateway_pb2.WatchEventsResponse


class _Judged(NamedTuple):
    """A record, and what the fold says of it."""

    record: Record
    refused: str
    """Why it is not applied; empty when it is."""
    version: int
    """As in `Event`."""


async def watch(
    request: gateway_pb2.WatchEventsRequest, log: Log, follower: Follower[Applied], fold: Fold
) -> AsyncGenerator[Response, None]:
    """The steps of one watch.

    Raises: ApiError, UNAVAILABLE when the gateway drains or Kafka does not answer (resume elsewhere, later),
    OUT_OF_RANGE when the log ends before `since_sequence`, FAILED_PRECONDITION when it is damaged.
    """
    name = request.name
    since = request.since_sequence if request.HasField("since_sequence") else None
    end = await begin("name", name, since, log, follower)
    if since is None:
        since = follower.sequence
        for step in _snapshot(fold.fleet, name):
            yield step
        yield Response(sequence=since)
    position = said = since
    until = end if request.until_end else None
    if until is None:
        records = _records(log, follower, fold, since)
    else:
        records = _history(log, follower, fold, since, up_to=until)
    async with aclosing(records):
        async for judged in records:
            position = judged.record.sequence
            if name in ("", about(judged.record)):
                said = position
                yield _event(judged)
    note(sequence=position)
    if until is not None and position >= until:
        if said != position:
            yield Response(sequence=position)
        return
    yield Response(sequence=position)
    raise draining(position)


async def _records(
    log: Log, follower: Follower[Applied], fold: Fold, since: int
) -> AsyncGenerator[_Judged, None]:
    """Every record behind `since`, until the gateway drains."""
    position = since
    while not follower.draining:
        # Subscribed first, so that nothing falls between what the log says now and what comes.
        subscription = follower.subscribe()
        try:
            past = _history(log, follower, fold, position, up_to=follower.sequence)
            async with aclosing(past) as history:
                async for judged in history:
                    position = judged.record.sequence
                    yield judged
            async for judged in _news(follower, subscription):
                if judged.record.sequence > position:
                    position = judged.record.sequence
                    yield judged
        finally:
            follower.unsubscribe(subscription)


async def _history(
    log: Log, follower: Follower[Applied], fold: Fold, since: int, *, up_to: int
) -> AsyncGenerator[_Judged, None]:
    if since >= up_to:
        return
    # What was refused longer ago than the fold remembers is found out by folding anew.
    anew = None if since + 1 >= fold.judged_since else Fleet()
    position = since
    try:
        async with aclosing(log.replay(since if anew is None else -1)) as records:
            async for record in records:
                if record.sequence > up_to or follower.draining:
                    return
                if anew is None and record.sequence < fold.judged_since:
                    break  # it is forgotten by now
                judged = _known(record, fold) if anew is None else _judged(record, anew.apply(record))
                if record.sequence > since:
                    position = record.sequence
                    yield judged
            else:
                return
        async with aclosing(_history(log, follower, fold, position, up_to=up_to)) as rest:
            async for judged in rest:
                yield judged
    except LogUnavailable as error:
        raise unavailable(error, position) from error
    except LogDamaged as error:
        raise damaged(str(error), position) from error


async def _news(follower: Follower[Applied], subscription: Subscription[Applied]) -> AsyncIterator[_Judged]:
    """What the fold takes from now on. Ends with a drain, and when the watch fell too far behind."""
    while True:
        await follower.until(lambda: bool(subscription.steps or follower.draining or follower.damage))
        while subscription.steps:
            step = subscription.steps.popleft()
            yield _judged(step.record, step.applied)
        if follower.damage:
            raise damaged(follower.damage, follower.sequence)
        if follower.draining or subscription.overflowed:
            return


def _snapshot(fleet: Fleet, name: str) -> list[Response]:
    return [
        Response(snapshot=view.to_proto(dagger, fleet), sequence=fleet.sequence)
        for _, dagger in sorted(fleet.daggers.items())
        if dagger.phase != DELETED and name in ("", dagger.name)
    ]


def _known(record: Record, fold: Fold) -> _Judged:
    """What the fold remembers of a record."""
    answer = fold.fleet.answers.get(record.id)
    return _Judged(record, fold.refused(record.sequence), answer.version if answer else 0)


def _judged(record: Record, applied: Applied) -> _Judged:
    return _Judged(record, applied.refused, applied.answer.version if applied.answer else 0)


def _event(judged: _Judged) -> Response:
    record = judged.record
    event = gateway_pb2.Event(
        sequence=record.sequence,
        id=record.id,
        type=record.type,
        source=record.source,
        subject=record.subject,
        refused=judged.refused,
        version=judged.version,
    )
    event.time.FromDatetime(record.time)
    # The bytes as they stand in the log: also those of a type this gateway does not know.
    event.data.type_url = f"type.googleapis.com/{record.type}"
    event.data.value = record.value
    return Response(event=event, sequence=record.sequence)
