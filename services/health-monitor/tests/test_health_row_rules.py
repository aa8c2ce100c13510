"""Observations by rules on rows become alerts: one for each dagger, rule and key, whatever comes twice."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from daggers.v1 import alerts_pb2, gateway_pb2, rules_pb2, spec_pb2

from daggerspec import alertrules
from eventlog.testing import record
from fleet import Dagger, Fleet
from fleet.alerts.alert import Turn, dedup_key_of
from fleet.alerts.ledger import Ledger
from fleet.fold.phases import DELETED, RUNNING, STOPPED
from health_monitor.conditions.row_rules import RowRules

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
RULE = rules_pb2.AlertRule(
    name="api_errors", when="error_rate > 0.05", severity=rules_pb2.RULE_SEVERITY_CRITICAL
)
FIRED, RESOLVED = rules_pb2.RULE_STATE_FIRED, rules_pb2.RULE_STATE_RESOLVED
CHANGED = rules_pb2.RULE_STATE_CHANGED
CHANGE = alerts_pb2.LastChange(revision=7, actor="user:ada@example.org")
DAGGER = Dagger(
    name="calls",
    spec=spec_pb2.DaggerSpec(team="pricing", alerts=[RULE]),
    warnings=(),
    version=7,
    desired=gateway_pb2.DESIRED_RUNNING,
    phase=RUNNING,
    phase_time=NOON,
    sequence=50,
    create_sequence=1,
    create_time=NOON,
    update_time=NOON,
    generation=41,
)


def observation(
    state: rules_pb2.RuleState.ValueType, minute: int, api: str = "a", rule: rules_pb2.AlertRule = RULE
) -> rules_pb2.RuleObserved:
    one = rules_pb2.RuleObserved(
        dagger="calls", rule=rule.name, digest=alertrules.digest(rule), key={"tag_api": api}, state=state,
        values={"error_rate": "0.08"}, value=0.08, limit=0.05, severity=rule.severity, summary=f"{api} fails",
        runbook="https://wiki.example/api", generation=41, revision=7,
    )  # fmt: skip
    one.window.FromDatetime(NOON + minute * MINUTE)
    one.since.FromDatetime(NOON)
    return one


class Watching:
    """A monitor's part: a fleet of one dagger, the fold of alerts, and what was written to it."""

    def __init__(self, dagger: Dagger = DAGGER) -> None:
        self.fleet, self.ledger, self.rules = Fleet(), Ledger(), RowRules()
        self.ledger.apply(record(alerts_pb2.MonitorStarted(monitor_id="one")))
        self.rules.note_read()
        self.now = NOON
        self.set(dagger)

    def set(self, dagger: Dagger) -> None:
        self.fleet.daggers[dagger.name] = dagger

    def judge(self, *observations: rules_pb2.RuleObserved) -> list[Turn]:
        for one in observations:
            self.rules.add(one)
        turns = []
        for turn in self.rules.turns(
            self.fleet, self.ledger, lambda team: [f"{team}/slack"], self.now, {"calls": CHANGE}.get
        ):
            turn.meta.epoch = self.ledger.epoch
            own = record(turn, sequence=self.ledger.sequence + 1)._replace(time=self.now)
            assert self.ledger.apply(own)
            turns.append(turn)
        return turns


def test_each_key_has_an_incident_that_says_all_of_it() -> None:
    watching = Watching()

    first, second = watching.judge(observation(FIRED, 1), observation(FIRED, 1, "b"))

    assert isinstance(first, alerts_pb2.AlertFired)
    assert (first.meta.rule, dict(first.meta.key), first.meta.incident) == ("api_errors", {"tag_api": "a"}, 1)
    assert (first.severity, first.summary, first.unit) == (
        alerts_pb2.ALERT_SEVERITY_CRITICAL, "a fails", "number",
    )  # fmt: skip
    assert (first.value, first.limit, dict(first.meta.values)) == (0.08, 0.05, {"error_rate": "0.08"})
    assert first.last_change == CHANGE
    assert (first.next, [*first.receivers]) == ("Read https://wiki.example/api", ["pricing/slack"])
    assert first.dedup_key == dedup_key_of(first.meta) != dedup_key_of(second.meta)
    assert len(watching.ledger.alerts) == 2
    assert watching.judge() == []


