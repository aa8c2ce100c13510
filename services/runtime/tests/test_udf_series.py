"""Averages, trends and outliers of series: the plain form, the corpus, the fast form beside it, and Spark."""

import math
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from services.runtime.tests.sessions import START, answer, invalid_input, spark_session
from tests.conformance.corpus import cases, tables
from tests.conformance.values import agrees, plain, refusal

from daggersql import check
from runtime import functions
from runtime.functions import exponentialmovingaverage, histogrambucket, lineartrend, outliermad

NAMES = ("ExponentialMovingAverage", "LinearTrend", "OutlierMad", "HistogramBucket")
CASES = {case["id"]: case for case in cases("udf_cases") if case["udf"] in NAMES}
ANSWERED = sorted(name for name, case in CASES.items() if not refusal(case["expected"]))
TIME = pa.timestamp("us", "UTC")
KINDS: dict[str, list[Any]] = {
    "ExponentialMovingAverage": [pa.list_(TIME), pa.list_(pa.float64()), TIME, pa.float64(), pa.float64()],
    "LinearTrend": [pa.list_(TIME), pa.list_(pa.float64()), TIME, pa.int64()],
    "OutlierMad": [
        pa.list_(pa.float64()), pa.list_(TIME), TIME, pa.int64(), pa.int64(), pa.float64(), pa.float64(),
    ],
}  # fmt: skip

TIMES = st.lists(
    st.none()
    | st.integers(-120, 1500).map(lambda seconds: START + timedelta(seconds=seconds, microseconds=seconds)),
    max_size=12,
)
NUMBERS = st.none() | st.floats(-1e6, 1e6) | st.integers(-3, 3).map(float)
ODD = NUMBERS | st.sampled_from([math.nan, math.inf, -math.inf])


def fast(name: str, rows: list[tuple[Any, ...]]) -> list[Any]:
    """The fast form over a batch of calls; rows of structs as tuples."""
    columns = [
        pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), KINDS[name], strict=True)
    ]
    found = functions.load(name.lower()).compute(*columns).to_pylist()
    return [[tuple(item.values()) for item in each] if isinstance(each, list) else each for each in found]


def same(one: Any, other: Any) -> bool:
    """Whether two answers are equal but for rounding."""
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-6) or (math.isnan(one) and math.isnan(other))
    return bool(one == other)


@pytest.mark.parametrize("name", ANSWERED)
def test_the_plain_form_gives_what_the_corpus_says(name: str) -> None:
    case = CASES[name]
    found = functions.load(case["udf"].lower()).reference(*map(plain, case["args"]))

    assert agrees(case["expected"], found, case.get("compare", "exact"), case.get("tol", 1e-9)), found


@pytest.mark.parametrize("name", [name for name in ANSWERED if CASES[name]["udf"] in KINDS])
def test_the_fast_form_gives_what_the_corpus_says(name: str) -> None:
    case = CASES[name]
    found = fast(case["udf"], [tuple(map(plain, case["args"]))])[0]

    assert agrees(case["expected"], found, case.get("compare", "exact"), case.get("tol", 1e-9)), found


@given(
    st.lists(
        st.tuples(TIMES, st.lists(ODD, max_size=12), st.integers(0, 20).map(float), st.floats(-0.1, 1.1))
    )
)
@settings(max_examples=2 * settings.default.max_examples)
def test_both_forms_of_the_moving_average_agree(rows: list[tuple[Any, ...]]) -> None:
    calls = [(times, values, START, window, alpha) for times, values, window, alpha in rows]
    calls.append((None, [1.0], START, 5.0, 0.5))

    assert same(
        fast("ExponentialMovingAverage", calls), [exponentialmovingaverage.reference(*call) for call in calls]
    )


@given(st.lists(st.tuples(TIMES, st.lists(NUMBERS, max_size=12), st.integers(-1, 25))))
@settings(max_examples=2 * settings.default.max_examples)
def test_both_forms_of_the_trend_agree(rows: list[tuple[Any, ...]]) -> None:
    calls = [(times, values, START, minutes) for times, values, minutes in rows]
    calls.append(([START], None, START, 5))

    assert same(fast("LinearTrend", calls), [lineartrend.reference(*call) for call in calls])


@given(
    st.lists(
        st.tuples(
            st.lists(st.tuples(ODD, st.integers(-2, 20)), max_size=15),
            st.integers(1, 15),
            st.integers(1, 15),
            st.integers(0, 5).map(float),
            st.integers(0, 100).map(float),
        )
    )
)
@settings(max_examples=2 * settings.default.max_examples)
def test_both_forms_of_the_outliers_agree(rows: list[tuple[Any, ...]]) -> None:
    calls: list[tuple[Any, ...]] = [
        (
            [value for value, _ in points],
            [START + timedelta(minutes=minute) for _, minute in points],
            START,
            *numbers,
        )
        for points, *numbers in rows
    ]
    calls.append(([1.0], [None], START, 5, 5, 1.0, 1.0))
    found = fast("OutlierMad", calls)

    assert same(found, [outliermad.reference(*call) for call in calls])


