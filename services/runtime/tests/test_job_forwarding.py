"""A query without a window: each record is a point of its own, whatever the partitions of its instant."""

from pathlib import Path

import pytest
from daggers.v1 import spec_pb2
from services.runtime.tests.launches import Dagger
from services.runtime.tests.test_job_driver import influx_sink, log_sink
from services.runtime.tests.test_sink_contract import query
from tests.integration.bookings import booking

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
