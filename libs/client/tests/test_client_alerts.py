"""Alert rules in a dagger file: what is read, what is refused at which place, and that both ways agree."""

from __future__ import annotations

from datetime import timedelta

import pytest
from daggers.v1 import rules_pb2

from daggerclient import InvalidFileError
from daggerclient.daggerfile.keys import key
from daggerclient.daggerfile.parse import parse
from daggerclient.daggerfile.show import to_document
from daggerclient.daggerfile.write import to_yaml

FILE = """
name: some
team: crm
cluster: local
streams: [{stream: bookings}]
sql: SELECT 1
sinks: [log]
alerts:
  - name: api_errors
    when: error_rate > 0.05 AND requests >= 100
    for: 2 windows
    resolve_when: error_rate < 0.02
    key: [tag_api]
    severity: critical
    summary: "{tag_api}: {error_rate:.1%} of {requests} calls fail"
    runbook: https://wiki.example/api
  - {name: slow, when: p95 > 3, for: 10m, clear: 20 %}
  - {name: silent, absent: 10m, severity: error}
  - {name: own, when: p95 > most, limits: {reference: api_limits, key: [tag_b], columns: [most]}}
"""


def test_rules_read_back_as_they_are_written() -> None:
    [dagger] = parse(FILE, "d.yaml")
    [again] = parse(to_yaml({"name": dagger.name, **to_document(dagger.spec)}), "d.yaml")
    first, second, third, fourth = dagger.spec.alerts

    assert again.spec.alerts == dagger.spec.alerts
    assert first == rules_pb2.AlertRule(
        name="api_errors",
        when="error_rate > 0.05 AND requests >= 100",
        for_windows=2,
        resolve_when="error_rate < 0.02",
        key=["tag_api"],
        severity=rules_pb2.RULE_SEVERITY_CRITICAL,
        summary="{tag_api}: {error_rate:.1%} of {requests} calls fail",
        runbook="https://wiki.example/api",
    )
    assert (second.for_time.ToTimedelta(), second.clear) == (timedelta(minutes=10), 0.2)
    assert third == rules_pb2.AlertRule(
        name="silent", absent=timedelta(minutes=10), severity=rules_pb2.RULE_SEVERITY_ERROR
    )
    limits = rules_pb2.RuleLimits(reference="api_limits", key=["tag_b"], columns=["most"])
    assert fourth == rules_pb2.AlertRule(name="own", when="p95 > most", limits=limits)


@pytest.mark.parametrize(
    ("written", "instead", "field", "code"),
    [
        ("for: 2 windows", "for: 0 windows", "alerts[0].for", "BAD_DURATION"),
        ("for: 2 windows", "for: soon", "alerts[0].for", "BAD_DURATION"),
        ("clear: 20 %", "clear: 0.2", "alerts[1].clear", "BAD_SHARE"),
        ("clear: 20 %", "clear: 200 %", "alerts[1].clear", "BAD_SHARE"),
        ("severity: critical", "severity: crit", "alerts[0].severity", "UNKNOWN_VALUE"),
        ("key: [tag_api]", "key: []", "alerts[0].key", "EMPTY_LIST"),
        ("absent: 10m", "absent: soon", "alerts[2].absent", "BAD_DURATION"),
        ("absent: 10m", "absent: 0s", "alerts[2].absent", "BAD_DURATION"),
        ("clear: 20 %", "limits: {reference: a}", "alerts[1].limits.key", "MISSING_KEY"),
        ("clear: 20 %", "limits: {reference: a, key: []}", "alerts[1].limits.key", "EMPTY_LIST"),
        (
            "clear: 20 %",
            "limits: {reference: a, key: [b], colums: [c]}",
            "alerts[1].limits.colums",
            "UNKNOWN_KEY",
        ),
        ("clear: 20 %", "on: early", "alerts[1].on", "NOT_SUPPORTED_YET"),
        ("when: p95 > 3, ", "", "alerts[1].when", "MISSING_KEY"),
        ("clear: 20 %", "whenn: x", "alerts[1].whenn", "UNKNOWN_KEY"),
    ],
)
def test_what_is_no_rule_is_refused_at_its_key(written: str, instead: str, field: str, code: str) -> None:
    with pytest.raises(InvalidFileError) as refused:
        parse(FILE.replace(written, instead), "d.yaml")
    [finding] = refused.value.findings

    assert (finding["field"], finding["code"]) == (field, code)


def test_a_violation_of_a_time_is_shown_at_the_key_that_says_it() -> None:
    assert key("spec.alerts[3].for_windows") == key("spec.alerts[3].for_time") == "alerts[3].for"
    assert key("spec.alerts[3].key[0]") == "alerts[3].key[0]"
