"""Values that functions cannot use, all the way from the workers to the heartbeat."""

from pathlib import Path

import pytest
from services.runtime.tests.job_driver import log_sink
from services.runtime.tests.launches import Dagger
from tests.integration.bookings import booking

pytestmark = pytest.mark.integration
# Distance takes a city's number for a latitude; 91 and more are beyond the pole.
SQL = (
    "SELECT Distance(city_id, 0, 0, 0) AS far, JsonQuery(order_number, '$.a') AS part, rowtime"
    " FROM data_stream"
)


def test_bad_values_give_null_and_stand_in_the_heartbeat(tmp_path: Path, kafka: str) -> None:
    dagger = Dagger(tmp_path, kafka, sql=SQL, sinks=[log_sink(1)])
    dagger.write(*[booking(second, city_id=89 + second) for second in range(5)])

    with dagger.launch() as launch:
        beat = launch.until(lambda beat: beat.rows_out and beat.rows_out[0] >= 5)
        launch.stop()

    assert dict(beat.bad_values) == {"distance": 3, "jsonquery": 5}
    assert list(beat.rows_out) == [5]


@pytest.mark.long
def test_bad_values_that_a_reader_met_are_counted_once_for_each_record(tmp_path: Path, kafka: str) -> None:
    sql = (
        "SELECT COUNT(*) AS bookings, S2Id(city_id, 0, 13) AS tag_cell,"
        " TUMBLE_END(rowtime, INTERVAL '60' SECOND) AS window_timestamp FROM data_stream"
        " GROUP BY TUMBLE(rowtime, INTERVAL '60' SECOND), S2Id(city_id, 0, 13)"
    )
    dagger = Dagger(tmp_path, kafka, sql=sql, sinks=[log_sink(9)])
    dagger.write(*[booking(second, city_id=89 + second % 5) for second in range(50)])

    with dagger.launch() as launch:
        beat = launch.until(lambda beat: beat.rows_out and beat.rows_out[0] >= 3)
        launch.stop()

    assert dict(beat.bad_values) == {"s2id": 30}
    assert list(beat.rows_out) == [3]
