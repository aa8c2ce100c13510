"""AuditService: read the audit topic, newest records first."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from typing import Final

import grpc
from daggers.v1 import audit_pb2, gateway_pb2, gateway_pb2_grpc

from access import audits
from api_gateway.auth.audit_topic import AuditReader, AuditTopic
from api_gateway.rpc import paging
from api_gateway.validate import request_fields
from chassis.errors import ApiError, invalid
from chassis.interceptors import Context
from chassis.logging import note
from daggerspec.violation import Violation
from eventlog import LogError, Record

pb = gateway_pb2
_AT_ONCE: Final = 1_000
_LOOKS: Final = 20_000
"""Most records that are examined for one page."""
_LARGEST: Final = 128 * 1024
"""Upper bound of a record's size, in bytes."""
_CLOCKS: Final = timedelta(minutes=10)
"""Largest difference between the clocks of gateways: records stand in the order of their arrival."""


class AuditService(gateway_pb2_grpc.AuditServiceServicer):
    """Serves audit records: refused calls, and reads of tenants' records."""

    def __init__(self, topic: AuditTopic) -> None:
        self._topic = topic

    async def ListAuditRecords(  # noqa: N802 - gRPC's name
        self, request: pb.ListAuditRecordsRequest, context: Context
    ) -> pb.ListAuditRecordsResponse:
        """List audit records, newest first. Raises: ApiError."""
        of = _list_of(request)
        page, wrong = paging.read_page(request, of)
        before, wrong_token = _sequence(page.after)
        wrong += [*wrong_token, *_range(request)]
        if wrong:
            raise invalid(wrong)
        is_wanted = _build_filter(request)
        since = request.since.ToDatetime(UTC) if request.HasField("since") else None
        answer = pb.ListAuditRecordsResponse()
        examined, oldest, room = 0, before, paging.MAX_ANSWER_BYTES
        try:
            async with (
                self._topic.open_reader() as reader,
                aclosing(_newest_first(reader, before)) as records,
            ):
                async for record in records:
                    if since is not None and record.time < since - _CLOCKS:
                        break
                    if examined == _LOOKS or len(answer.records) == page.size or room < _LARGEST:
                        answer.next_page_token = paging.token(str(oldest), of)
                        break
                    examined, oldest = examined + 1, record.sequence
                    if is_wanted(record):
                        answer.records.append(_build_record(record))
                        room -= answer.records[-1].ByteSize()
        except LogError as error:
            text = f"the audit cannot be read now: {error}"
            raise ApiError(grpc.StatusCode.UNAVAILABLE, "AUDIT_AWAY", text, {"why": str(error)}) from error
        note(records=len(answer.records), looked=examined)
        return answer


async def _newest_first(reader: AuditReader, before: int | None) -> AsyncGenerator[Record]:
    first, last = await reader.bounds()
    end = last if before is None else min(last, before - 1)
    while end >= first:
        begin = max(first, end - _AT_ONCE + 1)
        for record in reversed(await reader.read(begin, end)):
            yield record
        end = begin - 1


def _range(request: pb.ListAuditRecordsRequest) -> Iterator[Violation]:
    """Yield what is wrong with the request's range of time."""
    yield from request_fields.instant("since", request.since)
    yield from request_fields.instant("until", request.until)


def _build_filter(request: pb.ListAuditRecordsRequest) -> Callable[[Record], bool]:
    kinds = frozenset(request.kinds)
    since = request.since.ToDatetime(UTC) if request.HasField("since") else datetime.min.replace(tzinfo=UTC)
    until = request.until.ToDatetime(UTC) if request.HasField("until") else datetime.max.replace(tzinfo=UTC)

    def is_wanted(record: Record) -> bool:
        call = record.message
        return (
            isinstance(call, audit_pb2.CallAudited)
            and since <= record.time < until
            and request.principal in ("", call.principal)
            and (not request.team or request.team in call.teams)
            and (not kinds or audits.kind_of(call) in kinds)
        )

    return is_wanted


def _build_record(record: Record) -> pb.AuditRecord:
    call = record.message
    assert isinstance(call, audit_pb2.CallAudited)  # as `_build_filter` says
    message = pb.AuditRecord(call=call, sequence=record.sequence)
    message.call.kind = audits.kind_of(call)
    message.time.FromDatetime(record.time)
    return message


def _list_of(request: pb.ListAuditRecordsRequest) -> str:
    """Return the text that a page token is valid for: the request without its page."""
    scope = pb.ListAuditRecordsRequest()
    scope.CopyFrom(request)
    scope.ClearField("page_size")
    scope.ClearField("page_token")
    return scope.SerializeToString(deterministic=True).hex()


def _sequence(after: str) -> tuple[int | None, list[Violation]]:
    """Parse the sequence that a page ends before; None for the first page."""
    if not after:
        return None, []
    if not (after.isascii() and after.isdecimal()):
        return None, [paging.unreadable()]
    return int(after), []
