"""Routes of a team's alerts: changed, listed and explained by people, folded with the alerts that they lead.

A gateway appends them to `daggers.alerts`, as silences.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC
from typing import Final

import grpc
from daggers.v1 import alerts_pb2, gateway_pb2
from google.protobuf.timestamp_pb2 import Timestamp

from api_gateway.not_found import no_dagger, no_entry
from api_gateway.rpc import paging, route_checks
from api_gateway.rpc.alert_log import Alerts
from api_gateway.rpc.alert_messages import build_alert
from api_gateway.rpc.matchers import check_label
from api_gateway.validate import request_fields
from chassis.errors import ApiError, invalid
from chassis.interceptors import actor
from chassis.logging import note
from daggerspec import fields, receivers
from daggerspec.violation import Violation
from fleet import Fleet
from fleet.alerts.alert import PLATFORM
from fleet.alerts.routing import silences
from fleet.alerts.routing.labels import Labels, list_labels
from fleet.alerts.routing.routes import keep_receivers
from fleet.alerts.routing.trees import build_destination, parse_routes
from fleet.alerts.team_routes import RouteRevision

pb = gateway_pb2
_MESSAGE: Final = 500
_SHOWN: Final = 100
"""Rerouted alerts of an answer, at most."""


async def apply(request: pb.ApplyRoutesRequest, alerts: Alerts, fleet: Fleet) -> pb.ApplyRoutesResponse:
    """Give a team a tree of routes, or check one. The same again changes nothing. Raises: ApiError."""
    kinds = _list_kinds(request.team, fleet)
    wrong = [*fields.text("message", request.message, limit=_MESSAGE)]
    if not request.HasField("routes"):
        wrong.append(Violation("routes", "must be a tree of routes", "REQUIRED"))
    wrong += route_checks.find_problems(request.routes, kinds, request.team)
    if wrong:
        raise invalid(wrong)
    newest = alerts.ledger.routes.newest(request.team)
    number = newest.number if newest else 0
    if request.HasField("expected_revision") and request.expected_revision != number:
        raise _overtaken_error(request.team, request.expected_revision, number)
    changed = newest is None or newest.message != request.routes
    tried = _try(request.routes, request.team, actor(), request.message, number)
    rerouted = _find_rerouted(tried, alerts, _name_all(request.team, fleet))
    note(team=request.team, changed=changed, rerouted=len(rerouted), validate_only=request.validate_only)
    current = tried
    if changed and not request.validate_only:
        event = alerts_pb2.RoutesChanged(
            team=request.team,
            routes=request.routes,
            actor=actor(),
            message=request.message,
            after_revision=number,
        )
        current = await _append(event, alerts)
    elif not changed:
        current = newest or tried
    return pb.ApplyRoutesResponse(
        revision=_build_revision(current),
        changed=changed,
        rerouted=rerouted[:_SHOWN],
        sequence=alerts.ledger.sequence,
    )


async def delete(request: pb.DeleteRoutesRequest, alerts: Alerts) -> pb.DeleteRoutesResponse:
    """Take a team's routes away. Where it has none, nothing changes. Raises: ApiError."""
    if wrong := [*fields.text("message", request.message, limit=_MESSAGE)]:
        raise invalid(wrong)
    newest = alerts.ledger.routes.newest(request.team)
    if newest is None:
        names = [team for team, revisions in alerts.ledger.routes.revisions.items() if revisions[-1].tree]
        raise no_entry("routes of team", request.team, names)
    note(team=request.team, validate_only=request.validate_only)
    if newest.tree is not None and not request.validate_only:
        event = alerts_pb2.RoutesChanged(
            team=request.team, actor=actor(), message=request.message, after_revision=newest.number
        )
        newest = await _append(event, alerts)
    return pb.DeleteRoutesResponse(revision=_build_revision(newest), sequence=alerts.ledger.sequence)


def list_page(request: pb.ListRoutesRequest, page: paging.Page, alerts: Alerts) -> pb.ListRoutesResponse:
    """Return a page of the newest routes of each team, or of the revisions of one."""
    revisions = alerts.ledger.routes.revisions
    chosen: Iterable[RouteRevision]
    if request.team:
        chosen = revisions.get(request.team, ())
    else:
        chosen = (of_team[-1] for of_team in revisions.values() if of_team[-1].tree is not None)
    by_key = {
        key: revision for revision in chosen if (key := _key(revision.team, revision.number)) > page.after
    }
    listed = [_build_revision(by_key[key]) for key in sorted(by_key)[: page.limit]]
    entries, more = page.cut(listed, lambda revision: _key(revision.team, revision.revision))
    note(routes=len(entries))
    return pb.ListRoutesResponse(revisions=entries, next_page_token=more, sequence=alerts.ledger.sequence)


