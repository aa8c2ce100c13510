"""Views of answers: each removes what a principal may not see.

Names of daggers, their teams, clusters and phases are everybody's: a platform that hides that something
exists cannot be operated. All else of a dagger is its team's. A view returns the message that it is given,
changed, or another one; None: nothing of this step is shown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from daggers.v1 import access_pb2, events_pb2, gateway_pb2, spec_pb2
from google.protobuf.message import DecodeError, Message

from access.decision import Action, is_administrator, may
from access.principal import Principal
from daggerspec.protobuf import is_map
from fleet import Fleet
from fleet.alerts.alert import PRINCIPAL
from fleet.fold.fleet import is_of_dagger

View: TypeAlias = Callable[[Principal, Any, Fleet], Any]

_OF_ALL: Final = frozenset(
    kind.DESCRIPTOR.full_name
    for kind in (
        events_pb2.SchemaRegistered,
        events_pb2.SchemaRemoved,
        events_pb2.StreamRegistered,
        events_pb2.StreamRemoved,
        events_pb2.ReferenceRegistered,
        events_pb2.ReferenceRemoved,
        events_pb2.ClusterRemoved,
        events_pb2.TeamRemoved,
        events_pb2.SecretRemoved,
        events_pb2.SinkRegistered,
        events_pb2.SinkRemoved,
        events_pb2.DestinationGiven,
        events_pb2.DestinationReleased,
        events_pb2.SchedulerStarted,
    )
)
"""Events of no dagger that everybody may read. The others are the administrators': where clusters have their
secrets, members of teams, hashes of tokens, addresses of hosts."""
_REQUESTED: Final = events_pb2.DaggerRequested.DESCRIPTOR.full_name


def whole(_principal: Principal, answer: Any, _fleet: Fleet) -> Any:
    """Show an answer as it is: all of it belongs to what the call was allowed for."""
    return answer


def without_secrets(principal: Principal, answer: Any, fleet: Fleet) -> Any:
    """Show an answer without references to secrets, to all but administrators."""
    if not is_administrator(principal, fleet):
        _strip(answer)
    return answer


def one_dagger(principal: Principal, answer: Any, fleet: Fleet) -> Any:
    """Show an answer with a field `dagger`: of another team's dagger what is everybody's."""
    if answer.HasField("dagger"):
        answer.dagger.CopyFrom(_dagger(principal, answer.dagger, fleet))
    return answer


def daggers(principal: Principal, answer: gateway_pb2.ListDaggersResponse, fleet: Fleet) -> Any:
    """Show a page of daggers: of another team's what is everybody's."""
    for dagger in answer.daggers:
        dagger.CopyFrom(_dagger(principal, dagger, fleet))
    return answer


def revisions(principal: Principal, answer: gateway_pb2.ListRevisionsResponse, fleet: Fleet) -> Any:
    """Show a page of revisions: of one of another team its team and cluster, of one from there no changes."""

    def reads(team: str) -> bool:
        return may(principal, Action.READ, team, fleet).allowed

    for revision in answer.revisions:
        before = [change.before for change in revision.changes if change.field == "team"]
        if not all(map(reads, (revision.spec.team, *before))):
            del revision.changes[:]
        if not reads(revision.spec.team):
            revision.ClearField("message")
            revision.spec.CopyFrom(
                spec_pb2.DaggerSpec(team=revision.spec.team, cluster=revision.spec.cluster)
            )
    return answer


def event(principal: Principal, step: gateway_pb2.WatchEventsResponse, fleet: Fleet) -> Any:
    """Show a step of WatchEvents: of another team's event its type, subject and time."""
    match step.WhichOneof("step"):
        case "snapshot":
            step.snapshot.CopyFrom(_dagger(principal, step.snapshot, fleet))
        case "event" if not _reads_event(principal, step.event, fleet):
            step.event.ClearField("data")
            step.event.ClearField("refused")
    return step


def vitals(principal: Principal, step: gateway_pb2.WatchVitalsResponse, fleet: Fleet) -> Any:
    """Show a step of WatchVitals: the vitals of daggers that the principal may read."""
    if is_administrator(principal, fleet):
        return step
    visible = [vital for vital in step.vitals if _reads_dagger(principal, vital.dagger, fleet)]
    if len(visible) == len(step.vitals):
        return step
    # All who watch share the step: it must not change for the others.
    return gateway_pb2.WatchVitalsResponse(
        vitals=visible, gone=step.gone, changed=step.changed, sequence=step.sequence
    )


def alerts(principal: Principal, answer: gateway_pb2.ListAlertsResponse, fleet: Fleet) -> Any:
    """Show a page of alerts without those of other teams, so that it may be shorter than its page size."""
    visible = [incident for incident in answer.alerts if _reads_alert(principal, incident, fleet)]
    if len(visible) != len(answer.alerts):
        del answer.alerts[:]
        answer.alerts.extend(visible)
    return answer


def silences(principal: Principal, answer: gateway_pb2.ListSilencesResponse, fleet: Fleet) -> Any:
    """Show a page of silences without those of other teams: those of all teams are everybody's matter."""
    visible = [listed for listed in answer.silences if _reads_silence(principal, listed.silence.team, fleet)]
    if len(visible) != len(answer.silences):
        del answer.silences[:]
        answer.silences.extend(visible)
    return answer


def routes(principal: Principal, answer: gateway_pb2.ListRoutesResponse, fleet: Fleet) -> Any:
    """Show a page of routes without those of other teams."""
    visible = [
        revision for revision in answer.revisions if may(principal, Action.READ, revision.team, fleet).allowed
    ]
    if len(visible) != len(answer.revisions):
        del answer.revisions[:]
        answer.revisions.extend(visible)
    return answer


