"""QuarantineService: the newest records a dagger has set aside, from the index of `daggers.quarantine`."""

from __future__ import annotations

import asyncio
from typing import Final

import grpc
from daggers.v1 import gateway_pb2, gateway_pb2_grpc
from sqlalchemy.exc import SQLAlchemyError

from api_gateway import paging
from api_gateway.masking import Masking
from api_gateway.missing import no_dagger
from api_gateway.quarantine.follower import QuarantineFollower, Unread
from api_gateway.quarantine.index import Place, QuarantineIndex
from api_gateway.reader import Reader, no_database, say_degraded
from chassis.errors import ApiError, invalid
from chassis.interceptors import Context
from chassis.logging import note
from daggerspec import fields
from daggerspec.violation import Violation
from eventlog import topics

# How long an answer waits for records that are not in the index yet.
_PATIENCE_S: Final = 5.0


class QuarantineService(gateway_pb2_grpc.QuarantineServiceServicer):
    """Records that were set aside."""

    def __init__(
        self, reader: Reader, follower: QuarantineFollower, index: QuarantineIndex, masking: Masking
    ) -> None:
        self._reader, self._follower, self._index = reader, follower, index
        self._masking = masking

    async def ListQuarantined(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.ListQuarantinedRequest, context: Context
    ) -> gateway_pb2.ListQuarantinedResponse:
        """The newest records of one dagger, newest first, a page at a time. Raises: ApiError."""
        name = request.dagger
        page, wrong_page = paging.asked(request, name)
        before, wrong_place = _place(page.after)
        violations = [
            *fields.name("dagger", name),
            *wrong_page,
            *wrong_place,
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
        # an earlier dagger of this name had its own records; its launches came before this one was created
        since = dagger.create_sequence
        try:
            records, behind = await asyncio.to_thread(
                lambda: self._index.newest(
                    name, since=since, before=before, limit=page.size, size=paging.MAX_ANSWER_BYTES
                )
            )
        except SQLAlchemyError as error:
            raise no_database(type(error).__name__) from error
        note(records=len(records))
        self._masking.quarantined(dagger, records)
        token = paging.token(":".join(map(str, behind)), name) if behind else ""
        return gateway_pb2.ListQuarantinedResponse(records=records, next_page_token=token)


def _place(last: str) -> tuple[Place | None, list[Violation]]:
    """The place a page begins behind; None for the first."""
    if not last:
        return None, []
    try:
        time_ms, offset, partition = map(int, last.split(":"))
    except ValueError:
        return None, [paging.unreadable()]
    return (time_ms, offset, partition), []
