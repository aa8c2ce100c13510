"""Silences through a gateway: what is written, refused, folded and shown, and by whom."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest
from daggers.v1 import access_pb2, alerts_pb2, gateway_pb2
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from tests.alertcallers import AlertCaller, append_alerts
from tests.tenants import FILE

from api_gateway.rpc import silences
from api_gateway.rpc.alert_log import Alerts
from chassis.errors import ApiError
from eventlog import Draft
from eventlog.memory import MemoryLog

pb = gateway_pb2
HOUR = Duration(seconds=3600)
CLAIM = alerts_pb2.MonitorStarted(monitor_id="one")
Refused = Callable[[Awaitable[Any]], Awaitable[ApiError]]


def build_fired(dagger: str, team: str = "pricing") -> alerts_pb2.AlertFired:
    meta = alerts_pb2.AlertMeta(
        epoch=0, dagger=dagger, condition=alerts_pb2.ALERT_CONDITION_FAILED, incident=1
    )
    severity = alerts_pb2.ALERT_SEVERITY_CRITICAL
    return alerts_pb2.AlertFired(meta=meta, severity=severity, team=team, receivers=["slack"])


class SilenceCaller(AlertCaller):
    """Calls of AlertService by one caller; of open alerts pricing has two, and supply has one."""

    async def silence(self, *matchers: str, **fields: Any) -> Any:
        fields_ = {"team": "pricing", "duration": HOUR, "reason": "deploy", **fields}
        return await self.call("CreateSilence", matchers=matchers, **fields_)

    async def silences(self, **fields: Any) -> list[str]:
        return [one.silence.id for one in (await self.call("ListSilences", **fields)).silences]


@pytest.fixture
async def root(harness: Any) -> AsyncIterator[SilenceCaller]:
    fired = (build_fired("abc"), build_fired("abd"), build_fired("xyz", "supply"))
    await append_alerts(harness.alerts, CLAIM, *fired)
    async with harness.running(tokens=lambda: FILE, enforce=True) as client:
        yield SilenceCaller(client.channel)


async def test_a_silence_says_what_it_matches_and_is_shown_on_it_until_it_is_ended(
    root: SilenceCaller,
) -> None:
    before = datetime.now(UTC)
    answer = await root.silence("dagger=ab*", "severity=critical")
    silence = answer.silence
    alerts = (await root.call("ListAlerts", min_sequence=answer.sequence)).alerts
    ended = await root.call("ExpireSilence", id=silence.id)
    again = await root.call("ExpireSilence", id=silence.id)

    assert (answer.alerts, silence.author, silence.reason) == (2, "root", "deploy")
    assert silence.id.startswith("pricing/")
    assert silence.end.ToDatetime() - silence.begin.ToDatetime() == timedelta(hours=1)
    assert abs(silence.begin.ToDatetime(tzinfo=UTC) - before) < timedelta(minutes=1)
    assert {alert.dagger: alert.silence.id for alert in alerts} == {
        "abc": silence.id,
        "abd": silence.id,
        "xyz": "",
    }
    assert (ended, ended.silence.ended_by) == (again, "root")
    alerts = (await root.call("ListAlerts", min_sequence=ended.sequence)).alerts
    assert not any(alert.HasField("silence") for alert in alerts)
    assert (await root.silences(), await root.silences(include_ended=True)) == ([], [silence.id])


async def test_a_request_that_is_repeated_makes_one_silence_and_another_one_by_its_id_is_refused(
    root: SilenceCaller, refusal: Refused, harness: Any
) -> None:
    first = await root.silence("dagger=abc", request_id="r1")
    again = await root.silence("dagger=abc", request_id="r1")
    error = await refusal(root.silence("dagger=xyz", request_id="r1"))

    assert (first.silence, await root.silences()) == (again.silence, [first.silence.id])
    assert (error.reason, await harness.alerts.end()) == ("REQUEST_ID_REUSED", 4)


async def test_a_silence_that_is_only_checked_is_not_written(root: SilenceCaller, harness: Any) -> None:
    answer = await root.silence("dagger=nothing", validate_only=True)

    assert (answer.alerts, answer.silence.id, answer.sequence) == (0, "", 0)
    assert (await root.silences(), await harness.alerts.end()) == ([], 3)


async def test_all_that_is_wrong_with_a_silence_is_said_at_once(
    root: SilenceCaller, refusal: Refused
) -> None:
    wrong = await refusal(
        root.silence(
            "dagger=abc", "sevrity=critical", "no matcher",
            team="NO TEAM", duration=Duration(seconds=-1), reason="a\nb", request_id="no id",
            begin=Timestamp(seconds=2**62),
        )
    )  # fmt: skip
    none = await refusal(root.silence(reason=" ", begin=Timestamp(seconds=253_402_300_799)))

    assert {each.field: each.reason for each in wrong.violations} == {
        "matchers[1]": "UNKNOWN_LABEL",
        "matchers[2]": "INVALID_MATCHER",
        "team": "INVALID_NAME",
        "duration": "OUT_OF_RANGE",
        "reason": "INVALID_CHARACTER",
        "request_id": "INVALID_REQUEST_ID",
        "begin": "OUT_OF_RANGE",
    }
    assert "did you mean severity?" in str(wrong.violations)
    assert {each.field for each in none.violations} == {"matchers", "reason", "begin", "duration"}


async def test_a_team_has_a_hundred_silences_at_most(root: SilenceCaller, refusal: Refused) -> None:
    for number in range(100):
        created = await root.silence(f"dagger=d{number}")
    error = await refusal(root.silence("dagger=abc"))
    await root.call("ExpireSilence", id=created.silence.id)

    assert (error.reason, error.metadata["limit"]) == ("TOO_MANY_SILENCES", "100")
    assert (await root.silence("dagger=abc")).alerts == 1
    first = await root.call("ListSilences", page_size=60)
    second = await root.call("ListSilences", page_size=60, page_token=first.next_page_token)
    ends = [one.silence.end.ToMicroseconds() for page in (first, second) for one in page.silences]
    assert (len(ends), ends) == (100, sorted(ends))


async def test_editors_silence_their_own_team_and_see_no_silence_of_another(
    root: SilenceCaller, refusal: Refused
) -> None:
    for team in ("pricing", "supply"):
        await root.register_team(team)
    editor = await root.create_account("builds", "pricing", access_pb2.ROLE_EDITOR)
    viewer = await root.create_account("look", "pricing", access_pb2.ROLE_VIEWER)
    other = await root.create_account("other", "supply", access_pb2.ROLE_EDITOR)
    own, theirs = await editor.silence("dagger=*"), await other.silence("dagger=*", team="supply")
    of_all = await root.silence("condition=failed", team="")
    denied = [
        await refusal(call)
        for call in (
            viewer.silence("dagger=*"),
            editor.silence("dagger=*", team="supply"),
            editor.silence("dagger=*", team=""),
            editor.call("ExpireSilence", id=theirs.silence.id),
            editor.call("ExpireSilence", id=of_all.silence.id),
        )
    ]

    assert (own.alerts, of_all.alerts) == (2, 3)  # of all teams, whatever matches: its own alone
    assert {error.code for error in denied} == {grpc.StatusCode.PERMISSION_DENIED}
    assert await editor.silences() == await viewer.silences() == [own.silence.id, of_all.silence.id]
    assert (await editor.call("ExpireSilence", id=own.silence.id)).silence.ended_by == "account:builds"


async def test_who_was_never_told_of_what_is_over_within_a_silence_is_shown_as_such(
    root: SilenceCaller, harness: Any
) -> None:
    created = await root.silence("dagger=abc")
    over = alerts_pb2.AlertResolved(meta=build_fired("abc").meta, summary="it runs again")
    await harness.alerts.append(Draft("over", "/health-monitor/t", "s", datetime.now(UTC), over))
    listed = await root.call(
        "ListAlerts", dagger="abc", include_resolved=True, min_sequence=created.sequence + 1
    )

    assert [each.state for each in listed.alerts[0].deliveries] == [pb.AlertDelivery.STATE_WITHHELD]


async def test_a_silence_that_is_not_there_is_not_ended(root: SilenceCaller, refusal: Refused) -> None:
    created = await root.silence("dagger=abc")
    error = await refusal(root.call("ExpireSilence", id=created.silence.id[:-1]))

    assert (error.code, error.metadata["suggestion"]) == (grpc.StatusCode.NOT_FOUND, created.silence.id)


async def test_who_watches_an_alert_is_told_that_it_is_silenced(
    root: SilenceCaller, harness: Any, steps: Any
) -> None:
    watching = root.bearer.WatchAlerts(pb.WatchAlertsRequest(dagger="abc", since_sequence=3))
    created = await root.silence("dagger=abc")
    (step,) = await steps(watching, 1)

    assert (step.sequence, step.alert.silence) == (created.sequence, created.silence)


async def test_a_record_that_is_not_read_back_in_time_is_an_error_that_says_what_to_do() -> None:
    alerts = Alerts(MemoryLog(), patience_s=0.01)  # nobody follows the log
    request = pb.CreateSilenceRequest(
        matchers=["dagger=abc"], duration=HOUR, reason="deploy", request_id="r7"
    )
    with pytest.raises(ApiError) as caught:
        await silences.create(request, alerts)

    assert (caught.value.code, caught.value.reason) == (grpc.StatusCode.UNAVAILABLE, "LOG_UNAVAILABLE")
    assert caught.value.metadata["request_id"] == "r7"
