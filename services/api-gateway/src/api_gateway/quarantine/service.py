"""QuarantineService: the newest records a dagger has set aside, from the index of `daggers.quarantine`."""

from __future__ import annotations

import asyncio
from typing import Final

import grpc
from daggers.v1 import gateway_pb2, gateway_pb2_grpc
from sqlalchemy.exc import SQLAlchemyError

from api_gateway import validation
from api_gateway.filters import page_token, read_token
from api_gateway.missing import no_dagger
from api_gateway.quarantine.follower import QuarantineFollower, Unread
from api_gateway.quarantine.index import Place, QuarantineIndex
from api_gateway.reader import MAX_ANSWER_BYTES, Reader, no_database, say_degraded
from chassis.errors import ApiError, invalid
from chassis.interceptors import Context
from chassis.logging import note
from daggerspec import fields
from daggerspec.violation import Violation
from eventlog import topics

_PAGE: Final = 100
_MAX_PAGE: Final = 1_000
# How long an answer waits for records that are not in the index yet.
_PATIENCE_S: Final = 5.0


class QuarantineService(gateway_pb2_grpc.QuarantineServiceServicer):
    """Records that were set aside."""

    def __init__(self, reader: Reader, follower: QuarantineFollower, index: QuarantineIndex) -> None:
        self._reader, self._follower, self._index = reader, follower, index

    async def ListQuarantined(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.ListQuarantinedRequest, context: Context
    ) -> gateway_pb2.ListQuarantinedResponse:
        """The newest records of one dagger, newest first, a page at a time."""
        name = request.dagger
        before, wrong_token = _read_token(request.page_token, name)
        violations = [
            *fields.name("dagger", name),
            *validation.page_size("page_size", request.page_size),
            *wrong_token,
        ]
        if violations:
            raise invalid(violations)
        fleet = await self._reader.state(context, 0)
        dagger = fleet.living(name)
        if dagger is None:
            raise no_dagger(name, fleet)
        remaining = context.time_remaining()
        patience_s = _PATIENCE_S if remaining is None else min(_PATIENCE_S, remaining / 4)
        try:
            missing = await self._follower.caught_up(patience_s)
        except Unread as error:
            raise ApiError(
                grpc.StatusCode.UNAVAILABLE,
                "QUARANTINE_UNAVAILABLE",
                f"topic {topics.QUARANTINE} cannot be read now: {error}",
                {"topic": topics.QUARANTINE},
            ) from error
        if missing:
            say_degraded(context, f"{missing} records of {topics.QUARANTINE} are not listed yet")
        limit = min(request.page_size or _PAGE, _MAX_PAGE)
        # an earlier dagger of this name had its own records; its launches came before this one was created
        since = dagger.create_sequence
        try:
            records, behind = await asyncio.to_thread(
                lambda: self._index.newest(
                    name, since=since, before=before, limit=limit, size=MAX_ANSWER_BYTES
                )
            )
        except SQLAlchemyError as error:
            raise no_database(type(error).__name__) from error
        note(records=len(records))
        token = page_token(":".join(map(str, behind)), name) if behind else ""
        return gateway_pb2.ListQuarantinedResponse(records=records, next_page_token=token)


def _read_token(token: str, dagger: str) -> tuple[Place | None, list[Violation]]:
    """The place a page begins behind; None for the first."""
    last, wrong = read_token("page_token", token, dagger)
    if wrong or not last:
        return None, wrong
    try:
        time_ms, offset, partition = map(int, last.split(":"))
    except ValueError:
        text = "is not a page token: pass the next_page_token of a page"
        return None, [Violation("page_token", text, "INVALID_TOKEN")]
    return (time_ms, offset, partition), []
