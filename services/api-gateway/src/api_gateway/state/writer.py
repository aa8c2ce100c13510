"""Append requests to the log, and return the fold's answers to the calls.

The fold decides between concurrent requests; services refuse invalid ones before they enter the log for ever.
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
from fleet import Answer, ApplyResult, Fleet, Refusal
from fleet.fold.answers import REUSED

_RETRY: Final = timedelta(seconds=1)


class RequestWriter:
    """Appends requests to the control topic."""

    def __init__(
        self,
        follower: Follower[ApplyResult],
        fleet: Fleet,
        source: str,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Remember the log. `source`: `ce_source` of the records; `clock`: now, UTC."""
        self._clock = clock
        self._fleet = fleet
        self._follower = follower
        self._source = source

    def find_answer(self, request_id: str, forms: Iterable[Message]) -> Answer | None:
        """Return the answer that a request has already; None for a new one. Call it before any check.

        `forms` are the messages that the request may have been appended as: a check may add other values to
        it today. They are read only where the id has an answer. Raises: ApiError where the request was
        refused, where its id belongs to another one, and for a new request where the log is damaged.
        """
        new = not request_id or request_id not in self._fleet.answers
        answers = [] if new else [self._fleet.answer(request_id, form) for form in forms]
        # every form but its own is answered as a reused id: prefer the answer of its own
        answer = min(filter(None, answers), key=_is_of_other_request, default=None)
        if answer is not None:
            note(repeated=True, request_id=request_id)
            _raise_if_refused(answer)
        else:
            self._check_damage()
        return answer

    async def write(self, subject: str, request: Message, request_id: str, *, path: str) -> Answer:
        """Append a request and wait for the fold's answer.

        `path` is the field to blame where the log rejects a record of this size. Raises: ApiError.
        """
        request_id = request_id or uuid.uuid4().hex
        note(subject=subject, request_id=request_id)
        try:
            await self._follower.append(Draft(request_id, self._source, subject, self._clock(), request))
        except LogUnavailable as error:
            # the record may be in the log nevertheless: the fold knows
            if self._fleet.answer(request_id, request) is None:
                raise unacknowledged_error(request_id) from error
        except RecordTooLarge as error:
            size = {"size": str(request.ByteSize())}
            raise invalid([Violation(path, str(error), "TOO_LARGE", metadata=size)]) from error
        except LogDamaged as error:
            if self._fleet.answer(request_id, request) is None:
                raise damage_error(str(error), self._fleet.sequence) from error
        answer = self._fleet.answer(request_id, request)
        if answer is None:
            raise AssertionError("the fold waited for an answer that is not there")
        _raise_if_refused(answer)
        note(sequence=answer.sequence)
        return answer

    def _check_damage(self) -> None:
        if self._follower.damage:
            raise damage_error(self._follower.damage, self._fleet.sequence)


def unacknowledged_error(request_id: str) -> ApiError:
    """Build the error for a request that may be in a log, though Kafka has not said so."""
    return ApiError(
        grpc.StatusCode.UNAVAILABLE,
        "LOG_UNAVAILABLE",
        "Kafka did not acknowledge the request: repeat it with the same request_id",
        metadata={"request_id": request_id},
        retry_after=_RETRY,
    )


def refusal_error(refusal: Refusal) -> ApiError:
    """Build the error that tells a caller of the fold's refusal."""
    return ApiError(grpc.StatusCode[refusal.code.name], refusal.reason, refusal.detail, refusal.metadata)


def _is_of_other_request(answer: Answer) -> bool:
    """Return whether the answer refuses an id that was used for another request."""
    return answer.refusal is not None and answer.refusal.reason == REUSED


def _raise_if_refused(answer: Answer) -> None:
    if answer.refusal is not None:
        raise refusal_error(answer.refusal)


def damage_error(why: str, reached: int) -> ApiError:
    """Build the error for writes while the log is damaged, which only a person can mend."""
    return ApiError(
        grpc.StatusCode.FAILED_PRECONDITION,
        "LOG_DAMAGED",
        f"nothing is written, because the control log is damaged: {why}",
        {"reached": str(reached)},
    )
