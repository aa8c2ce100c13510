"""Every alert event ever written still decodes, and still folds to what it did."""

import json

from daggers.v1 import alerts_pb2
from tests.golden.alerts import ALERTS, ALERTS_STATE, alerts_state, said_of
from tests.golden.golden import decoded, history, message_of, records

from fleet.alerts.ledger import Ledger


def test_every_alert_event_of_the_schema_stands_in_the_history() -> None:
    # parts of others; of the heartbeats topic
    elsewhere = {
        *("AlertAcknowledgement", "AlertDestination", "AlertEscalation", "AlertLabels", "AlertMeta"),
        *("AlertRoute", "AlertSilence", "AlertWindows", "GroupNotice", "LastChange", "MonitorBeat"),
        *("ReceiverTestResult", "SilenceNotice"),
    }
    events = set(alerts_pb2.DESCRIPTOR.message_types_by_name) - elsewhere

    assert {entry["type"].removeprefix("daggers.v1.") for entry in history(ALERTS)} >= events


def test_the_bytes_of_every_alert_record_decode_to_its_message() -> None:
    entries = history(ALERTS)

    assert [decoded(entry) for entry in entries] == [message_of(entry) for entry in entries]


def test_every_alert_record_folds_to_what_it_did_and_the_history_ends_in_the_state_it_did() -> None:
    entries, ledger = history(ALERTS), Ledger()

    folded = [
        said_of(ledger, entry, changed=ledger.apply(record))
        for entry, record in zip(entries, records(entries), strict=True)
    ]

    assert folded == [entry["then"] for entry in entries]
    assert alerts_state(ledger) == json.loads(ALERTS_STATE.read_text())
