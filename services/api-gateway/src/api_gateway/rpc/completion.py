"""WaitCompleted: wait until records of a stream are in every sink, by what drivers say in heartbeats."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import grpc
from daggers.v1 import gateway_pb2

from api_gateway.not_found import no_dagger, no_entry
from api_gateway.state.heartbeat_cache import HeartbeatCache
from chassis.errors import ApiError, invalid
from daggerspec.violation import Violation
from fleet import Dagger, Fleet
from fleet.fold.phases import FAILED

LONGEST_S: Final = 60.0
# what an answer needs of the call's deadline
_MARGIN_S: Final = 1.5
# a driver says something every five seconds
_POLL_S: Final = 0.25
_MOST_BEHIND: Final = 100
_PARTITION: Final = re.compile(r"([a-zA-Z0-9._-]{1,249})/(0|[1-9]\d{0,9})")


async def wait(
    request: gateway_pb2.WaitCompletedRequest,
    fleet: Fleet,
    heartbeats: HeartbeatCache,
    remaining_s: float | None,
) -> gateway_pb2.WaitCompletedResponse:
    """Wait until the records are in every sink, and at most as long as the deadline leaves.

    Raises: ApiError, INVALID_ARGUMENT, NOT_FOUND; FAILED_PRECONDITION as `_behind`, or where nobody reads the
    stream.
    """
    _check(request, fleet)
    loop = asyncio.get_running_loop()
    end = loop.time() + min(LONGEST_S, LONGEST_S if remaining_s is None else remaining_s - _MARGIN_S)
    while True:
        names = _readers(request, fleet)
        behind = [one for name in names for one in _behind(fleet.daggers[name], request.offsets, heartbeats)]
        if not behind or loop.time() >= end:
            return gateway_pb2.WaitCompletedResponse(
                completed=not behind, daggers=names, behind=behind[:_MOST_BEHIND]
            )
        await asyncio.sleep(min(_POLL_S, max(end - loop.time(), 0)))


def _check(request: gateway_pb2.WaitCompletedRequest, fleet: Fleet) -> None:
    wrong = list(_violations(request.offsets))
    if wrong:
        raise invalid(wrong)
    streams = fleet.catalogue.streams
    if request.stream not in streams:
        raise no_entry("stream", request.stream, streams)
    topics = streams[request.stream].value.topics
    wrong += [
        Violation(f"offsets[{partition}]", f"{topic} is no topic of {request.stream}", "NOT_IN_STREAM")
        for partition in sorted(request.offsets)
        if (topic := partition.rpartition("/")[0]) not in topics
    ]
    if wrong:
        raise invalid(wrong)


def _violations(offsets: Mapping[str, int]) -> Iterator[Violation]:
    if not offsets:
        yield Violation("offsets", "must have at least one partition, as topic/partition", "REQUIRED")
    for partition, offset in sorted(offsets.items()):
        if not _PARTITION.fullmatch(partition):
            yield Violation(
                f"offsets[{partition}]", "must be named topic/partition, like bookings/0", "INVALID_NAME"
            )
        elif offset < 0:
            yield Violation(
                f"offsets[{partition}]", "must be the offset of a record, from 0 on", "OUT_OF_RANGE"
            )


def _readers(request: gateway_pb2.WaitCompletedRequest, fleet: Fleet) -> Sequence[str]:
    """Name the daggers that the request is about. Raises: ApiError where there is none."""
    readers = fleet.readers(request.stream)
    if not request.dagger:
        if readers:
            return readers
        raise _precondition("NO_READER", f"no dagger reads {request.stream}", stream=request.stream)
    if fleet.living(request.dagger) is None:
        raise no_dagger(request.dagger, fleet)
    if request.dagger not in readers:
        message = f"{request.dagger} does not read {request.stream}"
        raise _precondition("NO_READER", message, stream=request.stream, dagger=request.dagger)
    return [request.dagger]


def _behind(
    dagger: Dagger, offsets: Mapping[str, int], heartbeats: HeartbeatCache
) -> list[gateway_pb2.CompletionBehind]:
    """List the partitions that a dagger has not completed so far.

    Raises: ApiError, FAILED_PRECONDITION where there are some and no driver is to go on with them.
    """
    heartbeat = heartbeats.watch_of(dagger).heartbeat
    completed = {} if heartbeat is None else heartbeat.completed
    behind = [
        gateway_pb2.CompletionBehind(
            dagger=dagger.name,
            partition=partition,
            offset=offset,
            completed=completed.get(partition),
        )
        for partition, offset in sorted(offsets.items())
        if partition not in completed or completed[partition] <= offset
    ]
    if behind and (dagger.desired != gateway_pb2.DESIRED_RUNNING or dagger.phase == FAILED):
        state = "was given up" if dagger.phase == FAILED else "is stopped"
        message = (
            f"{dagger.name} {state}, and has not completed {behind[0].partition} up to {behind[0].offset}"
        )
        raise _precondition("DAGGER_STOPPED", message, dagger=dagger.name, partition=behind[0].partition)
    return behind


def _precondition(reason: str, message: str, **metadata: str) -> ApiError:
    return ApiError(grpc.StatusCode.FAILED_PRECONDITION, reason, message, metadata)
