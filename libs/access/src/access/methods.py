"""Rules of every method of the gateway: its action, the teams a request is about, the view of an answer.

A method that is not in the table is not served: whoever adds one says here who may call it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from daggers.v1 import audit_pb2

from access import views
from access.audits import PREVIEW, READ, SINK_TEST, Kind
from access.decision import Action, Decision, change_on, may, may_read, may_sample, may_send
from access.principal import Principal
from daggerspec.places import Place
from fleet import Fleet
from fleet.alerts import alert
from fleet.alerts.alert import PREFIXES, TEAM
from fleet.fold.tenancy import PLATFORM

Teams = Callable[[Any, Fleet], Iterable[str]]
"""The teams that a request is about: it is allowed when it is in each of them. None: it names
nothing, or what is not there, and the handler says so."""

Clusters = Callable[[Any, Fleet], Iterable[str]]
"""The clusters that a request is about: where the dagger runs that it names, and where it is to run."""


Streams = Callable[[Any, Fleet], Iterable[str]]
"""The streams that a request is about."""


def _nowhere(_request: Any, _fleet: Fleet) -> Iterable[str]:
    return ()


def _no_streams(_request: Any, _fleet: Fleet) -> Iterable[str]:
    return ()


@dataclass(frozen=True, slots=True)
class Rule:
    """The access rule of one method: who may call it, and what they see of its answer."""

    action: Action
    teams: Teams
    view: views.View = views.whole
    """View of an answer, or of a step of one."""
    clusters: Clusters = _nowhere
    """Clusters on which the action CHANGE is judged: where all are playgrounds it is PLAY."""
    specifies: bool = False
    """The request has a specification: its streams must be granted to its team, and the places of its secrets
    allowed."""
    sends: bool = True
    """The sinks of that specification are written to, some day."""
    samples_stream: bool = False
    """The answer has records of the stream in the field `name`."""
    always: bool = False
    """The rule holds also at a gateway that only observes: what the method writes stays when that enforces,
    and what it shows nobody was shown before."""
    audited: Kind.ValueType = audit_pb2.AUDIT_KIND_UNSPECIFIED
    """Audit kind of every call, refused or not, of a method that answers what tenants' records say, or
    reaches their servers. Unspecified: only refused calls are audited."""
    audits: Streams = _no_streams
    """The streams of which its answers may show records."""


def decide(
    principal: Principal, method: str, request: Any, fleet: Fleet, places: Sequence[Place] = ()
) -> Decision:
    """Decide whether a principal may make this call.

    method: as gRPC names it, /daggers.v1.SERVICE/METHOD.
    places: where secrets may be that specifications find by themselves.
    Raises: KeyError for a method that is not in the table.
    """
    rule = METHODS[method]
    action = rule.action
    if action is Action.CHANGE:
        action = change_on(rule.clusters(request, fleet), fleet)
    decision = may(principal, Action.LOOK_AROUND, PLATFORM, fleet)
    for team in dict.fromkeys(rule.teams(request, fleet)):
        if decision.allowed:
            decision = may(principal, action, team, fleet)
    if rule.specifies:
        for stream in dict.fromkeys(stream.stream for stream in request.spec.streams):
            if decision.allowed:
                decision = may_read(principal, request.spec.team, stream, fleet)
        if decision.allowed and rule.sends:
            decision = may_send(principal, request.name, request.spec, fleet, places)
    if rule.samples_stream and decision.allowed:
        decision = may_sample(principal, request.name, fleet)
    return decision


# ---- Whose a request is ------------------------------------------------------------------------------------


def _nobodys(_request: Any, _fleet: Fleet) -> Iterable[str]:
    return ()


def _platform(_request: Any, _fleet: Fleet) -> Iterable[str]:
    return (PLATFORM,)


def _of_name(request: Any, fleet: Fleet) -> Iterable[str]:
    """Return the team of the dagger in the field `name`; also of a deleted one, which still has a log."""
    return _of_dagger(request.name, fleet)


def _about(request: Any, fleet: Fleet) -> Iterable[str]:
    """Return the team of the dagger in the field `dagger`."""
    return _of_dagger(request.dagger, fleet)


def _of_dagger(name: str, fleet: Fleet) -> Iterable[str]:
    dagger = fleet.daggers.get(name)
    return () if dagger is None else (dagger.spec.team,)


def _in(request: Any, _fleet: Fleet) -> Iterable[str]:
    """Return the team in the field `team`; the platform where it is empty."""
    return (request.team,)


def _account(request: Any, fleet: Fleet) -> Iterable[str]:
    """Return the team of the account in the field `name`."""
    account = fleet.catalogue.accounts.get(request.name)
    return () if account is None else (account.value.team,)


def _destination(request: Any, fleet: Fleet) -> Iterable[str]:
    """Return the team that owns the destination in the field `name`."""
    destination = fleet.catalogue.destinations.get(request.name)
    return () if destination is None else (destination.value.team,)


def _registers_secret(request: Any, fleet: Fleet) -> Iterable[str]:
    """Return the team that is to have the secret, and the one that has it."""
    return (request.secret.team, *_secret(request.secret, fleet))


def _secret(request: Any, fleet: Fleet) -> Iterable[str]:
    """Return the team of the secret in the field `name`."""
    secret = fleet.catalogue.secrets.get(request.name)
    return () if secret is None else (secret.value.team,)


def _registers_sink(request: Any, fleet: Fleet) -> Iterable[str]:
    """Return the teams that are to write to the sink, and those that do."""
    return (*(request.sink.teams or (PLATFORM,)), *_sink(request.sink, fleet))


def _sink(request: Any, fleet: Fleet) -> Iterable[str]:
    """Return the teams that may write to the sink in the field `name`; the platform where all may."""
    sink = fleet.catalogue.sinks.get(request.name)
    return () if sink is None else (sink.value.teams or (PLATFORM,))


def _of_sink_test(request: Any, fleet: Fleet) -> Iterable[str]:
    """Return the team of the specification, and those that may write to the registered sink."""
    specified = (request.spec.team,) if request.HasField("spec") else ()
    sink = fleet.catalogue.sinks.get(request.sink)
    return specified if sink is None else (*specified, *(sink.value.teams or (PLATFORM,)))


def _of_alerts(request: Any, fleet: Fleet) -> Iterable[str]:
    """Return the team whose alerts are meant; the platform for those of no dagger and no team."""
    name = request.alerts.dagger
    if name.startswith(TEAM):
        return (name.removeprefix(TEAM),)
    if name == alert.PLATFORM or name.startswith(PREFIXES):
        return (PLATFORM,)
    return _of_dagger(name, fleet)


def _of_silence(request: Any, _fleet: Fleet) -> Iterable[str]:
    """Return the team in the id of a silence, TEAM/NUMBER; the platform where it has none."""
    return (request.id.rpartition("/")[0],)


def _of_spec(request: Any, _fleet: Fleet) -> Iterable[str]:
    return (request.spec.team,)


def _of_spec_if_any(request: Any, _fleet: Fleet) -> Iterable[str]:
    """Return the team of the specification; none of one that may be checked before it has a team."""
    return (request.spec.team,) if request.spec.team else ()


def _of_edit(request: Any, fleet: Fleet) -> Iterable[str]:
    """Return the team that has the dagger, and the one that is to have it."""
    living = fleet.living(request.name)
    return (request.spec.team,) if living is None else (living.spec.team, request.spec.team)


def _of_readers(request: Any, fleet: Fleet) -> Iterable[str]:
    """Return the team of the dagger in the field `dagger`; where it is empty, of all that read the stream."""
    names = [request.dagger] if request.dagger else fleet.readers(request.stream)
    return [team for name in names for team in _of_dagger(name, fleet)]


def _runs_on(request: Any, fleet: Fleet) -> Iterable[str]:
    """Return the cluster of the dagger in the field `name`."""
    return _of_living(request.name, fleet)


def _about_on(request: Any, fleet: Fleet) -> Iterable[str]:
    """Return the cluster of the dagger in the field `dagger`."""
    return _of_living(request.dagger, fleet)


def _of_living(name: str, fleet: Fleet) -> Iterable[str]:
    living = fleet.living(name)
    return () if living is None else (living.spec.cluster,)


def _to_run_on(request: Any, fleet: Fleet) -> Iterable[str]:
    """Return the cluster of the dagger in the field `name`, and that of the specification."""
    return (*_runs_on(request, fleet), request.spec.cluster)


# ---- What may be shown -------------------------------------------------------------------------------------


def _streams_specified(request: Any, _fleet: Fleet) -> Iterable[str]:
    return (stream.stream for stream in request.spec.streams)


def _stream_named(request: Any, _fleet: Fleet) -> Iterable[str]:
    return (request.name,)


def _streams_of_named(request: Any, fleet: Fleet) -> Iterable[str]:
    return _streams_of(request.name, fleet)


def _streams_of_dagger(request: Any, fleet: Fleet) -> Iterable[str]:
    return _streams_of(request.dagger, fleet)


def _streams_of(name: str, fleet: Fleet) -> Iterable[str]:
    dagger = fleet.daggers.get(name)
    return () if dagger is None else (stream.stream for stream in dagger.spec.streams)


# ---- The table ---------------------------------------------------------------------------------------------

_LOOK: Final = Rule(Action.LOOK_AROUND, _nobodys)
_REGISTER: Final = Rule(Action.CATALOGUE, _platform)

_BY_SERVICE: Final[Mapping[str, Mapping[str, Rule]]] = {
    "DaggerService": {
        "CreateDagger": Rule(Action.CHANGE, _of_spec, views.one_dagger, clusters=_to_run_on, specifies=True),
        "ApplyDagger": Rule(Action.CHANGE, _of_edit, views.one_dagger, clusters=_to_run_on, specifies=True),
        "PlanDagger": Rule(Action.READ, _of_edit, specifies=True),
        "PreviewDagger": Rule(
            Action.READ, _of_spec, specifies=True, sends=False, audited=PREVIEW, audits=_streams_specified
        ),
        # of records that the caller gives: it shows nobody's
        "TestDagger": Rule(Action.READ, _of_spec, specifies=True, sends=False),
        "UpdateDagger": Rule(Action.CHANGE, _of_edit, views.one_dagger, clusters=_to_run_on, specifies=True),
        "GetDagger": Rule(Action.LOOK_AROUND, _nobodys, views.one_dagger),
        "ListDaggers": Rule(Action.LOOK_AROUND, _nobodys, views.daggers),
        "ListRevisions": Rule(Action.READ, _of_name, views.revisions),
        "DeleteDagger": Rule(Action.DELETE, _of_name, views.one_dagger),
        "StartDagger": Rule(Action.CHANGE, _of_name, views.one_dagger, clusters=_runs_on),
        "StopDagger": Rule(Action.CHANGE, _of_name, views.one_dagger, clusters=_runs_on),
        "RestartDagger": Rule(Action.CHANGE, _of_name, views.one_dagger, clusters=_runs_on),
        "PauseSink": Rule(Action.CHANGE, _of_name, views.one_dagger, clusters=_runs_on),
        "ResumeSink": Rule(Action.CHANGE, _of_name, views.one_dagger, clusters=_runs_on),
        "WatchEvents": Rule(Action.LOOK_AROUND, _nobodys, views.event),
        "ReadLog": Rule(Action.READ, _of_name, audited=READ, audits=_streams_of_named),
        "ReadRows": Rule(Action.READ, _of_name, audited=READ, audits=_streams_of_named),
        "WatchRows": Rule(Action.READ, _of_name, audited=READ, audits=_streams_of_named),
        "DescribeArchive": Rule(Action.READ, _of_name),
        "WatchVitals": Rule(Action.READ, _of_name, views.vitals),
        "ReadMetrics": Rule(Action.READ, _of_name),
        "WaitCompleted": Rule(Action.READ, _of_readers),
        "Validate": Rule(Action.VALIDATE, _of_spec_if_any, specifies=True),
    },
    "CatalogService": {
        "RegisterCluster": _REGISTER,
        "GetCluster": Rule(Action.LOOK_AROUND, _nobodys, views.without_secrets),
        "ListClusters": Rule(Action.LOOK_AROUND, _nobodys, views.without_secrets),
        "DeleteCluster": _REGISTER,
        "RegisterSchema": _REGISTER,
        "CompileSchema": _REGISTER,
        "ListSchemas": _LOOK,
        "GetSchema": _LOOK,
        "DeleteSchema": _REGISTER,
        "RegisterStream": _REGISTER,
        "GetStream": _LOOK,
        "ListStreams": _LOOK,
        "DescribeStream": _LOOK,
        "SampleStream": Rule(
            Action.LOOK_AROUND, _nobodys, samples_stream=True, audited=READ, audits=_stream_named
        ),
        "DiscoverTopics": Rule(Action.CATALOGUE, _platform, audited=READ),
        "ListFunctions": _LOOK,
        "DeleteStream": _REGISTER,
        "RegisterReference": _REGISTER,
        "GetReference": _LOOK,
        "ListReferences": _LOOK,
        "DeleteReference": _REGISTER,
    },
    "AccessService": {
        "RegisterTeam": Rule(Action.TEAMS, _platform, always=True),
        "GetTeam": Rule(Action.LOOK_AROUND, _nobodys, views.one_team),
        "ListTeams": Rule(Action.LOOK_AROUND, _nobodys, views.teams),
        "GetTeamUsage": Rule(Action.READ, _in),
        "DeleteTeam": Rule(Action.TEAMS, _platform, always=True),
        "GrantRole": Rule(Action.MEMBERS, _in, always=True),
        "RevokeRole": Rule(Action.MEMBERS, _in, always=True),
        "CreateServiceAccount": Rule(Action.ACCOUNTS, _in, always=True),
        "RotateServiceAccount": Rule(Action.ACCOUNTS, _account, always=True),
        "RevokeServiceAccount": Rule(Action.ACCOUNTS, _account, always=True),
        "ListServiceAccounts": Rule(Action.LOOK_AROUND, _nobodys, views.accounts),
        "SetStreamGrant": Rule(Action.GRANTS, _platform, always=True),
        "ListStreamGrants": _LOOK,
        "ListDestinations": _LOOK,
        "GiveDestination": Rule(Action.GIVE, _platform, always=True),
        "ReleaseDestination": Rule(Action.RELEASE, _destination, always=True),
        "ListDestinationConflicts": _LOOK,
        "WhoAmI": _LOOK,
    },
    "SinkService": {
        "RegisterSecret": Rule(Action.SINKS, _registers_secret, always=True),
        "GetSecret": Rule(Action.LOOK_AROUND, _nobodys, views.one_secret, always=True),
        "ListSecrets": Rule(Action.LOOK_AROUND, _nobodys, views.secrets, always=True),
        "DeleteSecret": Rule(Action.SINKS, _secret, always=True),
        "RegisterSink": Rule(Action.SINKS, _registers_sink, always=True),
        "GetSink": _LOOK,
        "ListSinks": _LOOK,
        "DeleteSink": Rule(Action.SINKS, _sink, always=True),
        "TestSink": Rule(Action.CHANGE, _of_sink_test, specifies=True, audited=SINK_TEST),
    },
    "QuarantineService": {
        "ListQuarantined": Rule(Action.READ, _about, audited=READ, audits=_streams_of_dagger),
        "SummarizeQuarantine": Rule(Action.READ, _about, views.quarantine_groups),
        "GetQuarantined": Rule(Action.READ, _about, audited=READ, audits=_streams_of_dagger),
        "ReplayQuarantined": Rule(Action.CHANGE, _about, clusters=_about_on),
        "GetReplay": Rule(Action.READ, _about),
        "DiscardQuarantined": Rule(Action.CHANGE, _about, clusters=_about_on),
        "AllowRefusals": Rule(Action.CHANGE, _about, clusters=_about_on),
    },
    "AuditService": {
        "ListAuditRecords": Rule(Action.AUDIT, _in, always=True, audited=READ),
    },
    "FleetService": {
        "ListHosts": Rule(Action.HOSTS, _platform, always=True),
        "GetHost": Rule(Action.HOSTS, _platform, always=True),
        "ConfirmHostGone": Rule(Action.HOSTS, _platform, always=True),
        "CordonHost": Rule(Action.HOSTS, _platform, always=True),
        "DrainHost": Rule(Action.HOSTS, _platform, always=True),
        "UncordonHost": Rule(Action.HOSTS, _platform, always=True),
    },
    "AlertService": {
        "ListAlerts": Rule(Action.READ, _about, views.alerts),
        "WatchAlerts": Rule(Action.READ, _about, views.alert),
        "CreateSilence": Rule(Action.SILENCE, _in),
        "ListSilences": Rule(Action.LOOK_AROUND, _nobodys, views.silences),
        "ExpireSilence": Rule(Action.SILENCE, _of_silence),
        "AcknowledgeAlerts": Rule(Action.SILENCE, _of_alerts),
        "UnacknowledgeAlerts": Rule(Action.SILENCE, _of_alerts),
        "ApplyRoutes": Rule(Action.SILENCE, _in),
        "DeleteRoutes": Rule(Action.SILENCE, _in),
        "ListRoutes": Rule(Action.LOOK_AROUND, _nobodys, views.routes),
        "ExplainRoute": Rule(Action.READ, _about),
        "ExplainCondition": Rule(Action.READ, _about),
        "TestReceivers": Rule(Action.SILENCE, _in),
    },
}
METHODS: Final[Mapping[str, Rule]] = {
    f"/daggers.v1.{service}/{method}": rule
    for service, rules in _BY_SERVICE.items()
    for method, rule in rules.items()
}
"""By the name that gRPC has for a method."""
