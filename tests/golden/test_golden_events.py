"""Every event shape ever written still decodes, and still folds to what it did."""

import json

from daggers.v1 import events_pb2
from tests.golden.golden import STATE, decoded, history, message_of, records, said, state

from fleet import Fleet


def test_every_event_of_the_schema_stands_in_the_history() -> None:
    parts = {"RequestMeta", "FactMeta", "DriverHandle", "DaggerError", "QuarantineSelection"}
    parts |= {"QueryState", "SinkOutage"}
    events = set(events_pb2.DESCRIPTOR.message_types_by_name) - parts

    assert {entry["type"].removeprefix("daggers.v1.") for entry in history()} >= events


def test_the_bytes_of_every_record_decode_to_its_message() -> None:
    entries = history()

    assert [decoded(entry) for entry in entries] == [message_of(entry) for entry in entries]


def test_every_record_folds_to_what_it_did() -> None:
    entries, fleet = history(), Fleet()

    folded = [said(fleet, fleet.apply(record)) for record in records(entries)]

    assert folded == [entry["then"] for entry in entries]


def test_the_history_ends_in_the_state_it_did() -> None:
    fleet = Fleet()
    for record in records(history()):
        fleet.apply(record)

    assert state(fleet) == json.loads(STATE.read_text())


def test_a_fold_of_the_history_is_the_same_byte_for_byte_each_time() -> None:
    first, second = Fleet(), Fleet()
    for fleet in (first, second):
        for record in records(history()):
            fleet.apply(record)

    assert json.dumps(state(first)) == json.dumps(state(second))
