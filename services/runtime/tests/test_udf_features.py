"""Feature rows: the plain form and Spark's, value by value and type by type."""

import math
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import Row, SparkSession
from services.runtime.tests.sessions import START, answer, invalid_input, spark_session
from tests.conformance.corpus import cases, tables
from tests.conformance.values import agrees, plain, refusal, tag

from daggersql import check
from runtime import functions
from runtime.functions import features, featureswithtype, singlefeaturewithtype
from runtime.values import featurerows

NAMES = ("Features", "FeaturesWithType", "SingleFeatureWithType")
CASES = {case["id"]: case for case in cases("udf_cases") if case["udf"] in NAMES}
ANSWERED = sorted(
    name
    for name, case in CASES.items()
    # Nothing is ever retracted here: a window's row is given once.
    if not refusal(case["expected"]) and case.get("optional") != "retract"
)
PER_MINUTE = "FROM bookings GROUP BY TUMBLE(rowtime, INTERVAL '1' MINUTE)"


def typed_value(raw: Any) -> Any:
    """A corpus value with the width that its tag tells."""
    width = {"$float32": np.float32, "$long": np.int64}.get(tag(raw) or "")
    return plain(raw) if width is None else width(plain(raw))


@pytest.mark.parametrize("name", ANSWERED)
def test_the_plain_form_gives_what_the_corpus_says(name: str) -> None:
    case = CASES[name]
    reference = functions.load(case["udf"].lower()).reference
    if case["kind"] == "aggregate":
        found = reference([tuple(map(typed_value, row)) for row in case["args"]])
    else:
        found = reference(*map(typed_value, case["args"]))

    assert agrees(case["expected"], found, case.get("compare", "exact")), found


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    with spark_session("features", "featureswithtype", "singlefeaturewithtype") as started:
        yield started


def as_plain(rows: list[Row]) -> list[Any]:
    """Feature rows as the plain form has them: times aware, bytes as bytes."""
    return [_value(row.asDict(recursive=True)) for row in rows]


def _value(value: Any) -> Any:
    match value:
        case dict():
            return {name: _value(each) for name, each in value.items()}
        case datetime():
            return value.replace(tzinfo=UTC)
        case bytearray():
            return bytes(value)
        case float() if math.isnan(value):
            return "NaN"
    return value


TEXTS = [
    "2", "-7", "+3", " 2", "2\n", "2.0", "2.5", "1e3", ".5", "5.", "9999999999", "99999999999999999999",
    "1e400", "1e39", "-1e39", "1e-46", "3.4028235677973366e38", "3.4028235677973365e38",
    "1.00000005960464477539062500000001", "1.000000059604644775390625", "0x1.8p1", "\t2.5F ", "2dd", "nan",
    "-nan", "NaN", "+NaN", "Infinity", "-Infinity", "INFINITY", "infinity", "inf", "+inf", "0x10", "2d",
    "true", "TRUE", "False", "yes", "", " ", "é", "١", None,
]  # fmt: skip
NUMBERS: list[Any] = [
    0.0,
    2.0,
    -2.5,
    1e10,
    3e38,
    1e300,
    math.nan,
    math.inf,
    -math.inf,
    2.0**31,
    2.0**63,
    0.1,
    None,
]
WHOLE: list[Any] = [0, 1, -1, 2**31 - 1, 2**31, -(2**31), 2**53 + 1, 2**63 - 1, -(2**63), None]
COLUMNS: dict[str, list[Any]] = {
    "driver_id": TEXTS,
    "fare": NUMBERS,
    "discount": WHOLE,
    "tip": [0.0, 0.1, -2.5, 1e10, 3.4028234663852886e38, 1e-45, math.nan, math.inf, None],
    "surge": [True, False, None],
    "raw_payload": [b"", b"abc", b"\xff", None],
    "event_timestamp": [START, None],
}
HOLDS = {
    "StringType": ["driver_id", "fare", "discount", "tip", "surge", "raw_payload", "event_timestamp"],
    "ByteType": ["driver_id", "raw_payload"],
    "IntegerType": ["driver_id", "fare", "discount", "tip"],
    "LongType": ["driver_id", "fare", "discount", "tip"],
    "DoubleType": ["driver_id", "fare", "discount", "tip"],
    "FloatType": ["driver_id", "fare", "discount", "tip"],
    "BooleanType": ["driver_id", "surge"],
    "TimestampType": ["event_timestamp"],
}
PAIRS = [(kind, column) for kind, columns in HOLDS.items() for column in columns]


