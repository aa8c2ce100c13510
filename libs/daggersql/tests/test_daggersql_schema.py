"""Protobuf schemas as columns, and the seed queries as they stand."""

import pytest
from libs.daggersql.tests.daggersql_schema import TABLES, message

from daggersql import check
from daggersql.ir.types import of_message

SEED_1 = """
SELECT city_id AS tag_city_id, S2Id(lat,long,13) AS tag_s2id, vehicle_type AS tag_vehicle_type, count(1) AS num_of_bookings,
       TUMBLE_END(rowtime,INTERVAL '60' SECOND) AS window_timestamp,
FROM `data_stream` WHERE status='COMPLETED'
GROUP BY TUMBLE(rowtime, INTERVAL '60' SECOND), city_id, S2Id(lat, long, 13), vehicle_type
"""  # noqa: E501 - as it stands
SEED_2 = """
SELECT DistinctCount(driver_id) as drivers, S2Id(latitude, longitude, 13) as label_s2id, driver_status as label_driver_status,
       TUMBLE_END(rowtime, INTERVAL '60' SECOND) AS window_timestamp from `supply_data`
GROUP BY TUMBLE ( rowtime, INTERVAL '60' SECOND ), S2Id(latitude, longitude, 13), driver_status
"""  # noqa: E501 - as it stands


@pytest.mark.parametrize(
    ("seed", "keys", "functions"),
    [
        (SEED_1, ["tag_city_id", "tag_s2id", "tag_vehicle_type", "num_of_bookings"], ("s2id",)),
        (SEED_2, ["drivers", "s2id", "driver_status"], ("distinctcount", "s2id")),
    ],
)
def test_a_seed_query_runs_as_it_stands(seed: str, keys: list[str], functions: tuple[str, ...]) -> None:
    plan = check(seed, TABLES).plan

    assert plan is not None
    assert [column.key for column in plan.columns] == [*keys, "window_timestamp"]
    assert plan.functions == functions


def test_every_kind_of_field_has_its_type() -> None:
    types = {name: kind.spark for name, kind in of_message(message("Every")).fields().items()}
    # Those contain themselves: see below.
    del types["node"], types["x"]

    assert types == {
        "event_time": "timestamp",
        "a": "int",
        "b": "bigint",
        "c": "bigint",
        "d": "decimal(20,0)",
        "e": "float",
        "f": "double",
        "g": "boolean",
        "h": "string",
        "i": "binary",
        "j": "string",
        "k": "interval day to second",
        "l": "bigint",
        "m": "string",
        "n": "string",
        "o": "string",
        "p": "array<int>",
        "q": "map<string,string>",
        "r": "array<timestamp>",
        "s": "int",
        "t": "string",
        "u": "bigint",
        "v": "decimal(20,0)",
        "w": "string",
    }


def test_a_message_that_contains_itself_ends_somewhere() -> None:
    path = "node" + ".next" * 2 + ".name"
    deeper = "node" + ".next" * 3 + ".name"

    assert check(f"SELECT {path} AS x FROM every", TABLES).findings == ()
    assert [finding.code for finding in check(f"SELECT {deeper} AS x FROM every", TABLES).findings] == [
        "UNKNOWN_FIELD"
    ]


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("k.seconds", "bigint"),
        ("k.nanos", "int"),
        ("event_time.seconds", "bigint"),
        ("r[1].nanos", "int"),
        ("q['a']", "string"),
        ("x[3].name", "string"),
        ("node.children[1].name", "string"),
        ("c + a", "bigint"),
        ("d + 1", "decimal(21,0)"),
        ("l * 2", "bigint"),
        ("e * a", "float"),
        ("e + f", "double"),
        ("a / 2", "int"),
        ("b % a", "int"),
        ("t || m", "string"),
    ],
)
def test_an_expression_over_fields_has_its_type(expression: str, kind: str) -> None:
    plan = check(f"SELECT {expression} AS x FROM every", TABLES).plan

    assert plan is not None
    assert plan.columns[0].type == kind


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT l.value + 1 AS x FROM every WHERE m.value = 'a'",
        "SELECT x.value + 1 AS x FROM (SELECT l AS x, m AS y FROM every) AS t WHERE t.y.value = 'a'",
    ],
)
def test_what_a_wrapper_holds_may_be_named(sql: str) -> None:
    named, plain = check(sql, TABLES).plan, check(sql.replace(".value", ""), TABLES).plan

    assert named is not None
    assert plain is not None
    assert (named.spark_sql, named.reads) == (plain.spark_sql, plain.reads)
    assert check("SELECT h.value AS x FROM every", TABLES).plan is None
    assert check("SELECT l.value.value AS x FROM every", TABLES).plan is None


def test_a_list_is_read_as_deep_as_it_is_used_and_a_map_as_a_whole() -> None:
    plan = check(
        "SELECT node.children[1].name AS a, x[a].next.name AS b, q['k'] AS c FROM every", TABLES
    ).plan

    assert plan is not None
    assert plan.reads[0].paths[3:] == ("a", "node.children.name", "q", "x")


def test_an_unnamed_enum_number_is_no_warning_but_a_wrong_name_is() -> None:
    checked = check("SELECT a FROM every WHERE j = '17' OR j = 'COMPLETE'", TABLES)

    assert [(found.code, found.column, found.suggestion) for found in checked.findings] == [
        ("UNKNOWN_ENUM_VALUE", 43, "COMPLETED")
    ]
