"""Alert rules as they show without the columns of their query: what is refused, and at which field."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from daggers.v1 import rules_pb2, spec_pb2
from google.protobuf.duration_pb2 import Duration

from daggerspec import alertrules


def violations(rule: rules_pb2.AlertRule) -> list[tuple[str, str]]:
    return [(one.field, one.reason) for one in alertrules.violations("a", spec_pb2.DaggerSpec(alerts=[rule]))]


def silent(**fields: object) -> rules_pb2.AlertRule:
    return rules_pb2.AlertRule(**{"name": "silent", "absent": timedelta(minutes=10), **fields})  # type: ignore[arg-type]


def test_a_rule_has_a_condition_or_a_silence() -> None:
    assert violations(silent()) == []
    assert violations(rules_pb2.AlertRule(name="busy", when="n > 3")) == []
    assert violations(rules_pb2.AlertRule(name="busy")) == [("a[0].when", "REQUIRED")]


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"when": "n > 3"}, "when"),
        ({"for_windows": 2}, "for_windows"),
        ({"for_time": timedelta(minutes=1)}, "for_time"),
        ({"resolve_when": "n < 3"}, "resolve_when"),
        ({"clear": 0.2}, "clear"),
    ],
)
def test_a_silence_has_nothing_of_a_condition(fields: dict[str, object], part: str) -> None:
    assert violations(silent(**fields)) == [(f"a[0].{part}", "CONFLICT")]


@pytest.mark.parametrize(
    ("absent", "reason", "nearest"),
    [
        (Duration(), "OUT_OF_RANGE", timedelta()),
        (Duration(seconds=-5), "OUT_OF_RANGE", timedelta()),
        (Duration(seconds=10**15), "OUT_OF_RANGE", timedelta(days=31)),
        (Duration(seconds=5, nanos=-5), "INVALID_DURATION", timedelta(seconds=5)),
    ],
)
def test_a_time_that_is_none_is_refused_and_does_no_harm(
    absent: Duration, reason: str, nearest: timedelta
) -> None:
    rule = silent(absent=absent)

    assert violations(rule) == [("a[0].absent", reason)]
    assert alertrules.absence(rule) == nearest


def test_other_rules_are_of_no_silence() -> None:
    assert alertrules.absence(rules_pb2.AlertRule(name="busy", when="n > 3")) is None
    assert alertrules.absence(silent(absent=Duration(seconds=1, nanos=500_000_000))) == timedelta(seconds=1.5)


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"reference": "api_limits", "key": ["tag_api"]}, []),
        ({}, [("a[0].limits.reference", "INVALID_NAME"), ("a[0].limits.key", "REQUIRED")]),
        ({"reference": "r", "key": ["k", "k"]}, [("a[0].limits.key[1]", "DUPLICATE")]),
        ({"reference": "r", "key": ["k"], "columns": ["a b"]}, [("a[0].limits.columns[0]", "INVALID_NAME")]),
        (
            {"reference": "r", "key": ["k"], "columns": [f"c{number}" for number in range(21)]},
            [("a[0].limits.columns", "TOO_MANY")],
        ),
    ],
)
def test_limits_are_of_a_table_and_a_key(limits: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    rule = rules_pb2.AlertRule(name="busy", when="n > most", limits=rules_pb2.RuleLimits(**limits))

    assert violations(rule) == expected
    assert ("a[0].limits", "CONFLICT") in violations(silent(limits=rule.limits))


def test_the_column_of_limits_is_called_so_where_nothing_else_is_said() -> None:
    assert alertrules.limit_columns(rules_pb2.RuleLimits(reference="r", key=["k"])) == ("limit",)