def explain(request: pb.ExplainRouteRequest, alerts: Alerts, fleet: Fleet) -> pb.ExplainRouteResponse:
    """Say who would be told of an alert, why, and when. Raises: ApiError."""
    dagger = fleet.daggers.get(request.dagger)
    if dagger is None:
        raise no_dagger(request.dagger, fleet)
    team = dagger.spec.team
    wrong = [
        violation for label in sorted(request.labels) for violation in check_label(f"labels.{label}", label)
    ]
    if request.HasField("time"):
        wrong += request_fields.instant("time", request.time)
    if request.HasField("routes"):
        wrong += route_checks.find_problems(request.routes, _list_kinds(team, fleet), team)
    if wrong:
        raise invalid(wrong)
    labels: Labels = {**request.labels, "dagger": request.dagger, "team": team}
    now = request.time.ToDatetime(tzinfo=UTC) if request.HasField("time") else alerts.clock()
    routes = alerts.ledger.routes.in_force(team)
    if request.HasField("routes"):
        routes = _try(request.routes, team, "", "", -1)
    own = _name_all(team, fleet)
    destinations = list(keep_receivers(routes.find_destinations(labels), own)) if routes else []
    answer = pb.ExplainRouteResponse(team=team, revision=routes.number if routes else 0)
    for destination in destinations:
        explained = answer.routes.add(destination=build_destination(destination))
        explained.group.update({label: labels.get(label, "") for label in destination.group_by})
        first = destination.find_active(now + destination.group_wait)
        if first is not None:
            explained.first_notice.FromDatetime(first)
    if not destinations:
        answer.platform = bool(routes) or not own
        answer.receivers.extend(_name_all(PLATFORM, fleet) if answer.platform else own)
    silence = silences.find_silence(alerts.ledger.silences.values(), labels, now)
    if silence is not None:
        answer.silence.CopyFrom(silences.build_message(silence))
    return answer


async def _append(event: alerts_pb2.RoutesChanged, alerts: Alerts) -> RouteRevision:
    """Append a change, and return the revision that it made. Raises: ApiError, where another came first."""
    id_ = f"routes/{event.team}/{uuid.uuid4().hex}"
    sequence = await alerts.append(id_, f"team/{event.team}", event, "")
    for revision in alerts.ledger.routes.revisions.get(event.team, ()):
        if revision.sequence == sequence:
            return revision
    newest = alerts.ledger.routes.newest(event.team)
    raise _overtaken_error(event.team, event.after_revision, newest.number if newest else 0)


def _try(
    message: alerts_pb2.AlertRoute, team: str, actor_: str, why: str, after_revision: int
) -> RouteRevision:
    """Build the revision that a tree would be. Raises: ApiError, where it cannot be read."""
    try:
        tree = parse_routes(message, team)
    except (ValueError, OverflowError) as error:
        raise invalid([Violation("routes", str(error), "INVALID_ROUTES")]) from error
    return RouteRevision(
        team=team,
        number=after_revision + 1,
        message=message,
        tree=tree,
        actor=actor_,
        why=why,
        time=None,
        sequence=0,
    )


def _find_rerouted(tried: RouteRevision, alerts: Alerts, own: Collection[str]) -> list[pb.ReroutedAlert]:
    """List the open alerts of a team that would be told to others."""
    ledger, rerouted = alerts.ledger, list[pb.ReroutedAlert]()
    for alert in ledger.list_open():
        if alert.fired is None or alert.fired.team != tried.team:
            continue
        destinations = keep_receivers(tried.find_destinations(list_labels(alert)), own)
        after = list(dict.fromkeys(name for destination in destinations for name in destination.receivers))
        if sorted(after) != sorted(alert.fired.receivers):
            message = build_alert(alert, ledger, alerts.clock())
            rerouted.append(pb.ReroutedAlert(alert=message, before=alert.fired.receivers, after=after))
    return sorted(rerouted, key=lambda one: (one.alert.dagger, one.alert.id))


def _list_kinds(team: str, fleet: Fleet) -> Sequence[str]:
    """List the kinds of a team's receivers. Raises: ApiError, where the team is not registered."""
    entry = fleet.catalogue.teams.get(team)
    if entry is None:
        raise no_entry("team", team, fleet.catalogue.teams)
    return [receiver.kind for receiver in entry.value.receivers]


def _name_all(team: str, fleet: Fleet) -> list[str]:
    entry = fleet.catalogue.teams.get(team)
    return [receivers.name(team, receiver.kind) for receiver in entry.value.receivers] if entry else []


def _build_revision(revision: RouteRevision) -> pb.RoutesRevision:
    time = Timestamp()
    if revision.time is not None:
        time.FromDatetime(revision.time)
    return pb.RoutesRevision(
        team=revision.team,
        revision=revision.number,
        routes=revision.message,
        actor=revision.actor,
        message=revision.why,
        time=time if revision.time is not None else None,
        sequence=revision.sequence,
    )


def _key(team: str, number: int) -> str:
    """Return the key by which revisions are sorted: by team, the newest first."""
    return f"{team} {10**12 - number:013}"


def _overtaken_error(team: str, expected: int, newest: int) -> ApiError:
    text = (
        f"the routes of team {team} are at revision {newest}, not {expected}: look at them, and apply again"
    )
    metadata = {"team": team, "expected": str(expected), "newest": str(newest)}
    return ApiError(grpc.StatusCode.ABORTED, "REVISION_MISMATCH", text, metadata)
