"""Begin and end of watches of a log: check the sequence that one begins behind, and build the errors at its
end.

A watch begins behind a sequence that the log has reached. The gateway ends watches when it drains, and tells
where to resume.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import grpc

from chassis.errors import ApiError, invalid
from daggerspec import fields
from daggerspec.violation import Violation
from eventlog import LogDamaged, LogUnavailable
from eventlog.follower import Follower


async def begin(
    path: str,
    name: str,
    since: int | None,
    end_of: Callable[[], Awaitable[int]],
    follower: Follower[Any],
) -> int:
    """Check a watch's name (field `path`; or none) and sequence, and wait until the fold reaches the log's
    end.

    `end_of` returns the sequence of the log's last record. Returns that sequence. Raises: ApiError,
    UNAVAILABLE when Kafka does not answer, OUT_OF_RANGE when the log ends before `since`, FAILED_PRECONDITION
    when it is damaged.
    """
    wrong: Sequence[Violation] = list(fields.name(path, name)) if name else []
    if since is not None and since < -1:
        wrong = [*wrong, Violation("since_sequence", "must not be less than -1", "OUT_OF_RANGE")]
    if wrong:
        raise invalid(wrong)
    if follower.damage:
        raise damage_error(follower.damage, follower.sequence)
    try:
        end = await end_of()
    except LogUnavailable as error:
        raise unavailable_error(error, follower.sequence) from error
    except LogDamaged as error:
        raise damage_error(str(error), follower.sequence) from error
    if since is not None and since > end:
        text = f"the log ends at {end}, before {since}: this is not the log the sequence is of"
        metadata = {"asked": str(since), "end": str(end)}
        raise ApiError(grpc.StatusCode.OUT_OF_RANGE, "BEHIND_END", text, metadata)
    try:
        await follower.wait_for(end)
    except LogDamaged as error:
        raise damage_error(str(error), follower.sequence) from error
    return end


def draining_error(position: int) -> ApiError:
    """Build the error for a watch that a draining gateway ends, with the position to resume from."""
    return ApiError(
        grpc.StatusCode.UNAVAILABLE,
        "DRAINING",
        f"the gateway shuts down: resume with since_sequence {position}",
        metadata={"since_sequence": str(position)},
    )


def shutdown_error() -> ApiError:
    """Build the error for a watch without a position, which begins again at another gateway."""
    return ApiError(grpc.StatusCode.UNAVAILABLE, "DRAINING", "the gateway shuts down: ask again", {})


def damage_error(why: str, reached: int) -> ApiError:
    """Build the error for a damaged log, of which nothing more is read until a person repairs it."""
    text, metadata = f"the log is damaged: {why}", {"reached": str(reached)}
    return ApiError(grpc.StatusCode.FAILED_PRECONDITION, "LOG_DAMAGED", text, metadata)


def unavailable_error(error: LogUnavailable, reached: int) -> ApiError:
    """Build the error for a log that Kafka does not serve now."""
    metadata = {"reached": str(reached)}
    return ApiError(grpc.StatusCode.UNAVAILABLE, "LOG_UNAVAILABLE", str(error), metadata)
