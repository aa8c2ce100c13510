"""Who may do what, whatever the log holds; what is refused is not revealed either."""

from __future__ import annotations

from typing import Any

import pytest
from daggers.v1 import access_pb2, events_pb2, gateway_pb2, spec_pb2
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given, settings
from hypothesis import strategies as st
from libs.access.tests.matrix import methods, path

from access import Action, Principal, may
from access.methods import METHODS, decide
from access.principal import violations
from eventlog import Record
from eventlog.testing import record
from fleet import Fleet
from fleet.fold import view

META = events_pb2.RequestMeta(actor="root")
ROLES = [access_pb2.ROLE_VIEWER, access_pb2.ROLE_EDITOR, access_pb2.ROLE_OWNER]
TEAMS = ["pricing", "delivery", "riders"]
NAMES = ["first_one", "second_one"]
STREAMS = ["bookings", "trips"]
WHO = ["user:ada", "user:bob", "group:all", "account:bot"]
PRINCIPALS = st.builds(
    Principal,
    st.sampled_from([*WHO, "user:nobody"]),
    st.sampled_from([frozenset(), frozenset({"group:all"})]),
)
EVENTS = st.one_of(
    st.builds(
        lambda team, members: events_pb2.TeamRegistered(
            meta=META,
            team=access_pb2.Team(
                name=team, members=[access_pb2.Member(principal=who, role=role) for who, role in members]
            ),
        ),
        st.sampled_from(TEAMS),
        st.lists(st.tuples(st.sampled_from(WHO), st.sampled_from(ROLES)), max_size=3),
    ),
    st.builds(
        lambda team, who, role: events_pb2.RoleGranted(meta=META, team=team, principal=who, role=role),
        st.sampled_from(TEAMS),
        st.sampled_from(WHO),
        st.sampled_from(ROLES),
    ),
    st.builds(
        lambda who: events_pb2.RoleGranted(meta=META, principal=who, role=access_pb2.ROLE_ADMINISTRATOR),
        st.sampled_from(WHO[:1]),
    ),
    st.builds(
        lambda team, who: events_pb2.RoleRevoked(meta=META, team=team, principal=who),
        st.sampled_from(["", *TEAMS]),
        st.sampled_from(WHO),
    ),
    st.builds(lambda team: events_pb2.TeamRemoved(meta=META, name=team), st.sampled_from(TEAMS)),
    st.builds(
        lambda team, role: events_pb2.ServiceAccountCreated(
            meta=META, account=access_pb2.ServiceAccount(name="bot", team=team), role=role
        ),
        st.sampled_from(TEAMS),
        st.sampled_from(ROLES),
    ),
    st.just(events_pb2.ServiceAccountRevoked(meta=META, name="bot")),
    st.builds(
        lambda stream: events_pb2.StreamRegistered(meta=META, stream=spec_pb2.Stream(name=stream)),
        st.sampled_from(STREAMS),
    ),
    st.builds(
        lambda stream, teams: events_pb2.GrantChanged(
            meta=META, grant=access_pb2.StreamGrant(stream=stream, restricted=True, teams=teams)
        ),
        st.sampled_from(STREAMS),
        st.lists(st.sampled_from(TEAMS), max_size=2),
    ),
    st.builds(
        lambda name, team, stream: events_pb2.DaggerRequested(meta=META, name=name, spec=spec(team, stream)),
        st.sampled_from(NAMES),
        st.sampled_from(["", *TEAMS]),
        st.sampled_from(STREAMS),
    ),
    st.builds(lambda name: events_pb2.DeleteRequested(meta=META, name=name), st.sampled_from(NAMES)),
    st.builds(
        lambda name: events_pb2.Deleted(meta=events_pb2.FactMeta(name=name, epoch=0)), st.sampled_from(NAMES)
    ),
)


def secret(team: str) -> str:
    """What only this team may see."""
    return f"canary of <{team}>"


def spec(team: str, stream: str) -> spec_pb2.DaggerSpec:
    return spec_pb2.DaggerSpec(
        team=team, cluster="local", sql=secret(team), streams=[spec_pb2.StreamInput(stream=stream)]
    )


