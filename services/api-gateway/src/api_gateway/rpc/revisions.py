"""ListRevisions: the fold knows the sequences of a dagger's revisions, the log their contents."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from daggers.v1 import events_pb2, gateway_pb2

from api_gateway.hosts.routes import living
from api_gateway.rpc import paging
from api_gateway.state.reader import StateReader
from api_gateway.validate import request_fields
from api_gateway.validate.dagger_requests import refuse
from api_gateway.watch_limits import damage_error, unavailable_error
from chassis.interceptors import Context
from daggerspec import fields
from daggerspec.changes import changes
from daggerspec.defaults import fill_defaults
from eventlog import Log, LogDamaged, LogUnavailable, Record
from fleet.fold.dagger import Revision

PAGE: Final = 20
"""Default size of a page: each revision is read from the log."""


async def page(
    request: gateway_pb2.ListRevisionsRequest, log: Log, reader: StateReader, context: Context
) -> gateway_pb2.ListRevisionsResponse:
    """Return a page of a dagger's revisions, newest first.

    Raises: ApiError, UNAVAILABLE where Kafka does not answer, FAILED_PRECONDITION where the log is damaged.
    """
    of = f"revisions of {request.name}"
    requested, wrong = paging.read_page(request, of, default=PAGE)
    if requested.after and not requested.after.isdecimal():
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
    revisions = living(fleet, request.name).revisions
    older = [
        revision
        for revision in reversed(revisions)
        if not requested.after or revision.version < int(requested.after)
    ]
    wanted = older[: requested.size + 1]  # one more: the last of the page is compared with it
    try:
        records = await log.read([event.sequence for event in wanted])
    except LogUnavailable as error:
        raise unavailable_error(error, sequence) from error
    except LogDamaged as error:
        raise damage_error(str(error), sequence) from error
    listed, more = requested.cut(_build_revisions(wanted, records), lambda revision: str(revision.version))
    return gateway_pb2.ListRevisionsResponse(revisions=listed, next_page_token=more, sequence=sequence)


def _build_revisions(revisions: Sequence[Revision], records: Sequence[Record]) -> list[gateway_pb2.Revision]:
    """Convert records to revisions, newest first; each but the oldest has the changes that it made."""
    built = [_one(revision, record) for revision, record in zip(revisions, records, strict=True)]
    for newer, older in pairwise(built):
        newer.changes.extend(changes(older.spec, newer.spec))
    return built


def _one(revision: Revision, record: Record) -> gateway_pb2.Revision:
    event = record.message
    # the fold took its sequence from a DaggerRequested record
    assert isinstance(event, events_pb2.DaggerRequested)
    message = gateway_pb2.Revision(
        version=revision.version,
        sequence=revision.sequence,
        actor=event.meta.actor,
        message=event.meta.message,
        spec=fill_defaults(event.name, event.spec),
    )
    message.time.FromDatetime(record.time)
    return message
