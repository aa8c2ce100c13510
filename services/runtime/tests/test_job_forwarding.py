"""A query without a window: each record is a point of its own, whatever the partitions of its instant."""

import time
from pathlib import Path

import pytest
from daggers.v1 import spec_pb2
from services.runtime.tests import grpcserver
from services.runtime.tests.grpcserver import Reply
from services.runtime.tests.launches import DEADLINE_S, Dagger
from services.runtime.tests.sink_cases.grpc import sink as grpc_sink
from services.runtime.tests.test_job_driver import influx_sink, log_sink
from services.runtime.tests.test_sink_contract import query
from services.runtime.tests.test_sink_protobuf import FILES
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
            deadline = time.monotonic() + DEADLINE_S
            while len(server.received) < 10:
                assert time.monotonic() < deadline, launch.log()
                time.sleep(0.01)  # among 300 calls of a tenth of a second; bounded by the deadline
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
