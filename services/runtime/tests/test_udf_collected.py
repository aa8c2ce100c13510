"""What aggregates keep of a group: exact to a bound, across batches and restarts, and what is beyond it."""

import math
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import Row, SparkSession
from services.runtime.tests.sessions import (
    answer,
    drain,
    feed,
    invalid_input,
    moment,
    planned,
    spark_session,
    stream,
)
from tests.conformance.corpus import cases, tables
from tests.conformance.values import agrees, plain, refusal

from daggersql import check
from daggersql.functions.collected import MOST
from runtime import functions
from runtime.functions import collectarray, percentileaggregator

NAMES = ("PercentileAggregator", "CollectArray")
CASES = {case["id"]: case for case in cases("udf_cases") if case["udf"] in NAMES}
ANSWERED = sorted(name for name, case in CASES.items() if not refusal(case["expected"]))
PER_MINUTE = "FROM bookings GROUP BY TUMBLE(rowtime, INTERVAL '1' MINUTE)"


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    with spark_session("percentileaggregator", "collectarray", "features", "featureswithtype") as started:
        yield started


@pytest.mark.parametrize("name", ANSWERED)
def test_the_plain_form_gives_what_the_corpus_says(name: str) -> None:
    case = CASES[name]
    found = functions.load(case["udf"].lower()).reference([tuple(map(plain, row)) for row in case["args"]])

    assert agrees(case["expected"], found, case.get("compare", "exact"), case.get("tol", 1e-9)), found


@given(st.floats(0.1, 100), st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=40))
def test_a_percentile_lies_within_the_numbers_and_grows_with_p(p: float, numbers: list[float]) -> None:
    found = percentileaggregator.reference([(p, x) for x in numbers])
    higher = percentileaggregator.reference([(min(100.0, p * 1.5), x) for x in numbers])

    assert found is not None
    assert higher is not None
    assert min(numbers) <= found <= higher + 1e-6 <= max(numbers) + 1e-6


def test_a_percentile_leaves_null_and_nan_out_and_takes_decimals() -> None:
    rows = [(50, None), (50, math.nan), (50, Decimal("1.5")), (50, 2.5)]

    assert percentileaggregator.reference(rows) == 2.0
    assert percentileaggregator.reference([(50, None)]) is None


@pytest.mark.parametrize("p", ["0", "100.5", "-1", "fare", "NULL", "'half'"])
def test_a_percentile_that_is_no_constant_above_0_and_at_most_100_is_refused(p: str) -> None:
    checked = check(f"SELECT PercentileAggregator({p}, fare) AS x {PER_MINUTE}", tables("bookings"))

    assert {finding.code for finding in checked.findings} & {"INVALID_ARGUMENT", "TYPE_MISMATCH"}


PERCENTILES = (0.5, 25, 50, 90, 99.9, 100)
GROUPS: list[list[float | None]] = [
    [],
    [None, None],
    [3.0],
    [7.0] * 9,
    [1.5, 2.5, 10.25, None, 3.0, math.nan],
    [-0.0, 0.0, -1.0],
    [math.inf, 1.0, math.inf, -math.inf],
    [float(x) for x in range(2000)],
    [x / 7 for x in range(MOST)],
]


@pytest.mark.parametrize("group", range(len(GROUPS)))
def test_both_forms_of_the_percentile_agree(group: int, session: SparkSession) -> None:
    numbers = GROUPS[group]
    listed = ", ".join(f"PercentileAggregator({p}, fare) AS p{at}" for at, p in enumerate(PERCENTILES))
    records: list[dict[str, Any]] = [{"fare": number, "surge": True} for number in numbers]
    # One row that FILTER keeps out makes the group.
    records.append({"fare": 5.0, "surge": False})
    sql = f"SELECT {listed} {PER_MINUTE}".replace(" AS p", " FILTER (WHERE surge) AS p")
    found = list(answer(session, sql, records, "bookings")[0])[: len(PERCENTILES)]
    expected = [percentileaggregator.reference([(p, x) for x in numbers]) for p in PERCENTILES]

    assert [None if x is None else repr(x + 0.0) for x in found] == [
        None if x is None else repr(x + 0.0) for x in expected
    ]


def test_beyond_its_exact_range_a_percentile_stays_within_what_it_states(session: SparkSession) -> None:
    many = 10 * MOST
    listed = ", ".join(f"PercentileAggregator({p}, discount) AS p{at}" for at, p in enumerate(PERCENTILES))
    plan = planned(f"SELECT {listed} {PER_MINUTE}", "bookings")
    view = session.range(many).selectExpr(
        "(id * 7919) % 100000 AS discount", "TIMESTAMP'2024-01-01 00:00:00Z' AS rowtime", "'t' AS __topic",
        "0 AS __partition", "0L AS __offset", "current_timestamp() AS __timestamp",
    )  # fmt: skip
    view.createOrReplaceTempView("bookings")
    found = session.sql(plan.spark_sql).collect()[0]
    away = [abs(found[f"p{at}"] - p * many / 100) / many for at, p in enumerate(PERCENTILES)]

    assert max(away) <= 0.0005 + 2 / many
    assert "exact up to 10,000" in plan.warnings[0].message


