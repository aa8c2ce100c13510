"""The dialect in a real Spark: accepted queries plan, expressions mean what they should, state is exact."""

import math
from base64 import b64encode
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from services.runtime.tests.sessions import START, drain, feed, moment, planned, schema, spark_session, stream
from tests.conformance.corpus import cases, tables

from daggersql import check
from runtime import functions
from runtime.functions import s2id

ACCEPTED = {
    case["id"]: case
    for case in cases("sql_accept")
    if check(case["sql"], tables(*case["streams"])).plan is not None
}


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    with spark_session(*functions.names()) as started:
        yield started


@pytest.mark.parametrize(
    "name",
    # Every third, and all of them in test-long.
    [pytest.param(name, marks=[pytest.mark.long] * (at % 3 > 0)) for at, name in enumerate(sorted(ACCEPTED))],
)
def test_a_query_that_passes_the_check_runs_in_spark_with_the_types_it_promised(
    name: str, session: SparkSession, tmp_path: Path
) -> None:
    case = ACCEPTED[name]
    plan = planned(case["sql"], *case["streams"])
    rows = stream(session, plan, tmp_path)
    types = [(field.name, field.dataType.simpleString()) for field in rows.schema.fields]

    assert drain(rows, tmp_path) == []
    assert types[: len(plan.columns)] == [(column.name, column.type) for column in plan.columns]
    assert [each for each, _ in types[len(plan.columns) :]] == list(plan.hidden)


BOOKING = {
    "order_number": "o-1",
    "driver_id": "a|b||c",
    "status": "COMPLETED",
    "fare": 12.345,
    "tip": -1.5,
    "discount": -7,
    "cancel_reason_id": 2,
    "surge": True,
    "promo_codes": ["x", "y"],
    "metadata": {"k": "v"},
    "items": [{"id": "i1", "quantity": 3, "name": "tea", "price": 1.5}],
    "raw_payload": bytearray(b"\x01\x02"),
    "event_timestamp": START + timedelta(microseconds=1_500_000),
    "customer": {"id": "c-1", "name": None, "email": "e", "tier": "gold", "signup_time": START},
    "pickup": {"latitude": -6.170024, "longitude": 106.8243203, "address": "50%_\\", "accuracy_m": 1.0},
}
MEANINGS: dict[str, Any] = {
    # Whole numbers divide to whole numbers, cut off towards zero; a division by zero is NULL.
    "discount / 2": -3,
    "7 / cancel_reason_id": 3,
    "discount % 4": -3,
    "MOD(discount, 4)": -3,
    "discount / (cancel_reason_id - 2)": None,
    "fare / 0": None,
    "9223372036854775807 + discount / discount": None,
    "2147483647 + 1": None,
    "-discount": 7,
    "CAST(discount AS DOUBLE) / 2": -3.5,
    "ABS(discount)": 7,
    "ROUND(fare, 2)": 12.35,
    "ROUND(1234, -2)": 1200,
    "TRUNCATE(fare, 1)": 12.3,
    "TRUNCATE(tip)": -1.0,
    "FLOOR(tip)": -2.0,
    "CEIL(fare)": 13.0,
    "SIGN(tip)": -1.0,
    "LN(tip)": None,
    "1.5 * 2": 3.0,
    # What cannot be cast is NULL.
    "CAST('12x' AS INT)": None,
    "CAST(fare AS INT)": 12,
    "CAST(rowtime AS VARCHAR)": "2024-02-29 12:00:00.000",
    "CAST('abcdef' AS VARCHAR(3))": "abc",
    "CAST(order_number AS TIMESTAMP)": None,
    # Text.
    "driver_id || '-' || order_number": "a|b||c-o-1",
    "SPLIT_INDEX(driver_id, '|', 1)": "b",
    "SPLIT_INDEX(driver_id, '|', 2)": "",
    "SPLIT_INDEX(driver_id, '|', 9)": None,
    "SPLIT_INDEX(driver_id, '|', -1)": None,
    "SUBSTRING('abcdef' FROM 2 FOR 3)": "bcd",
    "SUBSTR('abcdef', 2)": "bcdef",
    "POSITION('c' IN 'abc')": 3,
    "LOCATE('a', 'banana', 3)": 4,
    "TRIM(LEADING 'x' FROM 'xxax')": "ax",
    "TRIM('  a ')": "a",
    "LPAD('7', 3, '0')": "007",
    "LPAD('7', -1, '0')": None,
    "CONCAT('a', customer.name)": None,
    "CONCAT_WS(',', 'a', customer.name, 'b')": "a,b",
    "MD5('a')": "0cc175b9c0f1b6a831c399e269772661",
    "FROM_BASE64(TO_BASE64('héllo'))": "héllo",
    "FROM_BASE64('***')": None,
    "pickup.address LIKE '50%'": True,
    "pickup.address LIKE '50!%!_\\' ESCAPE '!'": True,
    "pickup.address LIKE '%\\'": True,
    "'${spark.master} it''s \\n'": "${spark.master} it's \\n",
    "REGEXP(order_number, '^o-[0-9]+$')": True,
    # Conditions and NULL.
    "customer.name = 'x'": None,
    "customer.name IS DISTINCT FROM 'x'": True,
    "status IN ('COMPLETED', 'CANCELLED')": True,
    "CASE status WHEN 'COMPLETED' THEN 1 ELSE 2 END": 1,
    "CASE WHEN surge THEN 1 ELSE 2.5 END": 1.0,
    "IF(NOT surge, 1, 2)": 2,
    "COALESCE(customer.name, 'none')": "none",
    "NULLIF(order_number, 'o-1')": None,
    "GREATEST(fare, 100, discount)": 100.0,
    "GREATEST('a', customer.name)": None,
    "LEAST(discount, 3)": -7,
    "fare > '12'": True,
    "surge IS NOT FALSE": True,
    "fare BETWEEN 1 AND 12": False,
    # Lists, maps, messages.
    "promo_codes[1]": "x",
    "promo_codes[3]": None,
    "promo_codes[cancel_reason_id]": "y",
    "metadata['k']": "v",
    "metadata['none']": None,
    "items[1].price": 1.5,
    "CARDINALITY(promo_codes)": 2,
    "customer.tier": "gold",
    # Time.
    "event_timestamp.seconds": int(START.timestamp()) + 1,
    "event_timestamp.nanos": 500_000_000,
    "EXTRACT(DOW FROM rowtime)": 5,
    "HOUR(rowtime)": 12,
    "FLOOR(event_timestamp TO MINUTE)": START.replace(tzinfo=None),
    "CEIL(event_timestamp TO DAY)": datetime(2024, 3, 1),  # noqa: DTZ001 - Spark collects without a zone
    "rowtime + INTERVAL '1' DAY - INTERVAL '12:00' HOUR TO MINUTE": datetime(2024, 3, 1),  # noqa: DTZ001
    "TIMESTAMP '2024-02-29 12:00:00' = rowtime": True,
    "rowtime >= '2024-02-29 12:00:00'": True,
    # Our own.
    "S2Id(pickup.latitude, pickup.longitude, 13)": s2id.reference(-6.170024, 106.8243203, 13),
    "S2Id(pickup.latitude, NULL, 13)": None,
}


