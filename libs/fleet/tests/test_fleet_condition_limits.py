"""Limits of conditions: whose word counts, what it changes, and what a day of minutes would have done."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from daggers.v1 import access_pb2, alerts_pb2, events_pb2, rules_pb2, spec_pb2
from google.protobuf.duration_pb2 import Duration

from daggerspec.conditionlimits import CONDITIONS, violations
from eventlog.testing import given
from fleet import Fleet
from fleet.conditions import minute_history
from fleet.conditions.condition_limits import (
    ConditionSettings,
    Layer,
    Setting,
    apply_limits,
    condition_of,
    describe_limits,
    find_layers,
    find_settings,
    list_settings,
)
from fleet.conditions.dagger_conditions import OF_DAGGERS
from fleet.conditions.finding import Finding
from fleet.health.degradation import Limits
from fleet.health.minutes import UNKNOWN

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
Said = rules_pb2.ConditionLimits


def build_team(name: str, **conditions: Said) -> events_pb2.TeamRegistered:
    return events_pb2.TeamRegistered(team=access_pb2.Team(name=name, conditions=conditions))


def test_each_condition_of_daggers_has_its_limits() -> None:
    assert {condition_of(label) for label in CONDITIONS} == set(OF_DAGGERS)
    assert describe_limits(Limits(), 10 * SECOND).keys() == CONDITIONS.keys()


def test_a_dagger_says_before_its_team_says_before_the_platform_says() -> None:
    fleet = Fleet()
    platform = build_team("platform", no_progress=Said(limit=300, hold=Duration(seconds=60)))
    team = build_team("pricing", no_progress=Said(limit=200), no_input=Said(off=True))
    for record in given(platform, team):
        fleet.apply(record)
    spec = spec_pb2.DaggerSpec(team="pricing", conditions={"no_progress": Said(limit=100)})
    layers = find_layers(spec, fleet.catalogue)
    own, input_ = (find_settings(label, layers) for label in ("no_progress", "no_input"))

    assert own == ConditionSettings(limit=Setting(100, "dagger"), hold=Setting(60, "platform"))
    assert input_ == ConditionSettings(off=Setting(1, "team pricing"))
    assert apply_limits(Limits(), list_settings(layers)) == Limits(progress=100 * SECOND)


def test_where_nobody_says_anything_the_limits_are_the_same() -> None:
    limits = Limits()
    layers = find_layers(spec_pb2.DaggerSpec(team="pricing"), Fleet().catalogue)

    assert apply_limits(limits, list_settings(layers)) is limits


def test_a_clear_limit_belongs_to_the_limit_beside_it() -> None:
    near, far = {"late_rows": Said(limit=0.02)}, {"late_rows": Said(limit=0.2, clear=0.1)}

    assert find_settings("late_rows", [Layer("dagger", near), Layer("platform", far)]).clear is None
    assert find_settings("late_rows", [Layer("platform", far)]).clear == Setting(0.1, "platform")


def test_what_is_off_is_over_at_once_and_what_has_just_started_is_left_alone() -> None:
    bad = Finding(True, "it stands", NOON)
    off = ConditionSettings(off=Setting(1, "dagger"))
    later = ConditionSettings(after_start=Setting(60, "dagger"))

    def tune(settings: ConditionSettings, *, firing: bool, age: int) -> Finding | None:
        return settings.tune(bad, firing=firing, launched=NOON - age * SECOND, now=NOON)

    over = off.tune(None, firing=True, launched=NOON, now=NOON)
    assert over is not None
    assert (over.active, over.final) == (False, True)
    tuned = [
        tune(later, firing=False, age=59),
        tune(later, firing=False, age=60),
        tune(later, firing=True, age=5),
    ]
    assert [finding is not None and finding.active for finding in tuned] == [False, True, True]


@pytest.mark.parametrize(
    ("label", "entry", "place", "code"),
    [
        ("no_progres", Said(limit=60), "c[no_progres]", "UNKNOWN_CONDITION"),
        ("failed", Said(limit=60), "c[failed].limit", "NOT_ALLOWED"),
        ("no_progress", Said(limit=1), "c[no_progress].limit", "OUT_OF_RANGE"),
        ("no_progress", Said(limit=float("nan")), "c[no_progress].limit", "OUT_OF_RANGE"),
        ("no_progress", Said(limit=60, clear=30), "c[no_progress].clear", "NOT_ALLOWED"),
        ("late_rows", Said(limit=0.001), "c[late_rows].limit", "OUT_OF_RANGE"),
        ("late_rows", Said(clear=0.02), "c[late_rows].clear", "REQUIRED"),
        ("late_rows", Said(limit=0.02, clear=0.03), "c[late_rows].clear", "OUT_OF_RANGE"),
        ("late_rows", Said(hold=Duration(seconds=700_000)), "c[late_rows].hold", "OUT_OF_RANGE"),
        ("late_rows", Said(after_start=Duration(seconds=-1)), "c[late_rows].after_start", None),
    ],
)
def test_what_cannot_be_meant_is_said_at_its_place(
    label: str, entry: Said, place: str, code: str | None
) -> None:
    (wrong,) = violations("c", {label: entry})

    assert wrong.field == place
    assert code in (None, wrong.reason)


def test_a_day_of_minutes_says_when_it_would_have_fired() -> None:
    values = [0.0, 0.02, None, 0.03, 0.03, 0.02, 0.005, 0.001, 0.04]
    history = minute_history.simulate(values, limit=0.01, clear=0.002, hold_minutes=2)
    never = minute_history.simulate(values, limit=0.1, clear=0.1, hold_minutes=1)

    assert history is not None
    assert never is not None
    assert list(history.firings) == [(3, 7)]  # a last minute above it has not held for two
    assert (history.minutes, history.least, history.greatest, history.greatest_at) == (8, 0, 0.04, 8)
    assert list(never.firings) == []
    assert minute_history.simulate([None], limit=1, clear=1, hold_minutes=1) is None


def test_a_share_of_a_minute_is_that_of_the_five_before_it() -> None:
    series = {
        "records": [100, UNKNOWN, 100, 100, 0, 0, 0, 0, 0],
        "late_rows": [10, UNKNOWN, 0, 0, 0, 0, 0, 0, 0],
        "quarantined": [100, UNKNOWN, 0, 0, 0, 0, 0, 0, 0],
        "freshness_p95_ms": [1_500, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, 20],
    }

    late, aside, fresh = (minute_history.list_values(label, series) for label in minute_history.LABELS)
    assert late[:5] == [0.1, None, 0.05, 10 / 300, 10 / 300]
    assert late[5:] == [0, 0, 0, 0]
    assert aside[0] == 0.5
    assert (fresh[0], fresh[1], fresh[-1]) == (1.5, None, 0.02)


def test_the_label_of_a_condition_is_its_own() -> None:
    assert condition_of("late_rows") == alerts_pb2.ALERT_CONDITION_LATE_ROWS