def alert(principal: Principal, step: gateway_pb2.WatchAlertsResponse, fleet: Fleet) -> Any:
    """Show a step of WatchAlerts; None of another team's, as a step without alert ends the snapshot."""
    return None if step.HasField("alert") and not _reads_alert(principal, step.alert, fleet) else step


def quarantine_groups(
    principal: Principal, answer: gateway_pb2.SummarizeQuarantineResponse, fleet: Fleet
) -> Any:
    """Show the groups of quarantined records of daggers that the principal may read."""
    visible = [group for group in answer.groups if _reads_dagger(principal, group.dagger, fleet)]
    if len(visible) != len(answer.groups):
        del answer.groups[:]
        answer.groups.extend(visible)
    return answer


def one_team(principal: Principal, answer: gateway_pb2.GetTeamResponse, fleet: Fleet) -> Any:
    """Show a team, with its members only to them."""
    _team(principal, answer.team, fleet)
    return answer


def teams(principal: Principal, answer: gateway_pb2.ListTeamsResponse, fleet: Fleet) -> Any:
    """Show a page of teams, each with its members only to them."""
    for team in answer.teams:
        _team(principal, team, fleet)
    return answer


def accounts(principal: Principal, answer: gateway_pb2.ListServiceAccountsResponse, fleet: Fleet) -> Any:
    """Show a page of service accounts without those of other teams: it may be shorter than its page size."""
    visible = [
        account for account in answer.accounts if may(principal, Action.READ, account.team, fleet).allowed
    ]
    if len(visible) != len(answer.accounts):
        del answer.accounts[:]
        answer.accounts.extend(visible)
    return answer


def one_secret(principal: Principal, answer: gateway_pb2.GetSecretResponse, fleet: Fleet) -> Any:
    """Show a secret, with its place only to its team."""
    _secret(principal, answer.secret, fleet)
    return answer


def secrets(principal: Principal, answer: gateway_pb2.ListSecretsResponse, fleet: Fleet) -> Any:
    """Show a page of secrets, each with its place only to its team."""
    for secret in answer.secrets:
        _secret(principal, secret, fleet)
    return answer


def _secret(principal: Principal, secret: spec_pb2.Secret, fleet: Fleet) -> None:
    if not may(principal, Action.READ, secret.team, fleet).allowed:
        secret.ClearField("place")


def _team(principal: Principal, team: access_pb2.Team, fleet: Fleet) -> None:
    if not may(principal, Action.READ, team.name, fleet).allowed:
        del team.members[:]
    if not is_administrator(principal, fleet):
        _strip(team)


def _dagger(principal: Principal, dagger: gateway_pb2.Dagger, fleet: Fleet) -> gateway_pb2.Dagger:
    if is_administrator(principal, fleet):
        return dagger
    if may(principal, Action.READ, dagger.spec.team, fleet).allowed:
        for sink in dagger.sinks:  # what its team wrote stands in `spec`; this is filled in from clusters
            _strip(sink)
        return dagger
    return gateway_pb2.Dagger(
        name=dagger.name,
        spec=spec_pb2.DaggerSpec(team=dagger.spec.team, cluster=dagger.spec.cluster),
        desired=dagger.desired,
        phase=dagger.phase,
        phase_time=dagger.phase_time if dagger.HasField("phase_time") else None,
        create_sequence=dagger.create_sequence,
    )


def _reads_event(principal: Principal, event: gateway_pb2.Event, fleet: Fleet) -> bool:
    if is_administrator(principal, fleet):
        return True
    if not is_of_dagger(event.type):
        return event.type in _OF_ALL
    dagger = fleet.daggers.get(event.subject)
    # An earlier dagger of the name may have been anybody's.
    if dagger is None or event.sequence < dagger.create_sequence:
        return False
    teams = {dagger.spec.team}
    if event.type == _REQUESTED:
        try:
            teams.add(events_pb2.DaggerRequested.FromString(event.data.value).spec.team)
        except DecodeError:
            return False
    return all(may(principal, Action.READ, team, fleet).allowed for team in teams)


def _reads_dagger(principal: Principal, name: str, fleet: Fleet) -> bool:
    dagger = fleet.daggers.get(name)
    team = "" if dagger is None else dagger.spec.team
    return may(principal, Action.READ, team, fleet).allowed


def _reads_alert(principal: Principal, alert: gateway_pb2.Alert, fleet: Fleet) -> bool:
    if alert.dagger.startswith(PRINCIPAL):  # who tries what is told as the audit is
        return is_administrator(principal, fleet)
    if alert.team:
        return may(principal, Action.READ, alert.team, fleet).allowed
    return _reads_dagger(principal, alert.dagger, fleet)


def _reads_silence(principal: Principal, team: str, fleet: Fleet) -> bool:
    return not team or may(principal, Action.READ, team, fleet).allowed


def _strip(message: Message) -> None:
    """Remove every reference to a secret from a message."""
    for field, value in message.ListFields():
        kind = field.message_type
        if kind is None:
            continue
        if is_map(field):
            of = kind.fields_by_name["value"].message_type
            if of is spec_pb2.SecretRef.DESCRIPTOR:
                message.ClearField(field.name)
        elif kind is spec_pb2.SecretRef.DESCRIPTOR:
            message.ClearField(field.name)
        else:
            for item in value if field.is_repeated else (value,):
                _strip(item)
