"""The fold: what requests and facts do to daggers and the catalogue."""

from datetime import UTC, datetime

from daggers.v1 import events_pb2, gateway_pb2, spec_pb2
from google.protobuf.message import Message

from eventlog import Record
from fleet import Code, Fleet

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def record(sequence: int, message: Message, *, id_: str | None = None) -> Record:
    return Record(
        sequence=sequence,
        id=id_ or f"id-{sequence}",
        source="/test",
        subject="bookings",
        time=NOON,
        type=message.DESCRIPTOR.full_name,
        message=message,
        value=message.SerializeToString(),
    )


def test_smoke() -> None:
    fleet = Fleet()
    meta = events_pb2.RequestMeta(actor="a", expected_version=0)
    fleet.apply(record(0, events_pb2.SchedulerStarted(scheduler_id="s")))
    asked = events_pb2.DaggerRequested(meta=meta, name="bookings", spec=spec_pb2.DaggerSpec(sql="SELECT"))
    first = fleet.apply(record(1, asked))
    again = fleet.apply(record(2, asked))
    assert first.answer.accepted
    assert again.answer.refusal.code == Code.ALREADY_EXISTS
    fleet.apply(
        record(3, events_pb2.LaunchIntended(meta=events_pb2.FactMeta(epoch=0, name="bookings"), version=1))
    )
    assert fleet.daggers["bookings"].phase == gateway_pb2.STARTING
