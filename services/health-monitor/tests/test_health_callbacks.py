"""Callbacks of Slack and PagerDuty: their signatures, and what is read of them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from health_monitor import callbacks, receivers
from health_monitor.callbacks import CallbackRequest, UnreadableCallbackError, pagerduty, sign, slack

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECRET = "8f742231b10e8888abcd99yyyzzz85a5"

# The example of https://docs.slack.dev/authentication/verifying-requests-from-slack
SLACK_BODY = (
    b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V"
    b"&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text="
    b"&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554"
    b"%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
)
SLACK_HEADERS = {
    "x-slack-request-timestamp": "1531420618",
    "x-slack-signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
}
SLACK_TIME = datetime.fromtimestamp(1531420618, UTC)
# The example that PagerDuty publishes with its client for Go, https://pkg.go.dev/github.com/PagerDuty/go-pagerduty
PAGERDUTY = json.loads((Path(__file__).parent / "pagerduty_webhook.json").read_text())
"""Secret, body and signature."""


def request(body: bytes = b"", team: str = "pricing", **headers: str) -> CallbackRequest:
    return CallbackRequest(team, {name.replace("_", "-"): value for name, value in headers.items()}, body)


# ---- Slack -------------------------------------------------------------------------------------------------


def test_the_example_of_slacks_documentation_is_signed() -> None:
    example = CallbackRequest("", SLACK_HEADERS, SLACK_BODY)

    assert slack.is_signed(example, SECRET, SLACK_TIME)
    assert not slack.is_signed(example, SECRET[:-1], SLACK_TIME)
    assert not slack.is_signed(CallbackRequest("", SLACK_HEADERS, SLACK_BODY + b" "), SECRET, SLACK_TIME)


@pytest.mark.parametrize(
    ("seconds", "is_taken"), [(0, True), (300, True), (-300, True), (301, False), (-301, False)]
)
def test_a_request_of_slacks_counts_for_five_minutes(seconds: int, is_taken: bool) -> None:
    now = SLACK_TIME + timedelta(seconds=seconds)

    assert slack.is_signed(CallbackRequest("", SLACK_HEADERS, SLACK_BODY), SECRET, now) is is_taken


@pytest.mark.parametrize("time", ["", "now", "1531420618.0", "-1", "9" * 400, "١٢٣"])
def test_a_time_that_is_none_is_no_signature(time: str) -> None:
    body = b"payload="
    signature = f"v0={sign(SECRET, f'v0:{time}:'.encode() + body)}"
    headers = {"x-slack-request-timestamp": time, "x-slack-signature": signature}

    assert not slack.is_signed(CallbackRequest("", headers, body), SECRET, SLACK_TIME)


def click(**changes: Any) -> dict[str, Any]:
    """Build the payload of a click on the button, as Slack documents it."""
    value = {"receiver": "pricing/slack", "key": "daggers/bookings/failed", "incident": "0123456789"}
    action = {
        "type": "button",
        "action_id": receivers.slack.BUTTON,  # type: ignore[attr-defined]
        "action_ts": "1767268800.1",
        "value": json.dumps(value),
    }
    return {
        "type": "block_actions",
        "user": {"id": "U2CERLKJA", "username": "roadrunner", "name": "roadrunner", "team_id": "T1DC2JH3J"},
        "response_url": "https://hooks.slack.com/actions/T1DC2JH3J/1/secret",
        "actions": [action],
        **changes,
    }


def form(payload: Any) -> bytes:
    return urlencode({"payload": json.dumps(payload)}).encode()


def test_a_click_names_receiver_incident_and_person() -> None:
    callback = slack.read(request(form(click())), "pricing/slack", NOON)

    assert slack.find_receiver(request(form(click()))) == "pricing/slack"
    assert callback is not None
    assert (callback.dedup_key, callback.incident) == ("daggers/bookings/failed", "0123456789")
    assert (callback.actor, callback.time) == ("slack:U2CERLKJA (roadrunner)", NOON)
    assert "secret" not in repr(callback)


def test_a_click_has_an_id_of_its_own() -> None:
    again = click()
    again["actions"][0]["action_ts"] = "1767268805.1"
    callbacks_ = [
        slack.read(request(form(each)), "pricing/slack", NOON) for each in (click(), click(), again)
    ]
    first, same, other = (callback.draft_id for callback in callbacks_ if callback)

    assert first == same != other


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff",
        b"payload=",
        b"payload=[]",
        b"payload=%7B%7D&payload=%7B%7D",
        b"&".join([b"a=b"] * 99),
        form([[]] * 2),
        b"payload=" + b"[" * 20_000,
        form(click(type="view_submission")),
        form(click(actions=None)),
        form(click(actions=[{"action_id": "another"}])),
        form(click(actions=[{"action_id": "daggers_acknowledge", "value": "no JSON"}])),
        form(click(actions=[{"action_id": "daggers_acknowledge", "value": "[]"}])),
        form(click(actions=[{"action_id": "daggers_acknowledge", "value": json.dumps({"receiver": 1})}])),
        form(
            click(
                actions=[
                    {"action_id": "daggers_acknowledge", "value": json.dumps({"receiver": "a/pagerduty"})}
                ]
            )
        ),
    ],
)
def test_what_is_no_click_on_our_button_is_refused_in_words(body: bytes) -> None:
    with pytest.raises(UnreadableCallbackError, match=r"^it"):
        slack.find_receiver(request(body))


@pytest.mark.parametrize("user", [None, {}, {"id": 1}, {"id": "U1 (root)"}, {"id": "U1\n"}, {"id": ""}])
def test_a_click_of_nobody_is_refused(user: Any) -> None:
    with pytest.raises(UnreadableCallbackError):
        slack.read(request(form(click(user=user))), "pricing/slack", NOON)


def test_a_name_moves_no_terminal_and_is_short() -> None:
    user = {"id": "U1", "name": "a\x1b[31m" + "b" * 500}
    callback = slack.read(request(form(click(user=user))), "pricing/slack", NOON)

    assert callback is not None
    assert callback.actor.isprintable()
    assert len(callback.actor) < 100


# ---- PagerDuty ---------------------------------------------------------------------------------------------


def test_the_example_that_pagerduty_publishes_is_signed() -> None:
    body, signature = PAGERDUTY["body"].encode(), PAGERDUTY["signature"]
    other = f"v1={'0' * 64}"

    def is_signed(text: str, secret: str = PAGERDUTY["secret"]) -> bool:
        return pagerduty.is_signed(request(body, x_pagerduty_signature=text), secret, NOON)

    assert is_signed(signature)
    assert is_signed(f"{other},{signature}")  # while the secret is replaced
    assert is_signed(f"{other}, {signature}")
    assert [is_signed(text) for text in ("", other, signature[3:], f"v2={signature[3:]}", "ä", ",")] == [
        False
    ] * 6
    assert not is_signed(signature, "another")


def incident(kind: str, **changes: Any) -> bytes:
    """Build an event of an incident from the published example."""
    event = json.loads(PAGERDUTY["body"])["event"]
    event["data"]["incident_key"] = "daggers/bookings/failed"
    return json.dumps({"event": {**event, "event_type": kind, **changes}}).encode()


def read(body: bytes) -> callbacks.Callback | None:
    return pagerduty.read(request(body), "pricing/pagerduty", NOON)


def test_an_event_names_the_incident_by_its_key_and_the_person() -> None:
    callback = read(incident("incident.acknowledged"))

    assert callback is not None
    assert (callback.dedup_key, callback.incident) == ("daggers/bookings/failed", "")
    assert callback.actor == "pagerduty:PLH1HKV (Tenex Engineer)"
    assert callback.time == datetime(2021, 4, 26, 17, 36, 27, 458_000, UTC)
    assert not callback.is_taken_back


def test_an_acknowledgement_that_ends_by_itself_is_taken_back_by_nobody() -> None:
    callback = read(incident("incident.unacknowledged", agent=None))

    assert callback is not None
    assert (callback.actor, callback.is_taken_back) == ("pagerduty", True)


@pytest.mark.parametrize(
    "body",
    [
        incident("incident.resolved"),
        incident("incident.triggered"),
        incident("pagey.ping", data={"message": "Hello from your friend Pagey!", "type": "ping"}),
        incident("incident.acknowledged", agent=None),
        incident("incident.acknowledged", agent={"id": "P1", "type": "inbound_integration_reference"}),
        incident("incident.acknowledged", data={"incident_key": None}),
    ],
)
def test_what_no_person_acknowledged_is_ignored(body: bytes) -> None:
    assert read(body) is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{" * 20_000,
        b'{"event": 1}',
        incident("incident.acknowledged", data=[]),
        incident("incident.acknowledged", id=None),
        incident("incident.acknowledged", occurred_at="yesterday"),
        incident("incident.acknowledged", occurred_at=7),
        incident("incident.acknowledged", agent={"id": "P 1", "type": "user_reference"}),
    ],
)
def test_an_event_that_cannot_be_read_is_refused_in_words(body: bytes) -> None:
    with pytest.raises(UnreadableCallbackError, match=r"^it"):
        read(body)


def test_an_events_receiver_is_of_the_team_in_its_path() -> None:
    assert pagerduty.find_receiver(request()) == "pricing/pagerduty"
    with pytest.raises(UnreadableCallbackError, match="/callbacks/pagerduty/TEAM"):
        pagerduty.find_receiver(request(team=""))


# ---- Kinds -------------------------------------------------------------------------------------------------


def test_who_calls_back_is_a_receiver_with_an_optional_secret_for_it() -> None:
    for name in callbacks.names():
        fields = receivers.kind(name).Settings.model_fields
        info = fields[callbacks.kind(name).SIGNED_BY]

        assert (receivers.is_secret(info), info.default) == (True, None)