def test_what_is_observed_twice_or_late_changes_nothing() -> None:
    watching = Watching()
    watching.judge(observation(FIRED, 1))

    assert watching.judge(observation(FIRED, 1)) == []
    [over] = watching.judge(observation(RESOLVED, 3))
    assert (over.summary, over.meta.incident) == ("a fails", 1)
    assert over.until.ToDatetime(tzinfo=UTC) == NOON + 3 * MINUTE
    assert watching.judge(observation(FIRED, 1), observation(RESOLVED, 3)) == []
    [again] = watching.judge(observation(FIRED, 4))
    assert again.meta.incident == 2


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"phase": DELETED}, "the dagger was deleted"),
        ({"phase": STOPPED}, "the dagger was stopped"),
        ({"spec": spec_pb2.DaggerSpec(team="pricing")}, "the rule api_errors was removed"),
        (
            {"spec": spec_pb2.DaggerSpec(alerts=[rules_pb2.AlertRule(name="api_errors", when="n > 1")])},
            "the rule api_errors was changed",
        ),
    ],
)
def test_rules_that_are_no_more_resolve_what_they_fired(changed: dict[str, object], why: str) -> None:
    watching = Watching()
    watching.judge(observation(FIRED, 1))
    watching.set(replace(DAGGER, **changed))  # type: ignore[arg-type]

    [over] = watching.judge()

    assert (type(over), over.summary) == (alerts_pb2.AlertResolved, why)
    assert watching.judge() == []
    watching.set(DAGGER)  # the very rule is back, and its driver has said nothing else
    [again] = watching.judge()
    assert (type(again), again.meta.incident) == (alerts_pb2.AlertFired, 2)


def test_nothing_turns_before_the_topic_is_read_nor_by_what_is_not_known() -> None:
    watching = Watching()
    watching.judge(observation(FIRED, 1))
    watching.rules = RowRules()  # as another monitor that leads from now on

    assert watching.judge(observation(FIRED, 1, "b")) == []
    watching.rules.note_read()
    [turn] = watching.judge()
    assert dict(turn.meta.key) == {"tag_api": "b"}  # of a nothing is known: it stays open
    assert sum(alert.firing for alert in watching.ledger.alerts.values()) == 2


def count_others(state: rules_pb2.RuleState.ValueType, minute: int, others: int) -> rules_pb2.RuleObserved:
    """Build what is observed of all keys that have no incident each."""
    one = observation(state, minute)
    one.ClearField("key")
    one.others, one.summary = others, f"api_errors is true of {others} further keys"
    return one


def test_the_number_of_further_keys_is_brought_up_to_date_and_nobody_is_told_of_that() -> None:
    watching = Watching()
    [fired] = watching.judge(count_others(FIRED, 1, 37))
    sent = alerts_pb2.NotificationSent(
        meta=fired.meta, notice=alerts_pb2.ALERT_NOTICE_FIRED, receiver="pricing/slack", attempt=1
    )
    watching.ledger.apply(record(sent, sequence=watching.ledger.sequence + 1))

    assert watching.judge(count_others(CHANGED, 2, 38)) == []  # the minute is not over
    watching.now = NOON + MINUTE
    [first] = watching.judge(count_others(CHANGED, 2, 39))
    assert watching.judge(count_others(CHANGED, 2, 39)) == []
    watching.now = NOON + 2 * MINUTE
    [second] = watching.judge(count_others(CHANGED, 3, 27))

    assert [(type(one), one.summary) for one in (first, second)] == [
        (alerts_pb2.AlertChanged, f"api_errors is true of {number} further keys") for number in (39, 27)
    ]
    alert = watching.ledger.alert_of(fired.meta)
    assert alert.fired is not None
    assert (alert.fired.summary, alert.changes) == ("api_errors is true of 27 further keys", 2)
    assert fired.summary == "api_errors is true of 37 further keys"
    assert watching.ledger.list_receivers(watching.now) == []
    [over] = watching.judge(count_others(RESOLVED, 4, 0))
    assert isinstance(over, alerts_pb2.AlertResolved)


def test_a_change_that_comes_twice_or_of_another_incident_changes_nothing() -> None:
    watching = Watching()
    watching.judge(count_others(FIRED, 1, 37))
    watching.now = NOON + MINUTE
    [changed] = watching.judge(count_others(CHANGED, 2, 39))
    other = alerts_pb2.AlertChanged(meta=changed.meta, change=2, summary="of another incident")
    other.meta.incident = 7

    for one in (changed, other):
        assert not watching.ledger.apply(record(one, sequence=watching.ledger.sequence + 1))
    watching.judge(count_others(RESOLVED, 3, 0))
    late = alerts_pb2.AlertChanged(meta=changed.meta, change=2, summary="it is over")
    assert not watching.ledger.apply(record(late, sequence=watching.ledger.sequence + 1))
