"""AlertService over an alerts topic that a health monitor might have written."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import grpc
import pytest
from daggers.v1 import alerts_pb2, events_pb2, gateway_pb2, gateway_pb2_grpc
from google.protobuf.message import Message

from api_gateway.server import serving
from api_gateway.state.projection import Projection
from chassis.endpoint import Endpoint
from chassis.errors import from_rpc_error
from eventlog import Draft
from eventlog.memory import MemoryLog
from eventlog.testing import START

pb = gateway_pb2
State = pb.AlertDelivery.State
FAILED = alerts_pb2.ALERT_CONDITION_FAILED
STALL, KAFKA = alerts_pb2.ALERT_CONDITION_NO_PROGRESS, alerts_pb2.ALERT_CONDITION_KAFKA_AWAY
CLAIM = alerts_pb2.MonitorStarted(monitor_id="one")


def meta(dagger: str, condition: Any = FAILED, incident: int = 1, epoch: int = 0) -> alerts_pb2.AlertMeta:
    return alerts_pb2.AlertMeta(epoch=epoch, dagger=dagger, condition=condition, incident=incident)


def fired(dagger: str, condition: Any = FAILED, **fields: Any) -> alerts_pb2.AlertFired:
    incident, epoch = fields.pop("incident", 1), fields.pop("epoch", 0)
    event = alerts_pb2.AlertFired(
        meta=meta(dagger, condition, incident, epoch),
        severity=alerts_pb2.ALERT_SEVERITY_CRITICAL,
        summary="it was given up",
        receivers=["slack", "pagerduty"],
        **fields,
    )
    event.since.FromDatetime(START)
    return event


def resolved(dagger: str, condition: Any = FAILED) -> alerts_pb2.AlertResolved:
    event = alerts_pb2.AlertResolved(meta=meta(dagger, condition), summary="it runs again")
    event.until.FromDatetime(START + timedelta(minutes=1))
    return event


def sent(dagger: str) -> alerts_pb2.NotificationSent:
    notice = alerts_pb2.ALERT_NOTICE_FIRED
    return alerts_pb2.NotificationSent(meta=meta(dagger), notice=notice, receiver="slack", attempt=1)


def not_sent(dagger: str) -> alerts_pb2.NotificationFailed:
    return alerts_pb2.NotificationFailed(
        meta=meta(dagger),
        notice=alerts_pb2.ALERT_NOTICE_FIRED,
        receiver="pagerduty",
        attempt=1,
        reason="REFUSED",
        detail="it answered 400",
    )


async def write(harness: Any, *messages: Message) -> None:
    for message in messages:
        sequence = await harness.alerts.end() + 1
        await harness.alerts.append(Draft(f"a{sequence}", "/health-monitor/t", "s", START, message))


async def listed(client: Any, **fields: Any) -> list[tuple[str, int]]:
    answer = await client.alerts.ListAlerts(pb.ListAlertsRequest(**fields), timeout=10)
    return [(alert.dagger, alert.condition) for alert in answer.alerts]


def shape(step: Any) -> tuple[int, str, bool]:
    return step.sequence, step.alert.dagger, step.alert.HasField("until")


# ---- ListAlerts --------------------------------------------------------------------------------------------


async def test_what_is_open_is_listed_by_dagger_and_condition_from_the_start_on(harness: Any) -> None:
    await write(harness, CLAIM, fired("c"), fired("a", STALL), fired("b"), fired("a"), resolved("b"))
    client = await harness.start()

    assert await listed(client) == [("a", FAILED), ("a", STALL), ("c", FAILED)]


async def test_what_is_over_is_listed_when_asked_for(harness: Any) -> None:
    await write(harness, CLAIM, fired("abc"), fired("xyz"), resolved("abc"))
    client = await harness.start()

    assert await listed(client, dagger="abc") == []
    assert await listed(client, dagger="abc", include_resolved=True) == [("abc", FAILED)]


async def test_an_alert_says_all_that_is_known_of_it(harness: Any) -> None:
    measured = {"value": 0.2, "limit": 0.01, "unit": "share", "domain": events_pb2.ERROR_DOMAIN_EXTERNAL}
    await write(
        harness, CLAIM, fired("abc", generation=7, team="pricing", **measured), sent("abc"), not_sent("abc")
    )
    client = await harness.start()

    answer = await client.alerts.ListAlerts(pb.ListAlertsRequest(), timeout=10)

    expected = pb.Alert(
        dagger="abc",
        condition=FAILED,
        incident=1,
        severity=alerts_pb2.ALERT_SEVERITY_CRITICAL,
        summary="it was given up",
        generation=7,
        labels={
            "dagger": "abc",
            "condition": "failed",
            "severity": "critical",
            "team": "pricing",
            "domain": "external",
        },
        team="pricing",
        deliveries=[
            pb.AlertDelivery(
                receiver="pagerduty",
                state=State.STATE_FAILED,
                attempts=1,
                reason="REFUSED",
                detail="it answered 400",
            ),
            pb.AlertDelivery(receiver="slack", state=State.STATE_SENT, attempts=1),
        ],
        sequence=3,
        id="8248b16bae",
        **measured,
    )
    expected.since.FromDatetime(START)
    expected.fire_time.FromDatetime(START)
    assert (list(answer.alerts), answer.sequence) == ([expected], 3)


async def test_an_alert_of_before_values_were_said_has_none(harness: Any) -> None:
    await write(harness, CLAIM, fired("abc"))
    client = await harness.start()

    (alert,) = (await client.alerts.ListAlerts(pb.ListAlertsRequest(), timeout=10)).alerts

    assert (alert.HasField("value"), alert.HasField("limit"), alert.unit, alert.HasField("until")) == (
        False, False, "", False,
    )  # fmt: skip


async def test_what_a_monitor_says_that_was_replaced_is_not_shown(harness: Any) -> None:
    other = alerts_pb2.MonitorStarted(monitor_id="two")
    await write(harness, CLAIM, other, fired("abc", epoch=0), fired("xyz", epoch=1))
    client = await harness.start()

    assert await listed(client) == [("xyz", FAILED)]


async def test_pages_are_the_whole_list_also_while_alerts_resolve(harness: Any) -> None:
    await write(harness, CLAIM, *(fired(name) for name in ("aaa", "bbb", "ccc", "ddd")))
    client = await harness.start()
    first = await client.alerts.ListAlerts(pb.ListAlertsRequest(page_size=2), timeout=10)
    await write(harness, resolved("aaa"), resolved("bbb"))

    request = pb.ListAlertsRequest(page_size=2, page_token=first.next_page_token, min_sequence=6)
    second = await client.alerts.ListAlerts(request, timeout=10)

    assert [alert.dagger for page in (first, second) for alert in page.alerts] == ["aaa", "bbb", "ccc", "ddd"]
    assert (second.next_page_token, second.sequence) == ("", 6)


async def test_a_sequence_that_is_never_reached_ends_with_the_deadline(harness: Any, refusal: Any) -> None:
    client = await harness.start()

    error = await refusal(client.alerts.ListAlerts(pb.ListAlertsRequest(min_sequence=5), timeout=1))

    assert error.code is grpc.StatusCode.DEADLINE_EXCEEDED


async def test_all_that_is_wrong_with_a_list_is_said_at_once(harness: Any, refusal: Any) -> None:
    client = await harness.start()
    request = pb.ListAlertsRequest(dagger="NOT A NAME", page_size=-1, page_token="?", min_sequence=-1)

    error = await refusal(client.alerts.ListAlerts(request, timeout=10))

    assert {violation.field for violation in error.violations} == {
        "dagger", "page_size", "page_token", "min_sequence",
    }  # fmt: skip


async def test_a_cause_and_what_it_holds_back_name_each_other(harness: Any) -> None:
    await write(harness, CLAIM, fired("platform", KAFKA), fired("abc", STALL), fired("abc"))
    client = await harness.start()

    answer = await client.alerts.ListAlerts(pb.ListAlertsRequest(), timeout=10)

    failed, stalled, cause = answer.alerts
    assert (failed.cause, stalled.cause, cause.cause) == ("", cause.id, "")
    assert [alert.holds_back for alert in answer.alerts] == [0, 0, 1]


# ---- WatchAlerts -------------------------------------------------------------------------------------------


async def test_a_watch_begins_with_what_is_open_and_goes_on_with_what_changes(
    harness: Any, steps: Any
) -> None:
    await write(harness, CLAIM, fired("abc"), fired("xyz"), resolved("xyz"))
    client = await harness.start()
    watching = client.alerts.WatchAlerts(pb.WatchAlertsRequest())
    snapshot = await steps(watching, 2)

    await write(harness, resolved("abc"))
    changed = await steps(watching, 1)

    assert [shape(step) for step in snapshot + changed] == [
        (1, "abc", False),
        (3, "", False),
        (4, "abc", True),
    ]


async def test_any_step_is_a_place_to_resume_at_and_nothing_is_missed(harness: Any, steps: Any) -> None:
    await write(harness, CLAIM, fired("aaa"), fired("bbb"), fired("ccc"), sent("aaa"))
    client = await harness.start()
    (first,) = await steps(client.alerts.WatchAlerts(pb.WatchAlertsRequest()), 1)
    await write(harness, resolved("ccc"))

    request = pb.WatchAlertsRequest(since_sequence=first.sequence)
    rest = await steps(client.alerts.WatchAlerts(request), 2)

    assert [shape(step) for step in (first, *rest)] == [
        (2, "bbb", False),
        (4, "aaa", False),
        (5, "ccc", True),
    ]


async def test_a_watch_of_one_dagger_sees_its_alerts_only(harness: Any, steps: Any) -> None:
    await write(harness, CLAIM, fired("abc"), fired("xyz"))
    client = await harness.start()
    watching = client.alerts.WatchAlerts(pb.WatchAlertsRequest(dagger="xyz", since_sequence=-1))
    await steps(watching, 1)

    await write(harness, resolved("abc"), resolved("xyz"))
    (changed,) = await steps(watching, 1)

    assert shape(changed) == (4, "xyz", True)


async def test_a_watch_that_reads_slowly_ends_up_with_every_alert_as_it_is(harness: Any) -> None:
    await write(harness, CLAIM)
    client = await harness.start()
    names = [f"d{number:04}" for number in range(1500)]
    watching = client.alerts.WatchAlerts(pb.WatchAlertsRequest())
    await watching.read()

    await write(harness, *(fired(name) for name in names), *(resolved(name) for name in names))
    over: dict[str, bool] = {}
    async with asyncio.timeout(60):
        while sum(over.values()) < len(names):
            _, name, until = shape(await watching.read())
            over[name] = until

    assert sorted(over) == names


async def test_a_drained_watch_of_alerts_ends_with_where_to_resume(harness: Any) -> None:
    await write(harness, CLAIM, fired("abc"))

    projection, endpoint = Projection(harness.database_url), Endpoint("127.0.0.1:0")
    async with serving(
        MemoryLog(), projection, harness.quarantined, endpoint, alerts=harness.alerts, source="/x"
    ) as gateway:
        channel = grpc.aio.insecure_channel(f"127.0.0.1:{gateway.port}")
        watching = gateway_pb2_grpc.AlertServiceStub(channel).WatchAlerts(pb.WatchAlertsRequest())
        await watching.read()
        await watching.read()
        ended = asyncio.create_task(_ended(watching))
    last, error = await ended
    await channel.close()

    assert (shape(last), error.reason, error.metadata) == (
        (1, "", False),
        "DRAINING",
        {"since_sequence": "1"},
    )


async def _ended(watching: Any) -> tuple[Any, Any]:
    last = await watching.read()
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await watching.read()
    return last, from_rpc_error(caught.value)


@pytest.mark.parametrize(
    ("since", "code"), [(-2, grpc.StatusCode.INVALID_ARGUMENT), (9, grpc.StatusCode.OUT_OF_RANGE)]
)
async def test_a_sequence_that_no_alert_can_have_is_refused(
    harness: Any, since: int, code: grpc.StatusCode
) -> None:
    client = await harness.start()
    watching = client.alerts.WatchAlerts(pb.WatchAlertsRequest(since_sequence=since), timeout=10)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await watching.read()

    assert caught.value.code() == code