@pytest.mark.parametrize("name", [name for name in ANSWERED if CASES[name]["udf"] == "CollectArray"])
def test_collectarray_gives_what_the_corpus_says_in_spark(name: str, session: SparkSession) -> None:
    case = CASES[name]
    values = [plain(row[0]) for row in case["args"]]
    columns = {str: "driver_id", int: "discount", float: "fare", bool: "surge"}
    column = next((columns[type(value)] for value in values if type(value) in columns), "event_timestamp")
    records: list[dict[str, Any]] = [{column: value, "order_number": "in"} for value in values]
    records.append({"order_number": "out"})
    sql = f"SELECT CollectArray({column}) FILTER (WHERE order_number = 'in') AS v {PER_MINUTE}"
    found = answer(session, sql, records, "bookings")[0].v

    if column != "event_timestamp":  # Spark collects these without their zone
        assert agrees(case["expected"], found, case["compare"])
    assert len(found) == len(values)


def test_two_lists_of_a_group_have_what_came_together_at_one_position(session: SparkSession) -> None:
    order = np.random.default_rng(5).permutation(3000).tolist()
    records = [{"discount": value, "driver_id": f"d{value}" if value % 3 else None} for value in order]
    sql = f"SELECT CollectArray(discount) AS a, CollectArray(driver_id) AS b {PER_MINUTE}"
    row = answer(session, sql, records, "bookings")[0]

    assert row.a == collectarray.reference([(value,) for value in order])
    assert row.b == [f"d{value}" if value % 3 else None for value in row.a]


def test_a_group_beyond_the_bound_gives_null_is_counted_and_leaves_the_others_alone(
    session: SparkSession,
) -> None:
    records: list[dict[str, Any]] = [{"driver_id": "many", "discount": n} for n in range(MOST + 1)]
    records += [{"driver_id": "some", "discount": n} for n in range(MOST)]
    sql = (
        "SELECT driver_id AS tag_driver, CollectArray(discount) AS a, Features('n', discount) AS f,"
        " FeaturesWithType('n', discount, 'LongType') AS t FROM bookings"
        " GROUP BY TUMBLE(rowtime, INTERVAL '1' MINUTE), driver_id"
    )
    before = invalid_input(session, "collectarray")
    rows = {row.tag_driver: row for row in answer(session, sql, records, "bookings")}

    assert (rows["many"].a, rows["many"].f, rows["many"].t) == (None, None, None)
    assert [len(part) for part in (rows["some"].a, rows["some"].f, rows["some"].t)] == [MOST] * 3
    assert invalid_input(session, "collectarray") == before + 1


def test_what_is_kept_survives_restarts_in_the_middle_of_a_window(
    session: SparkSession, tmp_path: Path
) -> None:
    plan = planned(
        "SELECT PercentileAggregator(90, fare) AS p, CollectArray(driver_id) AS drivers,"
        " CollectArray(fare) FILTER (WHERE surge) AS surged, Features(driver_id, fare) AS features,"
        f" FeaturesWithType('x', cancel_reason_id, 'LongType') AS distinct_ones {PER_MINUTE}",
        "bookings",
    )

    def record(number: int) -> dict[str, Any]:
        return {
            "fare": number / 4, "driver_id": f"d{number}" if number % 5 else None, "surge": number % 2 == 0,
            "cancel_reason_id": number % 3, "rowtime": moment(number % 50),
        }  # fmt: skip

    found: list[Row] = []
    for batch in range(4):
        feed(tmp_path, "bookings", f"b{batch}", [record(n) for n in range(batch * 100, batch * 100 + 100)])
        # Every drain is a restart on the same checkpoint.
        found += drain(stream(session, plan, tmp_path), tmp_path)
    assert found == []
    feed(tmp_path, "bookings", "last", [{"rowtime": moment(600)}])
    (row,) = drain(stream(session, plan, tmp_path), tmp_path)
    numbers = range(400)

    assert row.p == percentileaggregator.reference([(90, n / 4) for n in numbers])
    assert row.drivers == [record(n)["driver_id"] for n in numbers]
    assert row.surged == [n / 4 for n in numbers if n % 2 == 0]
    assert [feature.value.double for feature in row.features] == [n / 4 for n in numbers]
    assert sorted(one.value.long for one in row.distinct_ones) == [0, 1, 2]
