"""A query without a window: each record is a point of its own, whatever the partitions of its instant."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic
from daggers.v1 import spec_pb2
from services.runtime.tests import grpcserver, httpserver
from services.runtime.tests.grpcserver import Reply
from services.runtime.tests.job_driver import influx_sink, log_sink
from services.runtime.tests.launches import Dagger
from services.runtime.tests.sink_cases.grpc import sink as grpc_sink
from services.runtime.tests.sink_cases.http import sink as http_sink
from services.runtime.tests.sink_contract import create, query, records
from services.runtime.tests.sink_protobuf import FILES
from tests.integration.bookings import booking

from runtime.encode.protobuf import message_class

pytestmark = [pytest.mark.integration, pytest.mark.long]
SQL = "SELECT fare, rowtime AS window_timestamp FROM data_stream WHERE city_id < 100"


def test_records_of_one_instant_do_not_overwrite_each_other_even_when_read_twice(
    tmp_path: Path, kafka: str, influx: dict[str, str]
) -> None:
    dagger = Dagger(tmp_path, kafka, sql=SQL, sinks=[influx_sink(influx), log_sink(1)])
    dagger.write(*[booking(10, city_id=city) for city in range(150)])

    with dagger.launch() as launch:
        launch.until(lambda beat: beat.rows_out and beat.rows_out[0] >= 100)
        launch.kill()
    with dagger.launch() as relaunch:
        relaunch.running()
        relaunch.stop()

    found = query(influx, f'SELECT count(fare) FROM "{dagger.name}"')
    assert found["series"][0]["values"][0][1] == 100


def test_a_forwarding_goes_on_as_the_select_that_says_the_same(
    tmp_path: Path, kafka: str, influx: dict[str, str]
) -> None:
    dagger = Dagger(tmp_path, kafka, sql=SQL, sinks=[influx_sink(influx), log_sink(1)])
    dagger.write(*[booking(10, city_id=city) for city in range(150)])
    with dagger.launch() as launch:
        launch.until(lambda beat: beat.rows_out and beat.rows_out[0] >= 100)
        launch.stop()

    dagger.forward = spec_pb2.Forward(
        filter="city_id < 100 -- as before",
        fields=[
            spec_pb2.ForwardField(name="fare", expression="fare"),
            spec_pb2.ForwardField(name="window_timestamp", expression="rowtime"),
        ],
    )
    with dagger.launch() as relaunch:
        relaunch.running()
        dagger.write(*[booking(11, city_id=city) for city in range(95, 105)])
        relaunch.until(lambda beat: beat.rows_out and beat.rows_out[0] >= 5)
        relaunch.stop()

    found = query(influx, f'SELECT count(fare) FROM "{dagger.name}"')
    assert found["series"][0]["values"][0][1] == 105
    assert relaunch.beats[-1].rows_out[0] == 5


class Partitioned(Dagger):
    """A dagger whose topic has three partitions, and records that are no messages, told apart by value."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.topic = create(self.kafka, NewTopic(f"raw-{self.name}", 3, 1))

    def fill(self, start: int, end: int) -> None:
        """Each partition gets the numbers of [start, end), in order."""
        producer = Producer({"bootstrap.servers": self.kafka})
        for number in range(start, end):
            for partition in range(3):
                value, headers = b"\xff%d %d" % (partition, number), [("n", b"%d" % number)]
                producer.produce(self.topic, value, b"\xfe%d" % partition, partition, headers=headers)
        assert producer.flush(30) == 0


def by_partition(bodies: Sequence[bytes]) -> list[list[int]]:
    """What each partition's numbers were, as they came."""
    numbers: list[list[int]] = [[], [], []]
    for body in bodies:
        partition, number = map(int, body[1:].split())
        numbers[partition].append(number)
    return numbers


def test_records_that_nobody_can_decode_keep_their_order_wherever_a_driver_is_killed(
    tmp_path: Path, kafka: str
) -> None:
    """Killed as the first requests are answered, and among others."""
    copies = create(kafka, NewTopic(f"copies-{uuid4().hex[:8]}", 2, 1))
    with httpserver.serving() as server:
        server.answer = lambda _: httpserver.Reply(after_s=0.01)
        to_server = http_sink(server.url, body=spec_pb2.HttpSink.BODY_RAW, ordered=True)
        to_topic = spec_pb2.ResolvedSink()
        to_topic.kafka.bootstrap_servers = kafka
        to_topic.sink.kafka.topic = copies
        dagger = Partitioned(tmp_path, kafka, sinks=[to_server, to_topic, log_sink(1)])
        dagger.forward = spec_pb2.Forward(payload=spec_pb2.Forward.PAYLOAD_RECORD)
        dagger.fill(0, 40)
        for received in (1, 70):
            with dagger.launch() as launch:
                launch.until_true(lambda: len(server.received) >= received)  # noqa: B023 - asked here alone
                launch.kill()
        dagger.fill(40, 50)
        with dagger.launch() as relaunch:
            relaunch.until(lambda _: len({request.body for request in server.received}) == 150)
            relaunch.running()
            assert relaunch.stop() == 0
        received_bodies = [request.body for request in server.received]
        ids = {(request.headers["Idempotency-Key"], request.body) for request in server.received}

    for numbers in by_partition(received_bodies):
        assert [*dict.fromkeys(numbers)] == [*range(50)]  # each first in its order
        steps = {after - before for before, after in pairwise(numbers)}
        assert all(step == 1 or step <= 0 for step in steps)  # on, or back to where the batch began
    assert len(ids) == 150
    copied = records(kafka, copies)
    assert {(copy.value(), copy.key(), copy.headers()[0]) for copy in copied} == {
        (b"\xff%d %d" % (p, n), b"\xfe%d" % p, ("n", b"%d" % n)) for p in range(3) for n in range(50)
    }
    assert len({dict(copy.headers())["daggers_id"] for copy in copied}) == 150
    for numbers in by_partition([copy.value() or b"" for copy in copied]):
        assert [*dict.fromkeys(numbers)] == [*range(50)]  # of one key each


def test_records_are_calls_of_a_method_even_when_a_driver_is_killed_among_them(
    tmp_path: Path, kafka: str
) -> None:
    with grpcserver.serving() as server:
        server.answer = lambda _: Reply(after_s=0.1)
        called = grpc_sink(server.target, message="row.v1.Row")
        sql = "SELECT city_id AS `count` FROM data_stream WHERE city_id < 300"
        dagger = Dagger(tmp_path, kafka, sql=sql, sinks=[called, log_sink(1)])
        dagger.write(*[booking(10, city_id=city) for city in range(400)])
        with dagger.launch() as launch:
            launch.until_true(lambda: len(server.received) >= 10)  # of 300 calls of a tenth of a second
            launch.kill()
        with dagger.launch() as relaunch:
            relaunch.until(lambda _: len({request.message for request in server.received}) == 300)
            relaunch.running()
            assert relaunch.stop() == 0

    messages: dict[object, set[bytes]] = {}
    for request in server.received:
        messages.setdefault(request.metadata["idempotency-key"], set()).add(request.message)
    rows = message_class(FILES, "row.v1.Row")
    assert {len(message) for message in messages.values()} == {1}
    assert sorted(rows.FromString(one).count for [one] in messages.values()) == [*range(300)]
