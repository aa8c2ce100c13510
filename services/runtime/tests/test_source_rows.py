"""Rows of records: what is kept, what is counted, and how far event time is moved."""

from collections.abc import Sequence

import pytest
from confluent_kafka import Message
from google.protobuf import descriptor_pb2, timestamp_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from runtime.decode.decoder import find_message
from runtime.source.notes import ROWTIME, Tally, note, with_notes
from runtime.source.offsets import Partition
from runtime.source.rows import Rows

START_S = 1_700_000_000
PARTITION = Partition("orders", 0)
_Field = descriptor_pb2.FieldDescriptorProto


@pytest.fixture(scope="module")
def pool() -> DescriptorPool:
    """A message with a time and a status."""
    order = descriptor_pb2.DescriptorProto(name="Order")
    order.field.add(
        name="time", number=1, type=_Field.TYPE_MESSAGE, type_name=".google.protobuf.Timestamp", label=1
    )
    order.field.add(name="status", number=2, type=_Field.TYPE_STRING, label=1)
    file = descriptor_pb2.FileDescriptorProto(
        name="order.proto", package="test", syntax="proto3", message_type=[order],
        dependency=[timestamp_pb2.DESCRIPTOR.name],
    )  # fmt: skip
    pool = DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return pool


def messages(pool: DescriptorPool, statuses: Sequence[str]) -> list[Message]:
    """A record a second, with these statuses."""
    kind = GetMessageClass(find_message(pool, "test.Order"))
    values = [
        kind(time={"seconds": START_S + at}, status=status).SerializeToString()  # type: ignore[call-arg] # a class made at run time
        for at, status in enumerate(statuses)
    ]
    return [
        Message(topic="orders", partition=0, offset=at, value=value, timestamp=(1, (START_S + at) * 1000))
        for at, value in enumerate(values)
    ]


def test_rows_that_the_query_does_not_want_are_counted_and_move_event_time_but_are_not_passed_on(
    pool: DescriptorPool,
) -> None:
    paths = ("__offset", "status")
    rows = Rows(find_message(pool, "test.Order"), paths, "time", equal=(("status", "DONE"),))
    tally = Tally()
    records = messages(pool, ["DONE", "NEW", "", "DONE", "NEW"])

    batch, _ = rows.rows(records, PARTITION, 0, (START_S + 1) * 1000, tally)
    reached = note(with_notes(rows.schema), tally).column(ROWTIME)[0].as_py().timestamp()

    assert batch.column("__offset").to_pylist() == [0, 3]
    assert (tally.rows, tally.late, reached) == (5, 1, START_S + 4)


def test_without_a_wish_every_row_is_passed_on(pool: DescriptorPool) -> None:
    rows = Rows(find_message(pool, "test.Order"), ("status",), "time")

    batch, _ = rows.rows(messages(pool, ["DONE", "NEW"]), PARTITION, 0, None, Tally())

    assert batch.column("status").to_pylist() == ["DONE", "NEW"]