def test_lists_of_different_length_have_no_answer() -> None:
    unequal = ([START, START], [1.0], START, 5)

    assert fast("LinearTrend", [unequal]) == [None]
    assert lineartrend.reference(*unequal) is None
    assert fast("OutlierMad", [([1.0], [START, START], START, 5, 5, 1.0, 1.0)]) == [None]
    assert outliermad.reference([1.0], [START, START], START, 5, 5, 1.0, 1.0) == []


def test_a_zero_deviation_on_one_side_makes_nothing_an_outlier() -> None:
    times = [START + timedelta(minutes=minute) for minute in range(5)]
    found = outliermad.reference([5.0, 5.0, 5.0, 5.0, 99.0], times, START, 5, 2, 3, 1)

    assert found == [(times[3], 5.0, 5.0, 5.0, False), (times[4], 99.0, 99.0, 99.0, False)]


WINDOW = "TUMBLE_START(rowtime, INTERVAL '5' MINUTE)"


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (f"LinearTrend(CollectArray(rowtime), CollectArray(fare), {WINDOW}, 0)", "INVALID_ARGUMENT"),
        (f"ExponentialMovingAverage(CollectArray(rowtime), CollectArray(fare), {WINDOW}, 5, 1.5)",
         "INVALID_ARGUMENT"),
        (f"ExponentialMovingAverage(CollectArray(rowtime), CollectArray(fare), {WINDOW}, 2.5, 1)",
         "INVALID_ARGUMENT"),
        (f"LinearTrend(CollectArray(fare), CollectArray(fare), {WINDOW}, 5)", "TYPE_MISMATCH"),
        (f"LinearTrend(CollectArray(rowtime), CollectArray(status), {WINDOW}, 5)", "TYPE_MISMATCH"),
    ],
)  # fmt: skip
def test_bad_constants_and_lists_are_refused(call: str, code: str) -> None:
    sql = f"SELECT {call} AS v FROM bookings GROUP BY TUMBLE(rowtime, INTERVAL '5' MINUTE)"

    assert next(iter(check(sql, tables("bookings")).findings)).code == code


@given(st.floats(allow_nan=True), st.lists(st.integers(-5, 5) | st.floats(-5, 5), min_size=1, max_size=5))
def test_the_first_bucket_holds_every_value_and_no_bound_is_below_it(
    value: float, bounds: list[float]
) -> None:
    found = [bucket for (bucket,) in histogrambucket.reference(value, ",".join(map(str, bounds)))]

    assert found == ["+Inf", *(str(bound) for bound in bounds if bound >= value)]


# --- Spark ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    with spark_session("exponentialmovingaverage", "lineartrend", "collectarray") as started:
        yield started


def test_series_made_by_collectarray_are_averaged_in_spark(session: SparkSession) -> None:
    start = "TUMBLE_START(rowtime, INTERVAL '1' HOUR)"
    times_list, fares = "CollectArray(event_timestamp)", "CollectArray(fare)"
    some = f"{fares} FILTER (WHERE discount > 3)"
    sql = (
        f"SELECT ExponentialMovingAverage({times_list}, CollectArray(discount), {start}, CAST(15 AS DOUBLE),"
        f" CAST(0.2 AS DOUBLE)) AS ema, LinearTrend({times_list}, {fares}, {start}, 15) AS slope,"
        f" LinearTrend({times_list}, {some}, {start}, 15) AS unequal,"
        f" ExponentialMovingAverage(NULL, {fares}, {start}, 15, 0.2) AS nothing"
        " FROM bookings GROUP BY TUMBLE(rowtime, INTERVAL '1' HOUR)"
    )
    times = [START + timedelta(seconds=60 * minute + 7) for minute in (3, 0, 7, 7, 14, 20)]
    values = [5, 1, 4, 2, 9, 8]
    before = invalid_input(session, "lineartrend")
    records = [
        {"event_timestamp": time, "discount": value, "fare": value / 2}
        for time, value in zip(times, values, strict=True)
    ]
    row = answer(session, sql, records, "bookings")[0]
    halves = [value / 2 for value in values]

    assert row.ema == pytest.approx(exponentialmovingaverage.reference(times, values, START, 15, 0.2))
    assert row.slope == pytest.approx(lineartrend.reference(times, halves, START, 15))
    assert (row.unequal, row.nothing) == (None, None)
    assert invalid_input(session, "lineartrend") == before + 1