def folded(events: list[Any]) -> tuple[Fleet, list[Record]]:
    fleet, records = Fleet(), [record(events_pb2.SchedulerStarted(scheduler_id="s"), sequence=0)]
    records += [record(event, sequence=sequence) for sequence, event in enumerate(events, start=1)]
    for message in records:
        fleet.apply(message)
    return fleet, records


def roles_by_hand(records: list[Record], principal: Principal) -> dict[str, int]:
    """The greatest role in each team, by going through the log as a person would."""
    held: dict[str, dict[str, int]] = {"": {}}
    fleet = Fleet()
    for each in records:
        applied, message = fleet.apply(each), each.message
        match message:
            case _ if not applied.changed:
                continue
            case events_pb2.TeamRegistered():
                held[message.team.name] = {}
                for member in message.team.members:
                    held[message.team.name][member.principal] = member.role
            case events_pb2.TeamRemoved():
                del held[message.name]
            case events_pb2.RoleGranted():
                held[message.team][message.principal] = message.role
            case events_pb2.RoleRevoked():
                del held[message.team][message.principal]
            case events_pb2.ServiceAccountCreated():
                held[message.account.team]["account:bot"] = message.role
            case events_pb2.ServiceAccountRevoked():
                for team in held.values():
                    team.pop("account:bot", None)
    names = {principal.name, *principal.groups}
    return {
        team: max((members[who] for who in members.keys() & names), default=0)
        for team, members in held.items()
    }


@given(st.lists(EVENTS, max_size=25), PRINCIPALS, st.sampled_from(Action), st.sampled_from(["", *TEAMS]))
@settings(max_examples=4 * settings.default.max_examples)
def test_a_decision_is_what_the_log_gave_and_did_not_take_back(
    events: list[Any], principal: Principal, action: Action, team: str
) -> None:
    fleet, records = folded(events)
    roles = roles_by_hand(records, principal)
    gone = principal.account and principal.account not in fleet.catalogue.accounts
    needed = {
        "LOOK_AROUND": 0, "READ": 1, "VALIDATE": 1, "PLAY": 1, "CHANGE": 2, "SILENCE": 2, "DELETE": 3,
        "MEMBERS": 3, "ACCOUNTS": 3, "SINKS": 3,
    }.get(action.name, 4)  # fmt: skip
    has = 0 if team == "" else roles.get(team, 0)
    expected = roles[""] == 4 or (not gone and (needed == 0 or needed <= has <= 3))

    decision = may(principal, action, team, fleet)

    assert decision.allowed == expected
    assert decision.detail
    assert decision.allowed or decision.metadata["principal"] == principal.name


