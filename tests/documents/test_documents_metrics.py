"""docs/metrics.md has what the code declares, and the rules for Prometheus ask for nothing else."""

from __future__ import annotations

import re
from typing import Any

import promql_parser
import pytest
import yaml
from tests.documents import metrics
from tests.documents.pages import ROOT

FILE = ROOT / "deploy/prometheus/alerts.yaml"
RULES: dict[str, dict[str, Any]] = {
    rule["alert"]: rule
    for group in yaml.safe_load(FILE.read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
}
PROMETHEUS = {"job", "instance", "le"}
"""Labels that Prometheus and its histograms add."""


def known() -> dict[str, set[str]]:
    """The labels of each series that can be asked for."""
    found: dict[str, set[str]] = {"up": set()}
    for metric in (*metrics.SHARED, *(each for own in metrics.SERVICES.values() for each in own)):
        endings = ("_bucket", "_sum", "_count") if metric.kind == "histogram" else ("",)
        found |= {metrics.shown(metric) + ending: set(metric.labels) for ending in endings}
    return found


def asked(expression: str) -> tuple[dict[str, set[str]], set[str]]:
    """The series of an expression with the labels that they are chosen by, and those that it groups by."""
    series: dict[str, set[str]] = {}
    groups: set[str] = set()

    def visit(node: Any) -> bool:
        if isinstance(node, promql_parser.VectorSelector):
            series.setdefault(node.name, set()).update(matcher.name for matcher in node.matchers.matchers)
        if isinstance(node, promql_parser.AggregateExpr) and node.modifier is not None:
            groups.update(node.modifier.labels)
        return True

    promql_parser.walk(promql_parser.parse(expression), visit)
    return series, groups


def test_the_page_is_what_the_code_says() -> None:
    assert (ROOT / "docs/metrics.md").read_text(encoding="utf-8") == metrics.text(), "run `make metrics-doc`"


@pytest.mark.parametrize("name", RULES)
def test_a_rule_asks_for_series_and_labels_that_there_are(name: str) -> None:
    series, groups = asked(RULES[name]["expr"])
    labels = {label for line in series for label in known()[line]} | PROMETHEUS

    assert series
    assert all(chosen <= known()[each] | PROMETHEUS for each, chosen in series.items())
    assert groups <= labels


@pytest.mark.parametrize("name", RULES)
def test_a_rule_says_only_what_its_series_have(name: str) -> None:
    series, groups = asked(RULES[name]["expr"])
    said = set(re.findall(r"\$labels\.(\w+)", RULES[name]["annotations"]["summary"]))

    assert RULES[name]["labels"]["severity"] in ("critical", "warning")
    assert said <= (groups or {label for line in series for label in known()[line]} | PROMETHEUS)


def test_values_of_labels_are_those_that_the_code_tells() -> None:
    from daggers.v1 import events_pb2, gateway_pb2

    text = FILE.read_text(encoding="utf-8")
    phases = re.search(r'phase=~"([A-Z|_]+)"', text)
    fact = re.search(r'fact="(\w+)"', text)

    assert phases is not None
    assert fact is not None
    assert set(phases[1].split("|")) <= set(gateway_pb2.Phase.keys())
    assert fact[1] in events_pb2.DESCRIPTOR.message_types_by_name


def test_every_metric_is_named_as_openmetrics_asks() -> None:
    wrong = [
        metric.name
        for own in (metrics.SHARED, *metrics.SERVICES.values())
        for metric in own
        if not re.fullmatch(r"daggers(_[a-z]+)+", metric.name)
        or metric.name.endswith(("_total", "_info", "_count", "_sum"))
        or not metric.description.endswith(".")
    ]

    assert wrong == []


def test_the_rules_name_only_jobs_that_are_scraped() -> None:
    jobs = {
        each["job_name"]
        for each in yaml.safe_load((FILE.parent / "scrape.yaml").read_text(encoding="utf-8"))[
            "scrape_configs"
        ]
    }
    named = {
        job
        for rule in RULES.values()
        for jobs_of in re.findall(r'job=~?"([^"]+)"', rule["expr"])
        for job in jobs_of.split("|")
    }

    assert named
    assert named <= jobs
