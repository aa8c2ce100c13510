"""Every expression of the table has its right value, and NaN is compared alike wherever it is."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest
from tests.conformance.engine import Engine, engine
from tests.conformance.expressions.answers import answers, record, refused, same, table, view_of
from tests.conformance.expressions.cases import CASES

from daggersql import Plan, check
from daggersql.emit.rowconditions import with_conditions
from runtime.functions import bytetostring

_MINUTE = "TUMBLE(rowtime, INTERVAL '1' MINUTE)"
_COMPARED = ("d1 > 100", "d1 >= 100", "NOT (d1 <= 100)", "d1 = d1", "d1 <> d1", "d1 IN (d1, 1)")
_OF_NAN, _OF_200 = [False, False, True, False, True, False], [True, True, True, True, False, True]


@pytest.fixture(scope="module")
def spark() -> Iterator[Engine]:
    with engine() as started:
        yield started


def planned(sql: str, conditions: Sequence[str] = ()) -> Plan:
    plan = check(sql, [table()], conditions=conditions).plan
    assert plan is not None
    return plan


def rows(spark: Engine, plan: Plan, given: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What a plan gives over records of these fields, all there at once."""
    made = [record(fields, number) for number, fields in enumerate(given)]
    found: list[dict[str, Any]] = spark.answer(
        plan, {"records": view_of(plan.reads[0].paths, made)}
    ).to_pylist()
    return found


def test_the_check_takes_every_expression_of_the_table() -> None:
    assert {case.sql: said for case in CASES if (said := refused(case.sql))} == {}


def test_the_reference_of_bytetostring_reads_bytes_as_java_does() -> None:
    cases = {case.sql[15:-2]: case.right for case in CASES if case.sql.startswith("ByteToString(X'")}

    assert {digits: bytetostring.reference(bytes.fromhex(digits)) for digits in cases} == cases


@pytest.mark.parametrize(
    "sql",
    ["U&'\\00e'", "U&'\\zzzz'", "U&'\\+110000'", "U&'\\D83D'", "U&'a!' UESCAPE '!'", "U&'a' UESCAPE 'ab'"],
)
def test_a_text_whose_numbers_are_none_of_characters_is_refused(sql: str) -> None:
    assert (refused(sql) or "").startswith(("SYNTAX_ERROR", "INVALID_CHARACTER"))


@pytest.mark.integration
def test_every_expression_gives_its_right_value(spark: Engine) -> None:
    wrong = [
        (case.sql, dict(case.fields), given, case.right, case.source)
        for case, given in zip(CASES, answers(spark, CASES), strict=True)
        if not same(given, case.right)
    ]

    assert wrong == []


@pytest.mark.integration
@pytest.mark.parametrize(("value", "right"), [("NaN", _OF_NAN), (200.0, _OF_200)])
def test_where_filter_having_and_when_compare_nan_as_a_column_does(
    spark: Engine, value: float | str, right: list[bool]
) -> None:
    given, numbered = [{"d1": value}], list(enumerate(_COMPARED))
    forwarded = [f"SELECT {number} AS c FROM records WHERE {sql}" for number, sql in numbered]
    group = f"FROM records GROUP BY {_MINUTE}"
    grouped = [f"SELECT {number} AS c {group}, d1 HAVING {sql}" for number, sql in numbered]
    counts = ", ".join(f"COUNT(*) FILTER (WHERE {sql}) AS c{number}" for number, sql in numbered)
    plan = planned("SELECT d1 FROM records", _COMPARED)
    where, having = (
        {row["c"] for row in rows(spark, planned(" UNION ALL ".join(branches)), given)}
        for branches in (forwarded, grouped)
    )
    (filtered,) = rows(spark, planned(f"SELECT {counts} {group}"), given)
    (row,) = rows(spark, replace(plan, spark_sql=with_conditions(plan, plan.spark_sql)), given)

    assert [number in where for number, _ in numbered] == right
    assert [number in having for number, _ in numbered] == right
    assert [filtered[f"c{number}"] == 1 for number, _ in numbered] == right
    assert [row[f"__condition_{number}"] for number, _ in numbered] == right


@pytest.mark.integration
def test_records_with_nan_have_no_partner(spark: Engine) -> None:
    bound = "b.rowtime BETWEEN a.rowtime AND a.rowtime + INTERVAL '5' MINUTE"
    plan = planned(f"SELECT a.id, b.id AS other FROM records a JOIN records b ON a.d1 = b.d1 AND {bound}")
    found = rows(spark, plan, [{"d1": "NaN"}, {"d1": 1.0}])

    assert [(row["id"], row["other"]) for row in found] == [("1", "1")]


@pytest.mark.integration
@pytest.mark.parametrize("added_up", [False, True])
def test_max_and_min_leave_nan_out_in_whatever_order_it_comes(spark: Engine, added_up: bool) -> None:
    """Also where readers have added records up, and over two batches."""
    names = ("most", "least", "most_f", "least_f")
    values = "MAX(d1) AS most, MIN(d1) AS least, MAX(f1) AS most_f, MIN(f1) AS least_f"
    plan = planned(f"SELECT s1, {values} FROM records GROUP BY {_MINUTE}, s1")
    assert plan.partial_aggregation is not None
    orders = {str(number): order for number, order in enumerate(permutations(("NaN", 1.0, 200.0)))}
    orders |= {"no number": ("NaN", "NaN"), "zero": (0.0, -0.0), "least of all": ("-Infinity", "NaN")}
    given = [{"s1": key, "d1": value, "f1": value} for key, order in orders.items() for value in order]
    later = {"at": "2024-05-06T08:00:00Z", "s1": "later"}
    batches = [
        view_of(plan.reads[0].paths, [record(fields, number) for number, fields in enumerate(some)])
        for some in (given[::2], given[1::2], [later])
    ]
    plan = plan if added_up else replace(plan, partial_aggregation=None)
    found = {
        row["s1"]: [row[name] for name in names] for row in spark.stream(plan, {"records": batches}).rows
    }
    right = {key: ["200.0", "1.0"] * 2 for key in orders} | {
        "no number": ["nan"] * 4, "zero": ["0.0"] * 4, "least of all": ["-inf"] * 4,
    }  # fmt: skip

    assert {key: [str(value) for value in found[key]] for key in orders} == right
