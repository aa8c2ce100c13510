from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from cloudevents.core.bindings.kafka import KafkaMessage, from_binary, to_binary
from cloudevents.core.formats.base import Format
from cloudevents.core.v1.event import CloudEvent
from daggers.v1 import events_pb2
from google.protobuf.message import Message

from eventlog import Draft, read_record
from eventlog.record import NO_TIME
from eventlog.testing import given, record

TIME = datetime(2026, 7, 1, 12, 30, 0, 250_000, tzinfo=UTC)
DRAFT = Draft("id-1", "/api-gateway/häst-7", "bookings", TIME, events_pb2.DeleteRequested(name="bookings"))


class BytesFormat(Format):
    def read(self, event_factory: object, data: str | bytes) -> CloudEvent:
        raise NotImplementedError("binary mode only")

    def write(self, event: object) -> bytes:
        raise NotImplementedError("binary mode only")

    def write_data(self, data: object, datacontenttype: str | None) -> bytes:
        assert isinstance(data, bytes)
        return data

    def read_data(self, body: bytes, datacontenttype: str | None) -> bytes:
        return body

    def get_content_type(self) -> str:
        return "application/protobuf"


def test_the_cloudevents_sdk_reads_our_headers() -> None:
    value = DRAFT.message.SerializeToString()
    event = from_binary(KafkaMessage(dict(DRAFT.headers()), "bookings", value), BytesFormat())

    attributes = event.get_attributes()

    assert (attributes, event.get_data()) == (
        {
            "specversion": "1.0",
            "id": "id-1",
            "source": "/api-gateway/häst-7",
            "type": "daggers.v1.DeleteRequested",
            "subject": "bookings",
            "time": TIME,
            "datacontenttype": "application/protobuf",
            "partitionkey": "bookings",
        },
        value,
    )


def test_we_read_the_headers_of_the_cloudevents_sdk() -> None:
    attributes = {
        "id": "id-1",
        "source": "/bot",
        "type": "daggers.v1.DeleteRequested",
        "subject": "bookings",
        "time": TIME,
        "datacontenttype": "application/protobuf",
    }
    sent = to_binary(CloudEvent(attributes, DRAFT.message.SerializeToString()), BytesFormat())

    record = read_record(3, sent.headers.items(), sent.value)

    assert (record.sequence, record.id, record.source, record.subject, record.time, record.message) == (
        (3, "id-1", "/bot", "bookings", TIME, DRAFT.message)
    )


@pytest.mark.parametrize(
    ("header", "time"),
    [
        (b"2026-07-01T14:30:00.250000+02:00", TIME),
        (b"2026-07-01T12:30:00.25", TIME),
        (b"yesterday", NO_TIME),
        (b"0001-01-01T00:00:00+14:00", NO_TIME),
        (b"\xff", NO_TIME),
        (b"", NO_TIME),
    ],
)
def test_a_time_is_read_as_utc_and_an_unreadable_one_as_the_epoch(header: bytes, time: datetime) -> None:
    record = read_record(0, [("ce_time", header)], b"")

    assert record.time == time


def test_a_draft_in_another_time_zone_is_written_in_utc() -> None:
    local = TIME.astimezone(timezone(timedelta(hours=5, minutes=30)))
    draft = Draft("id", "/s", "x", local, events_pb2.Running())

    assert dict(draft.headers())["ce_time"] == b"2026-07-01T12:30:00.250000Z"


def test_given_numbers_the_messages_and_names_their_subjects() -> None:
    records = given(
        events_pb2.DaggerRequested(name="a"),
        events_pb2.Running(meta=events_pb2.FactMeta(name="b")),
        events_pb2.ClusterRegistered(cluster={"name": "c"}),
        events_pb2.StreamRegistered(stream={"name": "d"}),
        events_pb2.SchemaRegistered(schema={"messages": ["x.Y", "x.Z"]}),
        since=9,
    )

    assert [(r.sequence, r.subject) for r in records] == [
        (10, "a"),
        (11, "b"),
        (12, "c"),
        (13, "d"),
        (14, "x.Y,x.Z"),
    ]


@pytest.mark.parametrize("message", [events_pb2.SchedulerStarted(), events_pb2.DaggerRequested(name="a")])
def test_a_record_carries_its_message(message: Message) -> None:
    assert record(message, sequence=4, id="mine").message == message
