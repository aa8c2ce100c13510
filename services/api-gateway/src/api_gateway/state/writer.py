"""A request becomes a record, and the fold's answer becomes the call's.

The fold decides races; what is clearly wrong is refused by the services before it is in the log for ever.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

import grpc
from google.protobuf.message import Message

from chassis.errors import ApiError, invalid
from chassis.logging import note
from daggerspec.violation import Violation
from eventlog import Draft, LogDamaged, LogUnavailable, RecordTooLarge
from eventlog.follower import Follower
from fleet import Answer, Applied, Fleet, Refusal
from fleet.fold.answers import REUSED

_RETRY: Final = timedelta(seconds=1)


class Writer:
    """Appends requests to the control topic."""

    def __init__(
        self,
        follower: Follower[Applied],
        fleet: Fleet,
        source: str,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`source`: ce_source of what it writes; `clock`: this instant, UTC."""
        self._clock = clock
        self._fleet = fleet
        self._follower = follower
        self._source = source

    def answered(self, request_id: str, forms: Iterable[Message]) -> Answer | None:
        """The answer a request has already; None when it is new. Asked before anything is checked.

        `forms` are the forms the same request may have taken when it was made: what a check adds to it may be
        another thing today. They are asked for only where the id has an answer.
        Raises: ApiError when it was refused, when another request has this id, and for a new request when the
        log is damaged.
        """
        new = not request_id or request_id not in self._fleet.answers
        known = [] if new else [self._fleet.answer(request_id, form) for form in forms]
        # Of the other forms it is said that they are other requests; the last word is that of its own.
        answer = min(filter(None, known), key=_other, default=None)
        if answer is not None:
            note(repeated=True, request_id=request_id)
            _raise_if_refused(answer)
        else:
            self._refuse_when_damaged()
        return answer

    async def write(self, subject: str, request: Message, request_id: str, *, path: str) -> Answer:
        """Append a request and wait for what the fold makes of it.

        `path` is the field to blame when the log takes no record of this size. Raises: ApiError.
        """
        request_id = request_id or uuid.uuid4().hex
        note(subject=subject, request_id=request_id)
        try:
            await self._follower.append(Draft(request_id, self._source, subject, self._clock(), request))
        except LogUnavailable as error:
            # It may stand in the log all the same; the fold knows.
            if self._fleet.answer(request_id, request) is None:
                raise ApiError(
                    grpc.StatusCode.UNAVAILABLE,
                    "LOG_UNAVAILABLE",
                    "Kafka did not acknowledge the request: repeat it with the same request_id",
                    metadata={"request_id": request_id},
                    retry_after=_RETRY,
                ) from error
        except RecordTooLarge as error:
            size = {"size": str(request.ByteSize())}
            raise invalid([Violation(path, str(error), "TOO_LARGE", metadata=size)]) from error
        except LogDamaged as error:
            if self._fleet.answer(request_id, request) is None:
                raise damaged(str(error), self._fleet.sequence) from error
        answer = self._fleet.answer(request_id, request)
        if answer is None:
            raise AssertionError("the fold waited for an answer that is not there")
        _raise_if_refused(answer)
        note(sequence=answer.sequence)
        return answer

    def _refuse_when_damaged(self) -> None:
        if self._follower.damage:
            raise damaged(self._follower.damage, self._fleet.sequence)


def refused(refusal: Refusal) -> ApiError:
    """The fold's refusal as the caller sees it."""
    return ApiError(grpc.StatusCode[refusal.code.name], refusal.reason, refusal.detail, refusal.metadata)


def _other(answer: Answer) -> bool:
    """Whether this is the refusal of an id that was used for another request."""
    return answer.refusal is not None and answer.refusal.reason == REUSED


def _raise_if_refused(answer: Answer) -> None:
    if answer.refusal is not None:
        raise refused(answer.refusal)


def damaged(why: str, reached: int) -> ApiError:
    """No write until a person has looked at the log."""
    return ApiError(
        grpc.StatusCode.FAILED_PRECONDITION,
        "LOG_DAMAGED",
        f"nothing is written, because the control log is damaged: {why}",
        {"reached": str(reached)},
    )
