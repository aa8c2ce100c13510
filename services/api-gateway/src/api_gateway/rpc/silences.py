"""Silences of alerts: created and ended by people, folded with the alerts that they hold back.

A gateway writes them to `daggers.alerts`: who folds that topic, monitors and gateways, sees the same silences
in the same order as the alerts.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Final

import grpc
from daggers.v1 import alerts_pb2, gateway_pb2

from api_gateway.not_found import no_silence
from api_gateway.rpc import paging
from api_gateway.rpc.alert_log import Alerts
from api_gateway.rpc.matchers import read_matchers
from api_gateway.validate import request_fields
from chassis.errors import ApiError, invalid
from chassis.interceptors import actor
from chassis.logging import note
from daggerspec import fields
from daggerspec.violation import Violation
from fleet.alerts.routing.matching import parse_matcher
from fleet.alerts.routing.silences import LONGEST, Silence, build_message, find_problems, parse_silence
from fleet.fold.answers import REUSED

pb = gateway_pb2
MOST_MATCHERS: Final = 20
MOST_ACTIVE: Final = 100
"""Silences of a team that are not over: monitors match them against each alert that is due."""
_REASON: Final = 500
_LATEST: Final = datetime.max.replace(tzinfo=UTC) - 2 * LONGEST
"""Latest begin whose end is an instant; one like it is refused, as it is too far ahead."""


async def create(request: pb.CreateSilenceRequest, alerts: Alerts) -> pb.CreateSilenceResponse:
    """Create a silence, or check one. Asked again with the same request id, the answer is the first one.

    Raises: ApiError.
    """
    now, ledger = alerts.clock(), alerts.ledger
    number = _number(request.request_id or uuid.uuid4().hex)
    id_ = f"{request.team}/{number}" if request.team else number
    before = ledger.silences.get(id_)
    if before is not None:
        if not _asks_for(request, before):
            raise _reused_error(request.request_id)
        return pb.CreateSilenceResponse(
            silence=build_message(before), alerts=ledger.count_matches(before), sequence=ledger.sequence
        )
    silence = _read(request, id_, now)
    active = sum(other.team == silence.team and other.end > now for other in ledger.silences.values())
    if active >= MOST_ACTIVE:
        raise _too_many_error(silence.team, active)
    message, matched, sequence = build_message(silence), ledger.count_matches(silence), 0
    note(silence=id_, alerts=matched, validate_only=request.validate_only)
    if request.validate_only:
        message.id = ""
    else:
        created = alerts_pb2.SilenceCreated(silence=message)
        sequence = await alerts.append(f"silence/{id_}", id_, created, request.request_id)
    return pb.CreateSilenceResponse(silence=message, alerts=matched, sequence=sequence)


def list_page(request: pb.ListSilencesRequest, page: paging.Page, alerts: Alerts) -> pb.ListSilencesResponse:
    """Return a page of the silences that are not over, with `include_ended` of all, by their ends."""
    now = alerts.clock()
    selected = {
        key: silence
        for silence in alerts.ledger.silences.values()
        if (silence.end > now or request.include_ended) and (key := _key(silence)) > page.after
    }
    listed = [_list(selected[key], alerts) for key in sorted(selected)[: page.limit]]
    silences, more = page.cut(listed, lambda one: _key(parse_silence(one.silence)))
    note(silences=len(silences))
    return pb.ListSilencesResponse(silences=silences, next_page_token=more, sequence=alerts.ledger.sequence)


async def expire(request: pb.ExpireSilenceRequest, alerts: Alerts) -> pb.ExpireSilenceResponse:
    """End a silence now; one that is over stays as it is. Raises: ApiError."""
    silences = alerts.ledger.silences
    before = silences.get(request.id)
    if before is None:
        raise no_silence(request.id, silences)
    note(silence=before.id, validate_only=request.validate_only)
    if before.end > alerts.clock() and not request.validate_only:
        expired = alerts_pb2.SilenceExpired(silence_id=before.id, actor=actor())
        await alerts.append(f"silence/{before.id}/expired", before.id, expired, "")
    return pb.ExpireSilenceResponse(
        silence=_list(silences[before.id], alerts), sequence=alerts.ledger.sequence
    )


def _number(request_id: str) -> str:
    """Return the digits of a silence's id: of two callers no two are the same, whatever id they chose."""
    return blake2b(f"{actor()} {request_id}".encode(), digest_size=5).hexdigest()


def _asks_for(request: pb.CreateSilenceRequest, silence: Silence) -> bool:
    """Tell whether a request that is repeated is the one of a silence."""
    try:
        matchers, lasts = tuple(map(parse_matcher, request.matchers)), request.duration.ToTimedelta()
    except (ValueError, OverflowError):
        return False
    is_as_long = bool(silence.ended_by) or lasts == silence.end - silence.begin
    return is_as_long and (matchers, request.reason) == (silence.matchers, silence.reason)


def _read(request: pb.CreateSilenceRequest, id_: str, now: datetime) -> Silence:
    """Return the silence that a request is for. Raises: ApiError with all that is wrong."""
    matchers, of_matchers = read_matchers("matchers", request.matchers[:MOST_MATCHERS])
    wrong = [*_find_violations(request), *of_matchers]
    if wrong:
        raise invalid(wrong)
    begin = request.begin.ToDatetime(tzinfo=UTC) if request.HasField("begin") else now
    silence = Silence(
        id=id_,
        matchers=tuple(matchers),
        begin=begin,
        end=min(begin, _LATEST) + request.duration.ToTimedelta(),
        author=actor(),
        reason=request.reason,
        team=request.team,
    )
    problems = [Violation(field, why, "INVALID_SILENCE") for field, why in find_problems(silence, now)]
    if problems:
        raise invalid(problems)
    return silence


def _find_violations(request: pb.CreateSilenceRequest) -> Iterator[Violation]:
    """Yield what is wrong with a request but for its matchers, each by itself."""
    if request.team:
        yield from fields.team("team", request.team)
    if len(request.matchers) > MOST_MATCHERS:
        many = f"must not be more than {MOST_MATCHERS}, and are {len(request.matchers)}"
        yield Violation("matchers", many, "TOO_MANY")
    if request.HasField("begin"):
        yield from request_fields.instant("begin", request.begin)
    yield from fields.duration("duration", request.duration, positive=True)
    yield from fields.text("reason", request.reason, limit=_REASON)
    yield from request_fields.request_id("request_id", request.request_id)


def _list(silence: Silence, alerts: Alerts) -> pb.ListedSilence:
    return pb.ListedSilence(
        silence=build_message(silence), ended_by=silence.ended_by, alerts=alerts.ledger.count_matches(silence)
    )


def _key(silence: Silence) -> str:
    """Return the key by which silences are sorted, and which ends a page: end and id."""
    return f"{silence.end.isoformat(timespec='microseconds')} {silence.id}"


def _too_many_error(team: str, active: int) -> ApiError:
    of = f"team {team}" if team else "the platform"
    text = f"{of} has {active} silences that are not over, of {MOST_ACTIVE}: end some, or use wider matchers"
    metadata = {"team": team, "limit": str(MOST_ACTIVE)}
    return ApiError(grpc.StatusCode.FAILED_PRECONDITION, "TOO_MANY_SILENCES", text, metadata)


def _reused_error(request_id: str) -> ApiError:
    text = f"request_id {request_id!r} was used for another silence; use a new one for a new silence"
    return ApiError(grpc.StatusCode.INVALID_ARGUMENT, REUSED, text, {"request_id": request_id})