@pytest.mark.parametrize(("kind", "column"), PAIRS)
def test_both_forms_convert_alike(kind: str, column: str, session: SparkSession) -> None:
    values = COLUMNS[column]
    before = invalid_input(session, "singlefeaturewithtype")
    sql = f"SELECT SingleFeatureWithType('k', {column}, '{kind}') AS f FROM bookings"
    found = [
        as_plain(row.f) for row in answer(session, sql, [{column: value} for value in values], "bookings")
    ]
    # A record has no FLOAT of its own: Spark makes it of a float, as the plain form is told.
    plainly = [np.float32(value) if column == "tip" and value is not None else value for value in values]
    expected = [_values(singlefeaturewithtype.reference("k", value, kind)) for value in plainly]
    bad = sum(
        value is not None and all(slot is None for slot in row["value"].values())
        for value, (row,) in zip(values, expected, strict=True)
    )

    assert found == expected
    assert invalid_input(session, "singlefeaturewithtype") - before == bad


def _values(rows: list[featurerows.Feature]) -> list[Any]:
    return [_value(row) for row in rows]


def test_the_slot_of_an_untyped_feature_follows_from_its_type(session: SparkSession) -> None:
    listed = {
        "tip": np.float32(1.5), "driver_id": "x", "fare": 1.5, "cancel_reason_id": 7, "discount": np.int64(7),
        "raw_payload": b"v", "surge": True, "event_timestamp": START,
    }  # fmt: skip
    pairs = ", ".join(f"'{column}', {column}" for column in listed)
    sql = (
        f"SELECT Features({pairs}, 'decimal', CAST(1.25 AS DECIMAL(5, 2)), 'null', NULL, 3, 'number',"
        f" TRUE, 'truth') AS f {PER_MINUTE}"
    )
    record = {name: float(value) if name == "tip" else value for name, value in listed.items()}
    record["discount"] = 7
    found = as_plain(answer(session, sql, [record], "bookings")[0].f)
    expected = features.reference(
        [
            (
                *(part for pair in listed.items() for part in pair),
                "decimal",
                1.25,
                "null",
                None,
                3,
                "number",
                True,
                "truth",
            )
        ]
    )

    assert found == _values(expected)


def test_rows_of_a_group_are_given_once_typed_and_as_often_as_they_come_untyped(
    session: SparkSession,
) -> None:
    rows = [
        ("Aa", 1.0),
        ("BB", 1.0),
        ("Aa", 1.0),
        (None, None),
        (None, None),
        ("x", math.nan),
        ("x", math.nan),
    ]
    records = [{"driver_id": text, "fare": number} for text, number in rows]
    sql = (
        "SELECT FeaturesWithType('k', driver_id, 'StringType', 'v', fare, 'DoubleType') AS t,"
        f" Features(driver_id, fare) AS f {PER_MINUTE}"
    )
    row = answer(session, sql, records, "bookings")[0]
    once = featureswithtype.reference([("k", text, "StringType", "v", x, "DoubleType") for text, x in rows])

    assert sorted(map(str, as_plain(row.t))) == sorted(map(str, _values(once)))
    assert as_plain(row.f) == _values(features.reference(rows))


TRIPLETS = [
    ("'k', driver_id, 'LongType'", lambda row: ("k", row["driver_id"], "LongType")),
    ("'k', cancel_reason_id, 'LongType'", lambda row: ("k", row["cancel_reason_id"], "LongType")),
    ("'k', fare, 'LongType'", lambda row: ("k", row["fare"], "LongType")),
    ("'k', fare, 'DoubleType'", lambda row: ("k", row["fare"], "DoubleType")),
    ("'k', fare, 'StringType'", lambda row: ("k", row["fare"], "StringType")),
    ("'k', raw_payload, 'StringType'", lambda row: ("k", row["raw_payload"], "StringType")),
    ("'k', surge, 'BooleanType'", lambda row: ("k", row["surge"], "BooleanType")),
    ("'k', NULL, 'LongType'", lambda row: ("k", None, "LongType")),
]


