"""Routes of teams as they are folded: revisions, and where they lead."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from daggers.v1 import alerts_pb2
from google.protobuf.message import Message

from eventlog import Draft, read_record
from fleet.alerts.ledger import Ledger
from fleet.alerts.routing.routes import NEVER, Destination
from fleet.alerts.routing.trees import (
    DEEPEST,
    build_destination,
    measure_depth,
    parse_destination,
    parse_routes,
    walk,
)
from fleet.alerts.routing.windows import parse_window
from fleet.alerts.team_routes import MOST_REVISIONS

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
TREE = alerts_pb2.AlertRoute(
    receivers=["slack"],
    group_by={"names": ["dagger"]},
    routes=[
        alerts_pb2.AlertRoute(
            match=["severity=critical"],
            receivers=["pagerduty"],
            repeat_interval={"seconds": 0},
            windows={"windows": ["mon-fri 09:00-18:00 Europe/Berlin"]},
            escalation={"after": {"seconds": 900}, "receivers": ["email"]},
            continues=True,
        ),
        alerts_pb2.AlertRoute(match=["rule=api_*"], group_wait={"seconds": 5}),
    ],
)


def fold(*messages: Message) -> Ledger:
    ledger = Ledger()
    for sequence, message in enumerate(messages):
        draft = Draft(f"id-{sequence}", "/test", "s", NOON + timedelta(seconds=sequence), message)
        ledger.apply(read_record(sequence, draft.headers(), message.SerializeToString()))
    return ledger


def change(
    after: int, routes: alerts_pb2.AlertRoute | None = TREE, why: str = ""
) -> alerts_pb2.RoutesChanged:
    return alerts_pb2.RoutesChanged(
        team="pricing", routes=routes, actor="user:ada", message=why, after_revision=after
    )


def test_routes_lead_by_labels_and_say_why() -> None:
    routes = fold(change(0)).routes.in_force("pricing")
    assert routes is not None
    critical, by_rule = routes.find_destinations({"severity": "critical", "rule": "api_errors"})
    [rest] = routes.find_destinations({"severity": "warning"})

    assert (critical.receivers, critical.why) == (("pricing/pagerduty",), ("severity=critical",))
    assert (critical.revision, critical.path, critical.repeat_interval) == (1, (0,), NEVER)
    assert (critical.escalate_to, critical.escalate_after) == (("pricing/email",), timedelta(minutes=15))
    assert (by_rule.receivers, by_rule.group_by, by_rule.group_wait) == (
        ("pricing/slack",), ("dagger",), timedelta(seconds=5),
    )  # fmt: skip
    assert (rest.receivers, rest.path) == (("pricing/slack",), ())


def test_a_revision_is_made_from_the_newest_or_not_at_all() -> None:
    ledger = fold(change(0, why="first"), change(0, why="late"), change(1, None), change(2, why="again"))
    revisions = ledger.routes.revisions["pricing"]

    assert [(each.number, each.why, each.tree is not None) for each in revisions] == [
        (1, "first", True), (2, "", False), (3, "again", True),
    ]  # fmt: skip
    assert [(each.actor, each.sequence) for each in revisions] == [("user:ada", n) for n in (0, 2, 3)]
    assert fold(change(0), change(1, None)).routes.in_force("pricing") is None
    assert fold().routes.newest("supply") is None


def test_the_oldest_revisions_are_forgotten() -> None:
    ledger = fold(*(change(number) for number in range(MOST_REVISIONS + 2)))
    revisions = ledger.routes.revisions["pricing"]

    assert (len(revisions), revisions[0].number) == (MOST_REVISIONS, 3)


def nest(depth: int) -> alerts_pb2.AlertRoute:
    return alerts_pb2.AlertRoute(routes=[nest(depth - 1)] if depth > 1 else [])


@pytest.mark.parametrize(
    "wrong",
    [
        alerts_pb2.AlertRoute(match=["none"]),
        alerts_pb2.AlertRoute(windows={"windows": ["always"]}),
        alerts_pb2.AlertRoute(group_wait={"seconds": 2**62}),
        nest(DEEPEST + 1),
    ],
)
def test_routes_that_cannot_be_read_change_nothing(wrong: alerts_pb2.AlertRoute) -> None:
    assert fold(change(0, wrong)).routes.revisions == {}


def test_a_tree_is_walked_and_measured_no_deeper_than_it_may_be() -> None:
    assert measure_depth(nest(DEEPEST)) == DEEPEST
    assert len(list(walk(nest(40)))) == measure_depth(nest(40)) == DEEPEST + 1
    assert [path for path, _ in walk(TREE)] == [(), (0,), (1,)]


@pytest.mark.parametrize(
    "destination",
    [
        Destination(receivers=("r",)),
        Destination(
            revision=4,
            path=(1, 0),
            why=("severity=critical",),
            receivers=("pricing/slack", "pricing/email"),
            group_by=(),
            repeat_interval=NEVER,
            windows=(parse_window("fri-mon 22:00-06:00 Asia/Kolkata"), parse_window("00:00-24:00 UTC")),
            escalate_after=timedelta(minutes=5),
            escalate_to=("pricing/pagerduty",),
        ),
    ],
)
def test_a_destination_reads_back_as_it_was_written(destination: Destination) -> None:
    assert parse_destination(build_destination(destination)) == destination


def test_the_next_look_in_a_window_is_known() -> None:
    in_hours = parse_window("mon-fri 09:00-18:00 UTC")
    destination = Destination(windows=(in_hours,), group_interval=timedelta(minutes=5))
    saturday = datetime(2026, 6, 6, 12, 2, tzinfo=UTC)
    never = Destination(windows=(parse_window("12:00-12:01 UTC"),), group_interval=timedelta(days=1))

    assert destination.find_active(NOON) == NOON
    assert destination.find_active(saturday) == datetime(2026, 6, 8, 9, 2, tzinfo=UTC)
    assert never.find_active(NOON + timedelta(minutes=5)) is None
    assert parse_routes(TREE, "pricing").routes[0].continues
