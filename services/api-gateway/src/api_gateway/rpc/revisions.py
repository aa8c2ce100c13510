"""ListRevisions: what a dagger was asked to be. The fold knows which records tell, the log what they say."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from daggers.v1 import events_pb2, gateway_pb2

from api_gateway.hosts.routes import living
from api_gateway.rpc import paging
from api_gateway.state.reader import Reader
from api_gateway.validate import request_fields
from api_gateway.validate.dagger_requests import refuse
from api_gateway.watch_limits import damaged, unavailable
from chassis.interceptors import Context
from daggerspec import fields
from daggerspec.changes import changes
from daggerspec.defaults import filled
from eventlog import Log, LogDamaged, LogUnavailable, Record
from fleet.fold.dagger import Revision

PAGE: Final = 20
"""Revisions on a page unless asked otherwise: each is read from the log."""


async def page(
    request: gateway_pb2.ListRevisionsRequest, log: Log, reader: Reader, context: Context
) -> gateway_pb2.ListRevisionsResponse:
    """A page of the revisions of a dagger, newest first.

    Raises: ApiError, UNAVAILABLE when Kafka does not answer, FAILED_PRECONDITION when the log is damaged.
    """
    of = f"revisions of {request.name}"
    asked, wrong = paging.asked(request, of, default=PAGE)
    if asked.after and not asked.after.isdecimal():
        wrong.append(paging.unreadable())
    refuse(
        [
            *fields.name("name", request.name),
            *wrong,
            *request_fields.sequence("min_sequence", request.min_sequence),
        ]
    )
    fleet = await reader.state(context, request.min_sequence)
    sequence = fleet.sequence
    known = living(fleet, request.name).revisions
    older = [
        revision for revision in reversed(known) if not asked.after or revision.version < int(asked.after)
    ]
    wanted = older[: asked.size + 1]  # with the one before the last: it says what that changed
    try:
        records = await log.read([event.sequence for event in wanted])
    except LogUnavailable as error:
        raise unavailable(error, sequence) from error
    except LogDamaged as error:
        raise damaged(str(error), sequence) from error
    listed, more = asked.cut(_shown(wanted, records), lambda revision: str(revision.version))
    return gateway_pb2.ListRevisionsResponse(revisions=listed, next_page_token=more, sequence=sequence)


def _shown(revisions: Sequence[Revision], records: Sequence[Record]) -> list[gateway_pb2.Revision]:
    """The revisions of these records, newest first; each but the oldest with what it changed."""
    shown = [_one(revision, record) for revision, record in zip(revisions, records, strict=True)]
    for newer, older in pairwise(shown):
        newer.changes.extend(changes(older.spec, newer.spec))
    return shown


def _one(revision: Revision, record: Record) -> gateway_pb2.Revision:
    event = record.message
    assert isinstance(event, events_pb2.DaggerRequested)  # the fold has taken it for one
    shown = gateway_pb2.Revision(
        version=revision.version,
        sequence=revision.sequence,
        actor=event.meta.actor,
        message=event.meta.message,
        spec=filled(event.name, event.spec),
    )
    shown.time.FromDatetime(record.time)
    return shown