def test_expressions_mean_in_spark_what_they_mean_in_flink(session: SparkSession) -> None:
    listed = ", ".join(f"{sql} AS c{i}" for i, sql in enumerate(MEANINGS))
    plan = planned(f"SELECT {listed} FROM bookings")
    table = next(table for table in tables() if table.name == "bookings")
    shape = schema(table, plan.reads[0].paths)
    fields = {field.name for field in shape.fields}
    narrow = {
        "customer": ("name", "tier"),
        "pickup": ("latitude", "longitude", "address"),
    }
    row = {name: value for name, value in BOOKING.items() if name in fields}
    for name, kept in narrow.items():
        row[name] = {each: BOOKING[name][each] for each in kept}  # type: ignore[index]  # a nested message
    row["items"] = [{"price": 1.5}]
    row |= {"rowtime": START, "__topic": "t", "__partition": 0, "__offset": 1, "__timestamp": START}
    row |= {"event_timestamp:seconds": int(START.timestamp()) + 1, "event_timestamp:nanos": 500_000_000}
    session.createDataFrame([row], shape).createOrReplaceTempView("bookings")
    found = session.sql(plan.spark_sql).collect()[0]
    got = {sql: found[f"c{i}"] for i, sql in enumerate(MEANINGS)}
    expected = {
        sql: pytest.approx(value) if isinstance(value, float) else value for sql, value in MEANINGS.items()
    }

    assert {sql: float(v) if hasattr(v, "as_tuple") else v for sql, v in got.items()} == expected