def test_triplets_are_equal_by_what_was_given_not_by_what_was_made_of_it(session: SparkSession) -> None:
    values = {
        "driver_id": ["2", "+2", "x", "y", None, "2"], "cancel_reason_id": [2, 0, None, 2, None, 2],
        "fare": [2.0, 2.5, math.nan, None, 0.0, 2.0], "surge": [True, False, None, False, None, True],
        "raw_payload": [b"a", b"\xff", b"\xfe", None, b"", b"a"],
    }  # fmt: skip
    records = [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]
    listed = ", ".join(sql for sql, _ in TRIPLETS)
    grouped = answer(session, f"SELECT FeaturesWithType({listed}) AS v {PER_MINUTE}", records, "bookings")[
        0
    ].v
    alone = answer(session, f"SELECT SingleFeatureWithType({listed}) AS v FROM bookings", records, "bookings")
    rows = [tuple(part for _, take in TRIPLETS for part in take(record)) for record in records]

    assert sorted(map(str, as_plain(grouped))) == sorted(map(str, _values(featureswithtype.reference(rows))))
    assert [as_plain(row.v) for row in alone] == [
        _values(singlefeaturewithtype.reference(*row)) for row in rows
    ]
    assert len(singlefeaturewithtype.reference("k", "2", "LongType", "k", 2, "LongType")) == 2
    assert len(singlefeaturewithtype.reference("k", None, "LongType", "k", 0, "LongType")) == 2
    assert len(singlefeaturewithtype.reference(1, 2, "LongType", "1", 2, "LongType")) == 1


def test_without_arguments_there_are_no_features(session: SparkSession) -> None:
    sql = f"SELECT Features() AS f, FeaturesWithType() AS t, COUNT(*) AS n {PER_MINUTE}"
    grouped = answer(session, sql, [{"fare": 1.0}, {"fare": 2.0}], "bookings")[0]
    alone = answer(session, "SELECT SingleFeatureWithType() AS v FROM bookings", [{"fare": 1.0}], "bookings")[
        0
    ]

    assert (grouped.f, grouped.t, grouped.n, alone.v) == ([], [], 2, [])
    assert (
        features.reference([()])
        == featureswithtype.reference([()])
        == singlefeaturewithtype.reference()
        == []
    )


def test_a_group_without_rows_has_an_empty_list(session: SparkSession) -> None:
    sql = (
        "SELECT Features('k', fare) FILTER (WHERE FALSE) AS f,"
        f" FeaturesWithType('k', fare, 'DoubleType') FILTER (WHERE FALSE) AS t {PER_MINUTE}"
    )
    row = answer(session, sql, [{"fare": 1.0}], "bookings")[0]

    assert (row.f, row.t) == ([], [])


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("Features('a')", "WRONG_ARGUMENT_COUNT"),
        ("Features('a', fare, 'b')", "WRONG_ARGUMENT_COUNT"),
        ("Features('a', items)", "UNSUPPORTED_TYPE"),
        ("Features(customer, fare)", "UNSUPPORTED_TYPE"),
        ("FeaturesWithType('a', fare)", "WRONG_ARGUMENT_COUNT"),
        ("FeaturesWithType('a', fare, 'DoubleType', 'b')", "WRONG_ARGUMENT_COUNT"),
        ("FeaturesWithType('a', fare, 'doubletype')", "UNSUPPORTED_TYPE"),
        ("FeaturesWithType('a', fare, NULL)", "UNSUPPORTED_TYPE"),
        ("FeaturesWithType('a', fare, driver_id)", "UNSUPPORTED_TYPE"),
        ("FeaturesWithType('a', fare, 'TimestampType')", "UNSUPPORTED_TYPE"),
        ("FeaturesWithType('a', surge, 'LongType')", "UNSUPPORTED_TYPE"),
        ("SingleFeatureWithType('a', promo_codes, 'StringType')", "UNSUPPORTED_TYPE"),
    ],
)
def test_what_makes_no_feature_is_refused(call: str, code: str) -> None:
    checked = check(f"SELECT {call} AS f {PER_MINUTE}", tables("bookings"))

    assert code in {finding.code for finding in checked.findings}


@given(st.floats())
def test_floats_are_written_as_java_writes_them(number: float) -> None:
    text = featurerows.java_text(number)

    assert math.isnan(number) or float(text.replace("Infinity", "inf")) == number
    assert "e" not in text


def test_a_part_of_a_feature_can_be_taken(session: SparkSession) -> None:
    sql = f"SELECT Features('k', fare)[1].value.double AS v {PER_MINUTE}"

    assert answer(session, sql, [{"fare": 1.5}], "bookings")[0].v == 1.5
