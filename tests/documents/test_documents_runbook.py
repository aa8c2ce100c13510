"""The runbook: each alert and each reason has a section that a page can link to, with what it asks for."""

from __future__ import annotations

import re

import pytest
from daggers.v1 import alerts_pb2, events_pb2
from tests.documents import names
from tests.documents.pages import ROOT, Page, slug

from api_gateway.rpc.fleet_service import HOST_ALIVE
from daggerspec import exits
from fleet.conditions.dagger_conditions import SEVERITIES
from fleet.decide import drain, placement, reconcile
from fleet.fold.hosts import HOST_REGISTERED
from fleet.health import advice
from fleet.health.degradation import MEANINGS, Reason
from health_monitor.page import runbook

RUNBOOK = Page(ROOT / "docs" / "operations.md")


def alert(condition: alerts_pb2.AlertCondition.ValueType) -> str:
    """How the command, the receivers and the runbook call it."""
    name = alerts_pb2.AlertCondition.Name(condition).removeprefix("ALERT_CONDITION_")
    return name.lower().replace("_", " ")


def asks(anchor: str) -> set[str]:
    """Which of the three parts a section has."""
    return set(re.findall(r"\*\*(Symptom|Check|Act)\.\*\*", RUNBOOK.section(anchor)))


@pytest.mark.parametrize("condition", alerts_pb2.AlertCondition.values()[1:])
def test_every_alert_has_its_section(condition: alerts_pb2.AlertCondition.ValueType) -> None:
    assert condition in SEVERITIES
    assert asks(slug(f"Alert: {alert(condition)}")) == {"Symptom", "Check", "Act"}


@pytest.mark.parametrize("condition", SEVERITIES)
def test_a_page_names_the_section_of_its_alert(condition: alerts_pb2.AlertCondition.ValueType) -> None:
    assert runbook(condition) == f"docs/operations.md#{slug(f'Alert: {alert(condition)}')}"


@pytest.mark.parametrize("condition", SEVERITIES)
def test_an_alert_is_as_severe_as_the_runbook_says(condition: alerts_pb2.AlertCondition.ValueType) -> None:
    severity = alerts_pb2.AlertSeverity.Name(SEVERITIES[condition]).removeprefix("ALERT_SEVERITY_")

    said = RUNBOOK.section(slug(f"Alert: {alert(condition)}"))

    assert said.partition(".")[0] == severity.capitalize()


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_its_section_with_its_meaning(reason: Reason) -> None:
    section = " ".join(RUNBOOK.section(slug(reason)).split())

    assert asks(slug(reason)) == {"Symptom", "Check", "Act"}
    assert f"**Symptom.** {MEANINGS[reason][0].upper()}{MEANINGS[reason][1:]}." in section


@pytest.mark.parametrize(
    "reason",
    [
        HOST_ALIVE,
        HOST_REGISTERED,
        advice.ISOLATED,
        advice.WAITS_FOR_TURN,
        exits.PROCESS_LOST,
        drain.CAME_BACK,
        drain.HOST_CORDONED,
        drain.NOT_SETTLED,
        drain.NO_OTHER_HOST,
        placement.AGENT_TOO_OLD,
        placement.HOST_LACKS,
        placement.NO_HOST,
        reconcile.HOST_LOST,
    ],
)
def test_every_reason_of_a_host_has_its_section(reason: str) -> None:
    assert asks(slug(reason)) >= {"Symptom", "Act"}


def advised() -> set[str]:
    """Every command that the advice names."""
    by_error = [
        tell(events_pb2.DaggerError(domain=domain))
        for tell in (advice.advise_failed, advice.advise_waiting, advice.advise_ended, advice.advise_retrying)
        for domain in events_pb2.ErrorDomain.values()
    ]
    texts = [each.next for each in (*advice.ADVICE.values(), *by_error)]
    said = " ".join([*texts, advice.rollback_hint(3)])
    return set(re.findall(r"`(daggers [a-z]+(?: (?!FILE)[a-z]+(?:-[a-z]+)*)?)", said))


def test_every_command_of_the_advice_exists() -> None:
    assert "daggers quarantine list" in advised()
    assert sorted(advised() - names.commands().keys()) == []


def test_alerts_and_reasons_of_the_runbook_are_all_there_are() -> None:
    titles = re.findall(r"^### (.+)$", RUNBOOK.text, re.MULTILINE)
    headings = [RUNBOOK.section("alerts"), RUNBOOK.section("degradation-reasons")]
    told = re.findall(r"^### (Alert: .+|[A-Z_]+)$", "\n".join(headings), re.MULTILINE)

    assert len(titles) == len(set(titles))
    assert set(told) == {*(f"Alert: {alert(severity)}" for severity in SEVERITIES), *map(str, Reason)}