def test_s2id_works_in_projection_filter_and_group_key_of_a_stream(
    session: SparkSession, tmp_path: Path
) -> None:
    points = [(-6.17, 106.82), (-6.17, 106.82), (51.5, -0.12), (None, 1.0)]
    kept = s2id.reference(-6.17, 106.82, 13)
    grouped = planned(
        "SELECT S2Id(pickup.latitude, pickup.longitude, 13) AS tag_cell, COUNT(*) AS n, "
        "UPPER(S2Id(pickup.latitude, pickup.longitude, 13)) AS same FROM bookings "
        f"WHERE S2Id(pickup.latitude, pickup.longitude, 13) = '{kept}' "
        "GROUP BY TUMBLE(rowtime, INTERVAL '1' MINUTE), S2Id(pickup.latitude, pickup.longitude, 13) "
        f"HAVING S2Id(pickup.latitude, pickup.longitude, 13) = '{kept}'"
    )
    records = [{"pickup": {"latitude": lat, "longitude": lng}, "rowtime": moment(1)} for lat, lng in points]
    feed(tmp_path, "bookings", "first", records)
    # It passes the filter, which Spark puts below the watermark: else it would not close the window.
    feed(tmp_path, "bookings", "second", [records[0] | {"rowtime": moment(600)}])
    rows = drain(stream(session, grouped, tmp_path), tmp_path)

    assert [(row.tag_cell, row.n, row.same) for row in rows] == [(kept, 2, kept)]


DISTINCT: dict[str, Callable[[int], Any]] = {
    "driver_id": lambda i: f"d{i}" if i else "",
    "discount": lambda i: i - 6_000,
    "cancel_reason_id": lambda i: i,
    "fare": lambda i: i / 7 if i % 2 else -0.0 if i % 4 else 0.0,
    "tip": lambda i: float(i),
    "surge": lambda i: i % 2 == 0,
    "booking_creation_time": lambda i: moment(i / 1000),
    "raw_payload": lambda i: b64encode(i.to_bytes(2, "big") if i else b"").decode(),
    "status": lambda i: f"S{i % 5}",
}


def test_distinctcount_is_exact_for_every_type_across_batches_and_a_restart(
    session: SparkSession, tmp_path: Path
) -> None:
    names = list(DISTINCT)
    listed = ", ".join(f"DistinctCount({name}) AS c{i}" for i, name in enumerate(names))
    sql = f"SELECT {listed}, DistinctCount(fare) FILTER (WHERE surge) AS few FROM bookings "
    plan = planned(sql + "GROUP BY TUMBLE(rowtime, INTERVAL '1' MINUTE)")

    def records(numbers: range) -> list[dict[str, Any]]:
        return [{name: make(i) for name, make in DISTINCT.items()} | {"rowtime": moment(1)} for i in numbers]

    found: list[Row] = []
    for batch, numbers in enumerate((range(8_000), range(4_000, 12_000))):
        feed(tmp_path, "bookings", f"b{batch}", [*records(numbers), {"rowtime": moment(2)}])
        # Every drain is a restart on the same checkpoint.
        found += drain(stream(session, plan, tmp_path), tmp_path)
    feed(tmp_path, "bookings", "last", [{"rowtime": moment(600)}])
    found += drain(stream(session, plan, tmp_path), tmp_path)
    values = {
        name: {repr(make(i)).replace("-0.0", "0.0") for i in range(12_000)} for name, make in DISTINCT.items()
    }

    assert [found[0][f"c{i}"] for i in range(len(names))] == [len(values[name]) for name in names]
    assert len(found) == 1
    assert found[0].few == 1


def test_distinctcount_gives_what_the_corpus_says_in_spark(session: SparkSession) -> None:
    plan = planned(
        "SELECT DistinctCount(driver_id) AS n FROM bookings GROUP BY TUMBLE(rowtime, INTERVAL '1' MINUTE)"
    )
    shape = schema(tables("bookings")[0], plan.reads[0].paths)
    wanted, rows = [], []
    groups = [case for case in cases("udf_cases") if case["udf"] == "DistinctCount" and case["args"]]
    for minute, case in enumerate(groups):
        wanted.append(case["expected"])
        time = START + timedelta(minutes=minute)
        rows += [(value, time, "t", 0, 0, time) for (value,) in case["args"]]
    session.createDataFrame(rows, shape).createOrReplaceTempView("bookings")
    found = session.sql(plan.spark_sql).collect()

    assert [row.n for row in sorted(found, key=lambda row: row["__window_start"])] == wanted


def test_beyond_its_exact_range_distinctcount_stays_within_what_it_states(session: SparkSession) -> None:
    plan = planned(
        "SELECT DistinctCount(discount) AS n FROM bookings GROUP BY TUMBLE(rowtime, INTERVAL '1' MINUTE)"
    )
    view = session.range(500_000).selectExpr(
        "id AS discount", "TIMESTAMP'2024-01-01 00:00:00Z' AS rowtime", "'t' AS __topic", "0 AS __partition",
        "0L AS __offset", "current_timestamp() AS __timestamp",
    )  # fmt: skip
    view.createOrReplaceTempView("bookings")
    estimate = session.sql(plan.spark_sql).collect()[0].n

    assert math.isclose(estimate, 500_000, rel_tol=0.03)
