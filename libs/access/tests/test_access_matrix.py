"""Every method has a row of the table, and every cell is what the golden file says."""

import pytest
from daggers.v1 import events_pb2, host_pb2, spec_pb2
from libs.access.tests.matrix import (
    FILE,
    META,
    PRINCIPALS,
    TEAMS,
    fleet,
    matrix,
    methods,
    path,
    request,
)

from access import Action, Principal
from access.decision import LEAST
from access.methods import METHODS, decide
from eventlog.testing import record


def test_every_method_that_a_gateway_serves_has_a_row_and_no_other() -> None:
    assert METHODS.keys() == {path(method) for method in methods()}


def test_what_schedulers_serve_is_no_method_of_a_gateway() -> None:
    served = {
        path(method)
        for service in host_pb2.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    }

    assert served
    assert not served & METHODS.keys()


def test_every_cell_of_method_role_and_team_is_as_it_was_decided() -> None:
    assert matrix() == FILE.read_text()


def test_a_greater_role_may_what_a_lesser_one_may() -> None:
    known, order = fleet(), list(PRINCIPALS.values())
    for method in methods():
        for team in TEAMS.values():
            asked = request(method, team)
            allowed = [decide(each, path(method), asked, known).allowed for each in order]

            assert allowed == sorted(allowed)


@pytest.mark.parametrize(
    ("now", "then", "allowed"),
    [
        ("", "playground", True),
        ("playground", "playground", True),
        ("playground", "prod", False),
        ("prod", "playground", False),
        ("prod", "prod", False),
        ("", "prod", False),
        ("", "gone", False),
        ("", "", False),
    ],
)
def test_a_viewer_plays_on_playgrounds_and_takes_nothing_there_or_away(
    now: str, then: str, allowed: bool
) -> None:
    known = fleet(now)
    known.apply(
        record(events_pb2.ClusterRegistered(meta=META, cluster=spec_pb2.Cluster(name="prod")), sequence=99)
    )
    viewer = PRINCIPALS["viewer"]
    made = {method.name: method for method in methods()}
    for name in ("ApplyDagger", "UpdateDagger") if now else ("CreateDagger", "ApplyDagger"):
        asked = request(made[name], "pricing", then)
        asked.name = asked.name if now else "new_one"

        assert decide(viewer, path(made[name]), asked, known).allowed == allowed
        other = request(made[name], "delivery", then)
        assert not decide(viewer, path(made[name]), other, known).allowed
    for name in ("StopDagger", "StartDagger", "RestartDagger", "ReplayQuarantined", "DiscardQuarantined"):
        decision = decide(viewer, path(made[name]), request(made[name], "pricing"), known)

        assert decision.allowed == (now == "playground")
    assert not decide(
        viewer, path(made["DeleteDagger"]), request(made["DeleteDagger"], "pricing"), known
    ).allowed


@pytest.mark.parametrize("action", Action)
def test_every_action_has_a_least_role(action: Action) -> None:
    assert action in LEAST


def test_what_a_refusal_says_names_what_is_missing_and_who_can_give_it() -> None:
    delete = path(next(method for method in methods() if method.name == "DeleteDagger"))
    asked = request(next(method for method in methods() if method.name == "DeleteDagger"), "pricing")
    decision = decide(Principal("user:editor"), delete, asked, fleet())

    assert decision.reason == "ROLE_MISSING"
    assert decision.detail == (
        "user:editor may not delete daggers of team pricing: that needs the role owner, which an owner"
        " (user:owner) can grant"
    )
    assert decision.metadata == {
        "principal": "user:editor",
        "action": "DELETE",
        "role": "owner",
        "team": "pricing",
        "granted_by": "user:owner",
    }