@given(st.lists(EVENTS, min_size=3, max_size=25), PRINCIPALS)
@settings(max_examples=4 * settings.default.max_examples)
def test_no_answer_reveals_what_may_refuses(events: list[Any], principal: Principal) -> None:
    fleet, records = folded(events)
    hidden = [secret(team) for team in ["", *TEAMS] if not may(principal, Action.READ, team, fleet).allowed]
    for name, dagger in fleet.daggers.items():
        of_one = {"dagger": view.to_proto(dagger, fleet)}
        alert = gateway_pb2.Alert(dagger=name, team=dagger.spec.team, summary=secret(dagger.spec.team))
        reason = secret(dagger.spec.team) if dagger.spec.team else ""  # of all teams: shown to all
        silence = gateway_pb2.ListedSilence(silence={"team": dagger.spec.team, "reason": reason})
        group = gateway_pb2.QuarantineGroup(dagger=name, reason=secret(dagger.spec.team))
        vitals: Any = gateway_pb2.WatchVitalsResponse()
        vitals.vitals.add(dagger=name).warnings.add(message=secret(dagger.spec.team))
        others: Any = gateway_pb2.ListRevisionsResponse()
        for team in ["", *TEAMS]:
            revision = others.revisions.add(message=secret(team), spec={"team": team, "sql": secret(team)})
            revision.changes.add(field="team", before=team)
            revision.changes.add(field="sql", before=secret(team), after=secret(team))
        answers = {
            "ListRevisions": others,
            "GetDagger": gateway_pb2.GetDaggerResponse(**of_one),
            "ListDaggers": gateway_pb2.ListDaggersResponse(daggers=[of_one["dagger"]]),
            "WatchEvents": gateway_pb2.WatchEventsResponse(snapshot=of_one["dagger"]),
            "WatchVitals": vitals,
            "ListAlerts": gateway_pb2.ListAlertsResponse(alerts=[alert]),
            "WatchAlerts": gateway_pb2.WatchAlertsResponse(alert=alert, sequence=7),
            "ListRoutes": gateway_pb2.ListRoutesResponse(
                revisions=[{"team": dagger.spec.team, "message": secret(dagger.spec.team)}]
            ),
            "ListSilences": gateway_pb2.ListSilencesResponse(silences=[silence]),
            "SummarizeQuarantine": gateway_pb2.SummarizeQuarantineResponse(groups=[group]),
        }
        told_to_all = vitals.SerializeToString()
        for method, answer in answers.items():
            shown = rule_of(method).view(principal, answer, fleet)
            text = shown.SerializeToString() if shown is not None else b""

            assert not [each for each in hidden if each.encode() in text]
            if method in ("GetDagger", "ListDaggers"):
                assert name.encode() in text
        assert vitals.SerializeToString() == told_to_all
    for message in records:
        step = gateway_pb2.WatchEventsResponse(sequence=message.sequence)
        step.event.sequence, step.event.type, step.event.subject = (
            message.sequence,
            message.type,
            message.subject,
        )
        step.event.data.value = message.value
        shown = rule_of("WatchEvents").view(principal, step, fleet)

        assert not [secret_ for secret_ in hidden if secret_.encode() in shown.SerializeToString()]
        assert (shown.event.type, shown.sequence) == (message.type, message.sequence)


@given(st.lists(EVENTS, max_size=25), PRINCIPALS, st.data())
@settings(max_examples=4 * settings.default.max_examples)
def test_no_call_changes_what_may_refuses(
    events: list[Any], principal: Principal, data: st.DataObject
) -> None:
    fleet, _ = folded(events)
    method = data.draw(st.sampled_from(sorted(methods(), key=path)))
    request: Any = GetMessageClass(method.input_type)()
    fields = method.input_type.fields_by_name
    name, team = data.draw(st.sampled_from(NAMES)), data.draw(st.sampled_from(TEAMS))
    stream = data.draw(st.sampled_from(STREAMS))
    for field in ("name", "dagger"):
        if field in fields and fields[field].message_type is None:
            setattr(request, field, name)
    if "spec" in fields:
        request.spec.CopyFrom(spec(team, stream))

    decision = decide(principal, path(method), request, fleet)

    writes = {"CreateDagger", "ApplyDagger", "UpdateDagger", "StartDagger", "StopDagger", "RestartDagger"}
    dagger = fleet.living(name)
    if decision.allowed and method.name in writes and method.name != "CreateDagger" and dagger is not None:
        assert may(principal, Action.CHANGE, dagger.spec.team, fleet).allowed
    if decision.allowed and method.name == "DeleteDagger" and dagger is not None:
        assert may(principal, Action.DELETE, dagger.spec.team, fleet).allowed
    if decision.allowed and method.name in ("CreateDagger", "ApplyDagger", "UpdateDagger"):
        assert may(principal, Action.CHANGE, team, fleet).allowed
        grant = fleet.catalogue.grants.get(stream)
        everything = may(principal, Action.GRANTS, "", fleet).allowed
        assert grant is None or team in grant.value.teams or everything
    if decision.allowed and method.name.startswith(("Register", "Delete")) and "Catalog" in path(method):
        assert may(principal, Action.CATALOGUE, "", fleet).allowed
    rule = rule_of(method.name)
    if decision.allowed and rule.audited and rule.specifies:  # a preview is of what is sent
        assert may(principal, Action.READ, team, fleet).allowed
    elif decision.allowed and rule.audited and not rule.samples_stream and dagger is not None:
        assert may(principal, Action.READ, dagger.spec.team, fleet).allowed


def rule_of(method: str) -> Any:
    return next(rule for name, rule in METHODS.items() if name.endswith(f"/{method}"))


