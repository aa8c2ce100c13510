"""What every watch of a log has: where it may begin, and how it ends.

A sequence that a watch begins behind is one that the log has reached. Watches end with the gateway, and say
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
    """Check what a watch asks for, a name (field `path`; or none) and a sequence, and wait for its fold.

    `end_of` gives the sequence of the log's last record.
    Answers the sequence of its last record now. Raises: ApiError, UNAVAILABLE when Kafka does not answer,
    OUT_OF_RANGE when the log ends before `since`, FAILED_PRECONDITION when it is damaged.
    """
    wrong: Sequence[Violation] = list(fields.name(path, name)) if name else []
    if since is not None and since < -1:
        wrong = [*wrong, Violation("since_sequence", "must not be less than -1", "OUT_OF_RANGE")]
    if wrong:
        raise invalid(wrong)
    if follower.damage:
        raise damaged(follower.damage, follower.sequence)
    try:
        end = await end_of()
    except LogUnavailable as error:
        raise unavailable(error, follower.sequence) from error
    except LogDamaged as error:
        raise damaged(str(error), follower.sequence) from error
    if since is not None and since > end:
        text = f"the log ends at {end}, before {since}: this is not the log the sequence is of"
        metadata = {"asked": str(since), "end": str(end)}
        raise ApiError(grpc.StatusCode.OUT_OF_RANGE, "BEHIND_END", text, metadata)
    try:
        await follower.wait_for(end)
    except LogDamaged as error:
        raise damaged(str(error), follower.sequence) from error
    return end


def draining(position: int) -> ApiError:
    """The gateway ends, and a watch with it."""
    return ApiError(
        grpc.StatusCode.UNAVAILABLE,
        "DRAINING",
        f"the gateway shuts down: resume with since_sequence {position}",
        metadata={"since_sequence": str(position)},
    )


def shuts_down() -> ApiError:
    """The same, of a watch that begins anew elsewhere."""
    return ApiError(grpc.StatusCode.UNAVAILABLE, "DRAINING", "the gateway shuts down: ask again", {})


def damaged(why: str, reached: int) -> ApiError:
    """Nothing more is read until a person has looked at the log."""
    text, metadata = f"the log is damaged: {why}", {"reached": str(reached)}
    return ApiError(grpc.StatusCode.FAILED_PRECONDITION, "LOG_DAMAGED", text, metadata)


def unavailable(error: LogUnavailable, reached: int) -> ApiError:
    """Kafka does not answer."""
    metadata = {"reached": str(reached)}
    return ApiError(grpc.StatusCode.UNAVAILABLE, "LOG_UNAVAILABLE", str(error), metadata)
