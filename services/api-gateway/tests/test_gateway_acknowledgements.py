"""Acknowledgements of alerts through a gateway: what is written, refused, folded and shown, and by whom."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest
from daggers.v1 import access_pb2, alerts_pb2, events_pb2, gateway_pb2, spec_pb2
from google.protobuf.duration_pb2 import Duration
from tests.alertcallers import AlertCaller, append_alerts
from tests.tenants import FILE

from chassis.errors import ApiError
from eventlog import Draft
from eventlog.memory import MemoryLog
from eventlog.testing import START

pb = gateway_pb2
FAILED, RULE = alerts_pb2.ALERT_CONDITION_FAILED, alerts_pb2.ALERT_CONDITION_RULE
Refused = Callable[[Awaitable[Any]], Awaitable[ApiError]]


def build_meta(dagger: str, rule: str = "", **key: str) -> alerts_pb2.AlertMeta:
    return alerts_pb2.AlertMeta(
        epoch=0, dagger=dagger, condition=RULE if rule else FAILED, rule=rule, key=key, incident=1
    )


def build_fired(meta: alerts_pb2.AlertMeta, team: str = "pricing") -> alerts_pb2.AlertFired:
    return alerts_pb2.AlertFired(meta=meta, team=team, receivers=["slack"])


OPEN = (
    build_fired(build_meta("abc")),
    build_fired(build_meta("abc", "errors", tag_api="pay")),
    build_fired(build_meta("abc", "errors", tag_api="book")),
    build_fired(build_meta("xyz"), "supply"),
    build_fired(build_meta("platform"), ""),
)


class AcknowledgementCaller(AlertCaller):
    """Calls of a gateway by one caller."""

    async def acknowledge(self, dagger: str, condition: Any = FAILED, **fields: Any) -> Any:
        selector = {name: fields.pop(name) for name in ("rule", "key", "incident") if name in fields}
        alerts = pb.OpenAlerts(dagger=dagger, condition=condition, **selector)
        return await self.call("AcknowledgeAlerts", alerts=alerts, **fields)

    async def authors(self, sequence: int = 0) -> dict[str, str]:
        """Return who looks after what is open, by incident."""
        listed = await self.call("ListAlerts", min_sequence=sequence)
        return {alert.id: alert.acknowledgement.author for alert in listed.alerts}


@pytest.fixture
async def root(harness: Any) -> AsyncIterator[AcknowledgementCaller]:
    await append_alerts(harness.alerts, alerts_pb2.MonitorStarted(monitor_id="one"), *OPEN)
    log = MemoryLog()
    for name, team in (("abc", "pricing"), ("xyz", "supply")):
        requested = events_pb2.DaggerRequested(name=name, spec=spec_pb2.DaggerSpec(team=team))
        await log.append(Draft(name, "/test", name, START, requested))
    async with harness.running(log, tokens=lambda: FILE, enforce=True) as client:
        yield AcknowledgementCaller(client.channel)


async def test_an_acknowledgement_says_what_it_is_of_and_is_shown_until_it_is_taken_back(
    root: AcknowledgementCaller,
) -> None:
    answer = await root.acknowledge("abc", comment="on it", duration=Duration(seconds=3600))
    (alert,) = answer.alerts
    given = alert.acknowledgement
    during = await root.authors(answer.sequence)
    ended = await root.call("UnacknowledgeAlerts", alerts={"dagger": "abc", "condition": FAILED})
    again = await root.call("UnacknowledgeAlerts", alerts={"dagger": "abc", "condition": FAILED})

    assert (alert.dagger, given.author, given.comment) == ("abc", "root", "on it")
    assert timedelta(0) < given.until.ToDatetime(tzinfo=UTC) - datetime.now(UTC) <= timedelta(hours=1)
    assert {id_: author for id_, author in during.items() if author} == {alert.id: "root"}
    assert set((await root.authors(ended.sequence)).values()) == {""}
    assert (len(during), again.sequence) == (5, ended.sequence)  # nothing is written twice


async def test_the_keys_of_a_rule_are_acknowledged_together_or_one_by_one(
    root: AcknowledgementCaller,
) -> None:
    one = await root.acknowledge("abc", RULE, rule="errors", key={"tag_api": "pay"}, incident=1)
    both = await root.acknowledge("abc", RULE, rule="errors")

    assert [dict(alert.key) for alert in one.alerts] == [{"tag_api": "pay"}]
    assert {alert.key["tag_api"] for alert in both.alerts} == {"pay", "book"}
    assert one.alerts[0] in both.alerts or one.sequence < both.sequence


async def test_one_that_is_only_checked_is_not_written(root: AcknowledgementCaller, harness: Any) -> None:
    answer = await root.acknowledge("abc", validate_only=True)
    ended = await root.call(
        "UnacknowledgeAlerts", alerts={"dagger": "abc", "condition": FAILED}, validate_only=True
    )

    assert (len(answer.alerts), len(ended.alerts)) == (1, 1)
    assert (set((await root.authors()).values()), await harness.alerts.end()) == ({""}, 5)


async def test_all_that_is_wrong_with_a_request_is_said_at_once(
    root: AcknowledgementCaller, refusal: Refused
) -> None:
    wrong = await refusal(
        root.acknowledge("a" * 301, RULE, comment="a\nb", duration=Duration(seconds=40 * 86_400), incident=-1)
    )
    nothing = await refusal(root.acknowledge("", alerts_pb2.ALERT_CONDITION_UNSPECIFIED, rule="errors"))
    unknown: Any = 999
    strange = await refusal(root.acknowledge("abc", unknown, duration=Duration(seconds=-1)))

    assert {each.field: each.reason for each in wrong.violations} == {
        "alerts.dagger": "TOO_LONG",
        "alerts.rule": "REQUIRED",
        "alerts.incident": "OUT_OF_RANGE",
        "comment": "INVALID_CHARACTER",
        "duration": "OUT_OF_RANGE",
    }
    assert {each.field for each in nothing.violations} == {"alerts.dagger", "alerts.condition", "alerts.rule"}
    assert {each.field for each in strange.violations} == {"alerts.condition", "duration"}


async def test_what_is_not_open_is_not_found_and_the_error_says_what_is(
    root: AcknowledgementCaller, refusal: Refused
) -> None:
    misspelt = await refusal(root.acknowledge("abc", RULE, rule="error"))
    older = await refusal(root.acknowledge("abc", incident=7))
    nowhere = await refusal(root.acknowledge("nowhere"))

    assert {error.code for error in (misspelt, older, nowhere)} == {grpc.StatusCode.NOT_FOUND}
    assert misspelt.metadata["suggestion"] == "errors"
    assert "errors, failed" in str(misspelt)
    assert "none is" in str(nowhere)


async def test_editors_acknowledge_alerts_of_their_own_team(
    root: AcknowledgementCaller, refusal: Refused
) -> None:
    await root.register_team("pricing")
    editor = await root.create_account("builds", "pricing", access_pb2.ROLE_EDITOR)
    viewer = await root.create_account("look", "pricing", access_pb2.ROLE_VIEWER)
    own = await editor.acknowledge("abc")
    denied = [
        await refusal(call)
        for call in (viewer.acknowledge("abc"), editor.acknowledge("xyz"), editor.acknowledge("platform"))
    ]

    assert own.alerts[0].acknowledgement.author == "account:builds"
    assert {error.code for error in denied} == {grpc.StatusCode.PERMISSION_DENIED}
    assert (await root.acknowledge("platform")).alerts[0].acknowledgement.author == "root"


async def test_who_watches_an_alert_hears_who_looks_after_it(root: AcknowledgementCaller, steps: Any) -> None:
    watching = root.bearer.WatchAlerts(pb.WatchAlertsRequest(dagger="abc", since_sequence=5))
    given = await root.acknowledge("abc", comment="on it")
    (step,) = await steps(watching, 1)

    assert (step.sequence, step.alert) == (given.sequence, given.alerts[0])