def test_an_earlier_dagger_of_a_name_is_not_the_later_teams() -> None:
    register = [
        events_pb2.TeamRegistered(meta=META, team=access_pb2.Team(name=team))
        for team in ("pricing", "delivery")
    ]
    member = events_pb2.RoleGranted(meta=META, team="delivery", principal="user:ada", role=ROLES[0])
    asked = [
        events_pb2.DaggerRequested(meta=META, name="first_one", spec=spec(team, "s")) for team in TEAMS[:2]
    ]
    gone = [
        events_pb2.DeleteRequested(meta=META, name="first_one"),
        events_pb2.Deleted(meta=events_pb2.FactMeta(name="first_one", epoch=0)),
    ]
    fleet, records = folded([*register, member, asked[0], *gone, asked[1]])
    shown = []
    for message in records:
        step = gateway_pb2.WatchEventsResponse()
        step.event.sequence, step.event.type, step.event.subject = (
            message.sequence,
            message.type,
            message.subject,
        )
        step.event.data.value = message.value
        step = rule_of("WatchEvents").view(Principal("user:ada"), step, fleet)
        if step.event.subject == "first_one":
            shown.append((step.event.type.rpartition(".")[2], bool(step.event.data.value)))

    assert shown == [
        ("DaggerRequested", False),
        ("DeleteRequested", False),
        ("Deleted", False),
        ("DaggerRequested", True),
    ]


def test_where_secrets_of_a_cluster_are_is_shown_to_administrators_alone() -> None:
    fleet, _ = folded([])
    cluster = spec_pb2.Cluster(name="local", kafka={"bootstrap_servers": "k:1"})
    cluster.kafka.secret_properties["sasl.password"].file = "/etc/secret"
    cluster.influx.token.env = "TOKEN"
    answers = [gateway_pb2.ListClustersResponse(clusters=[cluster]) for _ in range(2)]
    view_of = rule_of("ListClusters").view
    ours = view_of(Principal("root", administrator=True), answers[0], fleet)
    theirs = view_of(Principal("user:ada"), answers[1], fleet)

    assert ours.clusters[0] == cluster
    assert "etc/secret" not in str(theirs)
    assert "TOKEN" not in str(theirs)
    assert theirs.clusters[0].kafka.bootstrap_servers == "k:1"


@pytest.mark.parametrize("written", ["user:ada@example.org", "group:data/eng", "account:ci-bot"])
def test_principals_are_written_with_their_kind(written: str) -> None:
    assert list(violations("principal", written)) == []


@pytest.mark.parametrize("written", ["", "ada", "user:", "user:a b", "account:-x", "role:x", "user:a\n"])
def test_what_names_nobody_is_no_principal(written: str) -> None:
    assert [violation.reason for violation in violations("principal", written)] == ["INVALID_PRINCIPAL"]


def test_records_of_a_stream_are_shown_to_members_of_teams_that_may_read_it() -> None:
    fleet = Fleet()
    member = [access_pb2.Member(principal="user:ada", role=access_pb2.ROLE_VIEWER)]
    grant = access_pb2.StreamGrant(stream="trips", restricted=True, teams=["delivery"])
    events: list[Any] = [
        events_pb2.TeamRegistered(meta=META, team=access_pb2.Team(name="pricing", members=member)),
        events_pb2.TeamRegistered(meta=META, team=access_pb2.Team(name="delivery")),
        events_pb2.StreamRegistered(meta=META, stream=spec_pb2.Stream(name="trips")),
        events_pb2.GrantChanged(meta=META, grant=grant),
    ]
    for sequence, event in enumerate(events):
        assert fleet.apply(record(event, sequence=sequence)).changed

    def reason(who: str, stream: str, *, administrator: bool = False) -> str:
        principal = Principal(who, administrator=administrator)
        asked = gateway_pb2.SampleStreamRequest(name=stream)
        return decide(principal, "/daggers.v1.CatalogService/SampleStream", asked, fleet).reason

    assert [reason("user:ada", "bookings"), reason("user:ada", "trips")] == ["GRANTED", "STREAM_RESTRICTED"]
    assert reason("user:bob", "bookings") == "ROLE_MISSING"
    assert reason("user:root", "trips", administrator=True) == "ADMINISTRATOR"
