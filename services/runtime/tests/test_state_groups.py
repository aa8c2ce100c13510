"""Groups that grow: room for what is in them, and word of the large ones while their window is open."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from daggers.v1 import spec_pb2
from pyspark.sql import SparkSession
from services.runtime.tests.job_driver import log_sink
from services.runtime.tests.launches import Dagger
from services.runtime.tests.sessions import drain, feed, moment, planned, spark_session, stream
from tests.integration.bookings import booking

from daggerspec import state
from daggersql import Plan
from daggersql.functions.collected import MOST
from runtime.spark.session import keep_state_on_disk
from runtime.state.groups import Groups, changes

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
SAVES = "stateStoreSave"
LISTS = (
    "SELECT driver_id AS tag_driver, CollectArray(discount) AS a, COUNT(*) AS n, LISTAGG(status) AS s"
    " FROM bookings GROUP BY TUMBLE(rowtime, INTERVAL '1' HOUR), driver_id"
)


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    names = ("percentileaggregator", "collectarray", "features", "featureswithtype")
    with spark_session(*names) as started:
        yield started


def newest(folder: Path) -> int:
    """The last batch of the checkpoint: Spark adds batches without records, to close windows."""
    return max(
        int(entry.name) for entry in (folder / "checkpoint" / "commits").iterdir() if entry.name.isdigit()
    )


def grown(
    session: SparkSession, folder: Path, sql: str, *sizes: int, operator: str = SAVES
) -> list[list[str]]:
    """What is told after each batch, of which each adds so many values to the group `many`."""
    plan = planned(sql, "bookings")
    clock = [NOON]
    changed = partial(changes, session, str(folder / "checkpoint"))
    groups = Groups(plan.bounds, plan.horizon, changes=changed, now=lambda: clock[0])
    told, done = [], 0
    for batch, size in enumerate(sizes):
        records: list[dict[str, Any]] = [{"driver_id": "few", "status": "A", "rowtime": moment(0)}]
        many = {"driver_id": "many", "status": "A", "discount": 1, "rowtime": moment(1)}
        feed(folder, "bookings", f"b{batch}", records + [many] * size)
        drain(stream(session, plan, folder), folder)
        for number in range(done, newest(folder) + 1):
            groups.record_batch(number, [operator])
        done = newest(folder) + 1
        groups.check()
        told.append(list(groups.warnings()))
        clock[0] += timedelta(minutes=1)
    return told


def test_a_list_is_told_of_when_it_nears_its_bound_and_when_it_is_beyond(
    session: SparkSession, tmp_path: Path
) -> None:
    told = grown(session, tmp_path, LISTS, MOST // 2, MOST * 3 // 10, MOST * 3 // 10)

    assert told == [
        [],
        [
            "LARGE_GROUPS: A group has 8,000 values in CollectArray or LISTAGG, near the 10,000 that there"
            " is an answer for, and the window is still open. When it closes the dagger ends with"
            " RESULT_TOO_LARGE: group by more."
        ],
        [
            "LARGE_GROUPS: A group has 11,000 values in CollectArray or LISTAGG, more than the 10,000 that"
            " there is an answer for, and the window is still open. When it closes the dagger ends with"
            " RESULT_TOO_LARGE: group by more."
        ],
    ]


def test_a_warning_is_over_when_its_window_must_have_closed_and_no_group_is_large_any_more(
    session: SparkSession, tmp_path: Path
) -> None:
    sql = LISTS.replace("'1' HOUR", "'1' MINUTE").replace(", LISTAGG(status) AS s", "")
    told = grown(session, tmp_path, sql, MOST, 0, 0)

    assert [len(each) for each in told] == [1, 0, 0]


def test_groups_of_sessions_are_told_of_too(session: SparkSession, tmp_path: Path) -> None:
    sql = LISTS.replace("TUMBLE", "SESSION").replace(", LISTAGG(status) AS s", "")
    operator = "sessionWindowStateStoreSaveExec"
    told = grown(session, tmp_path, sql, MOST + 1, operator=operator)

    assert [len(each) for each in told] == [1]


def test_a_query_says_which_of_its_functions_have_a_bound() -> None:
    counted = "SELECT COUNT(DISTINCT driver_id) AS d, DistinctCount(driver_id) AS e, COUNT(*) AS n"
    per_hour = " FROM bookings GROUP BY TUMBLE(rowtime, INTERVAL '1' HOUR)"
    plans: list[Plan] = [planned(LISTS, "bookings"), planned(counted + per_hour, "bookings")]
    found = [[(bound.kind, bound.functions, bound.most) for bound in plan.bounds] for plan in plans]

    assert found == [
        [("list", ("CollectArray", "LISTAGG"), 10_000)],
        [("distinct", ("COUNT(DISTINCT …)",), 1_000_000)],
    ]


@pytest.mark.long
def test_state_on_disk_is_kept_over_restarts_and_is_looked_at_alike(
    session: SparkSession, tmp_path: Path
) -> None:
    disk = session.newSession()
    keep_state_on_disk(disk)
    sql = LISTS.replace("CollectArray(discount)", "SUM(discount)")
    told = grown(disk, tmp_path, sql, MOST // 2, MOST // 2)
    feed(tmp_path, "bookings", "last", [{"rowtime": moment(7300)}])
    rows = {row.tag_driver: row for row in drain(stream(disk, planned(sql, "bookings"), tmp_path), tmp_path)}
    changes_saved = list((tmp_path / "checkpoint" / "state" / "0" / "0").glob("*.changelog"))

    assert [len(each) for each in told] == [0, 1]
    assert (rows["many"].a, rows["many"].n, len(rows["many"].s)) == (MOST, MOST, 2 * MOST - 1)
    assert (rows["few"].n, rows["few"].s) == (2, "A,A")
    assert changes_saved


@pytest.mark.parametrize(
    ("asked", "window", "disk"),
    [
        (spec_pb2.STATE_STORE_UNSPECIFIED, "'59' MINUTE", False),
        (spec_pb2.STATE_STORE_UNSPECIFIED, "'1' HOUR", True),
        (spec_pb2.STATE_STORE_MEMORY, "'1' DAY", False),
        (spec_pb2.STATE_STORE_DISK, "'1' MINUTE", True),
    ],
)
def test_the_spec_or_else_how_long_it_is_kept_decides_where_state_is(
    asked: spec_pb2.StateStore.ValueType, window: str, disk: bool
) -> None:
    spec = spec_pb2.DaggerSpec(state=asked)
    plan = planned(LISTS.replace("'1' HOUR", window), "bookings")

    assert (state.on_disk(spec, plan), state.identity(spec, plan).endswith("-disk")) == (disk, disk)


@pytest.mark.long
def test_different_values_are_told_of_when_they_near_their_bound(
    session: SparkSession, tmp_path: Path
) -> None:
    sql = (
        "SELECT COUNT(DISTINCT order_number) AS d, DistinctCount(order_number) AS e FROM bookings"
        " GROUP BY TUMBLE(rowtime, INTERVAL '1' HOUR)"
    )
    plan = planned(sql, "bookings")
    many = session.range(850_000).selectExpr("CAST(id AS STRING) order_number", f"'{moment(1)}' rowtime")
    many.write.json(str(tmp_path / "bookings"))
    drain(stream(session, plan, tmp_path), tmp_path)
    groups = Groups(
        plan.bounds, plan.horizon, changes=partial(changes, session, str(tmp_path / "checkpoint"))
    )
    groups.record_batch(0, [SAVES])
    groups.check()

    assert "has 850,000 values in COUNT(DISTINCT …), near the 1,000,000" in groups.warnings()[0]


@pytest.mark.long
@pytest.mark.parametrize(
    "call",
    [
        "LISTAGG(status, '>')", "CollectArray(fare)", "Features(status, fare)", "DistinctCount(status)",
        "FeaturesWithType(status, fare, 'DoubleType')", "PercentileAggregator(90, fare)",
        "COUNT(DISTINCT status)", "AVG(fare)", "STDDEV(fare)", "FIRST_VALUE(status)", "MAX(status)",
    ],
)  # fmt: skip
def test_an_aggregate_has_room_for_100_000_groups(call: str, session: SparkSession, tmp_path: Path) -> None:
    sql = (
        f"SELECT order_number AS tag_order, {call} AS answer FROM bookings"
        " GROUP BY TUMBLE(rowtime, INTERVAL '1' MINUTE), order_number"
    )
    plan = planned(sql, "bookings")
    records = "CAST(id % 100000 AS STRING) order_number", "'A' status", "1.5 fare"
    rows = session.range(200_000).selectExpr(*records, f"'{moment(1)}' rowtime")
    rows.write.json(str(tmp_path / "bookings"))
    assert drain(stream(session, plan, tmp_path), tmp_path) == []
    feed(tmp_path, "bookings", "last", [{"rowtime": moment(600)}])
    found = drain(stream(session, plan, tmp_path), tmp_path)

    assert len(found) == 100_000


@pytest.mark.integration
@pytest.mark.long
@pytest.mark.parametrize("state", [spec_pb2.STATE_STORE_MEMORY, spec_pb2.STATE_STORE_DISK])
def test_a_driver_has_room_for_many_small_lists(
    state: spec_pb2.StateStore.ValueType, tmp_path: Path, kafka: str
) -> None:
    groups = 100_000
    sql = (
        "SELECT order_number AS tag_order, LISTAGG(vehicle_type, '>') AS path, CollectArray(fare) AS fares,"
        " PercentileAggregator(50, fare) AS half, Features(vehicle_type, fare) AS features,"
        " TUMBLE_END(rowtime, INTERVAL '60' SECOND) AS window_timestamp"
        " FROM data_stream GROUP BY TUMBLE(rowtime, INTERVAL '60' SECOND), order_number"
    )
    dagger = Dagger(tmp_path, kafka, sql=sql, sinks=[log_sink(1)], state=state)
    dagger.write(*(booking(1, order=str(number % groups)) for number in range(groups + 1000)))
    dagger.write(booking(300))  # its window is one more, closed by the silence after it

    with dagger.launch() as launch:
        launch.until(lambda beat: beat.rows_out and beat.rows_out[0] > groups)
        code = launch.stop()

    assert (code, launch.beats[-1].rows_out[0]) == (0, groups + 1)
