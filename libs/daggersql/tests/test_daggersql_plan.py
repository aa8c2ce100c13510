"""What a plan says: Spark SQL, reads, roles, hidden columns, functions, fingerprint, warnings."""

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.conformance.corpus import message, tables

from daggersql import (
    Call,
    Constant,
    Field,
    Part,
    Partial,
    PartialAggregation,
    Plan,
    Read,
    Role,
    Severity,
    Window,
    check,
    exact,
)

BOOKINGS = (
    "SELECT service_type AS tag_service, COUNT(*) AS n, SUM(fare) AS total, "
    "TUMBLE_END(rowtime, INTERVAL '60' SECOND) AS window_timestamp FROM bookings WHERE status = 'COMPLETED' "
    "GROUP BY TUMBLE(rowtime, INTERVAL '60' SECOND), service_type"
)


def plan(sql: str) -> Plan:
    checked = check(sql, tables())
    assert checked.plan is not None, checked.findings
    return checked.plan


def test_a_windowed_query_reads_keys_and_arguments_and_hides_its_row_key() -> None:
    planned = plan(BOOKINGS)

    wanted = (("status", "COMPLETED"),)
    assert planned.reads == (Read("bookings", ("fare", "service_type", "status"), wanted),)
    assert planned.window == Window("TUMBLE", timedelta(minutes=1), timedelta(minutes=1))
    assert planned.hidden == ("__window_start", "__window_end", "__key_0")
    assert [(column.name, column.role, column.key, column.type) for column in planned.columns] == [
        ("tag_service", Role.TAG, "tag_service", "string"),
        ("n", Role.FIELD, "n", "bigint"),
        ("total", Role.FIELD, "total", "double"),
        ("window_timestamp", Role.TIME, "window_timestamp", "timestamp"),
    ]


@pytest.mark.parametrize(
    ("select", "group", "key"),
    [
        ("fare AS f, TUMBLE_END({}) AS e", "fare", ("e", "f")),
        ("fare AS f, TUMBLE_START({}) AS s, TUMBLE_END({}) AS e", "fare", ("e", "f")),
        ("fare AS f, TUMBLE_START({}) AS s", "fare, status", ()),
        ("fare AS f, COUNT(*) AS n", "fare", ()),
        ("fare + 1 AS f, TUMBLE_END({}) AS e", "fare", ()),
        ("fare + 1 AS f, TUMBLE_END({}) AS e", "fare + 1", ("e", "f")),
    ],
)
def test_the_columns_that_tell_rows_apart_are_known_where_all_of_them_are_seen(
    select: str, group: str, key: tuple[str, ...]
) -> None:
    window = "rowtime, INTERVAL '1' MINUTE"
    query = f"SELECT {select.replace('{}', window)} FROM bookings GROUP BY TUMBLE({window}), {group}"

    assert plan(query).key == key
    assert plan("SELECT order_number FROM bookings").key == ()


def test_a_label_loses_its_prefix() -> None:
    column = plan("SELECT driver_id AS label_driver, fare FROM bookings").columns[0]

    assert (column.role, column.key) == (Role.TAG, "driver")


@pytest.mark.parametrize(
    ("where", "equal"),
    [
        ("status = 'COMPLETED' AND fare > 1", (("status", "COMPLETED"),)),
        ("status = 'COMPLETED' AND service_type = 'x'", (("status", "COMPLETED"), ("service_type", "x"))),
        ("status = 'COMPLETED' OR fare > 1", ()),
        ("NOT (status = 'COMPLETED')", ()),
        ("status <> 'COMPLETED'", ()),
        ("UPPER(status) = 'COMPLETED'", ()),
        ("fare = 1", ()),
    ],
)
def test_readers_are_told_which_text_every_wanted_row_has(
    where: str, equal: tuple[tuple[str, str], ...]
) -> None:
    (read,) = plan(f"SELECT order_number FROM bookings WHERE {where}").reads

    assert read.equal == equal


@pytest.mark.parametrize(
    ("where", "conditions"),
    [
        ("discount = 2", [("discount", "=", (2,))]),
        ("discount > 2 AND 7 >= discount", [("discount", ">", (2,)), ("discount", "<=", (7,))]),
        ("discount BETWEEN -1 AND 7", [("discount", ">=", (-1,)), ("discount", "<=", (7,))]),
        ("discount <> 2", [("discount", "<>", (2,))]),
        ("discount IN (1, 2, 3)", [("discount", "IN", (1, 2, 3))]),
        ("status IN ('COMPLETED', 'CANCELLED')", [("status", "IN", ("COMPLETED", "CANCELLED"))]),
        ("status <> 'COMPLETED'", [("status", "<>", ("COMPLETED",))]),
        ("__partition = 1", [("__partition", "=", (1,))]),
        ("status = 'COMPLETED' AND (discount = 1 OR fare > 2)", []),
        ("discount NOT IN (1, 2)", []),
        ("discount IN (1, NULL)", []),
        ("discount = 2.5", []),
        ("discount = fare", []),
        ("fare = 2", []),
        ("discount + 1 = 2", []),
        ("customer.id <> '2'", []),
        ("rowtime > TIMESTAMP '2026-01-01 00:00:00'", []),
    ],
)
def test_readers_are_told_what_else_columns_of_texts_and_whole_numbers_must_be(
    where: str, conditions: list[tuple[str, str, tuple[str | int, ...]]]
) -> None:
    planned = plan(f"SELECT order_number FROM bookings WHERE {where}")
    (read,) = planned.reads

    assert [(condition.column, condition.op, condition.values) for condition in read.conditions] == conditions
    assert "WHERE" in planned.spark_sql


def test_readers_of_a_union_leave_nothing_out() -> None:
    branch = "SELECT order_number FROM bookings WHERE status = '{}'"
    reads = plan(f"{branch.format('COMPLETED')} UNION ALL {branch.format('CANCELLED')}").reads

    assert [read.equal for read in reads] == [()]


def test_a_forwarding_query_is_identified_by_where_its_record_stood() -> None:
    planned = plan("SELECT order_number FROM bookings")

    assert planned.window is None
    assert planned.hidden == ("__rowtime", "__key_0", "__key_1", "__key_2")
    assert planned.reads == (Read("bookings", ("__offset", "__partition", "__topic", "order_number")),)


def test_hop_takes_the_slide_first() -> None:
    planned = plan(
        "SELECT COUNT(*) AS n FROM bookings GROUP BY HOP(rowtime, INTERVAL '1' MINUTE, INTERVAL '5' MINUTE)"
    )

    assert planned.window == Window("HOP", size=timedelta(minutes=5), slide=timedelta(minutes=1))


def test_a_path_is_read_once_and_only_as_deep_as_it_is_used() -> None:
    planned = plan(
        "SELECT customer, customer.id AS c, items[1].name AS i, event_timestamp.seconds AS s FROM bookings"
    )

    assert planned.reads[0].paths[3:] == ("customer", "event_timestamp:seconds", "items.name")


def test_own_functions_are_named_in_lower_case() -> None:
    planned = plan(
        "SELECT DISTINCTCOUNT(driver_id) AS d, s2id(pickup.latitude, pickup.longitude, 13) AS tag_s "
        "FROM bookings "
        "GROUP BY TUMBLE(rowtime, INTERVAL '1' MINUTE), S2Id(pickup.latitude, pickup.longitude, 13)"
    )

    assert planned.functions == ("distinctcount", "s2id")


@pytest.mark.parametrize(
    "edited",
    [
        BOOKINGS.replace("AS total", "AS sum_of_fares"),
        BOOKINGS.replace("tag_service", "label_service"),
        BOOKINGS.replace("COUNT(*) AS n, SUM(fare) AS total", "SUM(fare) / COUNT(*) AS average"),
        BOOKINGS.replace("COUNT(*) AS n, SUM(fare) AS total", "SUM(fare) AS total, COUNT(*) AS n"),
        BOOKINGS + " HAVING COUNT(*) > 3",
        BOOKINGS.replace("FROM bookings", "FROM bookings AS b").replace("(fare)", "(b.fare)"),
        BOOKINGS.replace("'60' SECOND", "'1' MINUTE").replace("SELECT", "select\n"),
    ],
)
def test_an_edit_outside_of_the_state_keeps_the_fingerprint(edited: str) -> None:
    assert plan(edited).fingerprint == plan(BOOKINGS).fingerprint


@pytest.mark.parametrize(
    "edited",
    [
        BOOKINGS.replace("SUM(fare)", "MAX(fare)"),
        BOOKINGS.replace("SUM(fare)", "SUM(tip)"),
        BOOKINGS.replace("SUM(fare) AS total, ", ""),
        BOOKINGS.replace("'COMPLETED'", "'CANCELLED'"),
        BOOKINGS.replace("'60'", "'30'"),
        BOOKINGS.replace("service_type", "vehicle_type"),
        BOOKINGS + ", vehicle_type",
        "SELECT order_number FROM bookings",
    ],
)
def test_an_edit_of_the_state_changes_the_fingerprint(edited: str) -> None:
    assert plan(edited).fingerprint != plan(BOOKINGS).fingerprint


NAMES = ", ".join([*(field.name for field in message("corpus.v1.BookingLog").fields), "rowtime"])


@pytest.mark.parametrize(
    "source",
    [
        "(SELECT * FROM bookings WHERE status = 'COMPLETED') AS t",
        "(SELECT rowtime, fare, service_type FROM bookings WHERE status = 'COMPLETED') AS t",
        f"(SELECT * FROM bookings WHERE status = 'COMPLETED') AS t ({NAMES})",
    ],
)
def test_a_sub_query_that_picks_and_filters_is_the_same_query(source: str) -> None:
    nested = BOOKINGS.replace("FROM bookings WHERE status = 'COMPLETED'", f"FROM {source}")

    assert plan(nested).fingerprint == plan(BOOKINGS).fingerprint
    assert plan(nested).reads == plan(BOOKINGS).reads


def test_with_names_a_query_and_columns_stand_for_expressions() -> None:
    nested = plan(
        "WITH a AS (SELECT customer AS c, fare * 2 AS d, rowtime AS rt FROM bookings WHERE surge), "
        "b AS (SELECT c.id AS id, d + 1 AS e, rt FROM a WHERE d > 3) "
        "SELECT id AS tag_id, MAX(e) AS e, TUMBLE_END(rt, INTERVAL '1' DAY) AS window_timestamp "
        "FROM b x GROUP BY TUMBLE(rt, INTERVAL '1' DAY), x.id"
    )
    flat = plan(
        "SELECT customer.id AS tag_id, MAX(fare * 2 + 1) AS e FROM bookings WHERE surge AND fare * 2 > 3 "
        "GROUP BY TUMBLE(rowtime, INTERVAL '1' DAY), customer.id"
    )

    assert nested.fingerprint == flat.fingerprint


def test_a_forwarding_query_has_no_state_that_an_edit_could_break() -> None:
    first, second = "SELECT order_number FROM bookings", "SELECT fare * 2 AS f FROM bookings WHERE surge"

    assert plan(first).fingerprint == plan(second).fingerprint


def test_text_reaches_spark_only_as_a_quoted_constant() -> None:
    sql = plan("SELECT 'it''s \\ ${env:HOME} `x` {0}' AS t FROM bookings").spark_sql

    assert "'it\\'s \\\\ \\u0024{env:HOME} `x` {0}' AS `t`" in sql


def test_names_reach_spark_only_quoted() -> None:
    sql = plan("SELECT `order_number` AS `select` FROM bookings AS `a``b` WHERE `a``b`.fare < 1").spark_sql

    assert sql.startswith("SELECT `s0`.`order_number` AS `select`, ")
    assert sql.endswith(" FROM `bookings` AS `s0` WHERE (`s0`.`fare` < 1)")


def test_select_star_gives_the_schema_in_order_and_rowtime_but_no_metadata() -> None:
    columns = [column.name for column in plan("SELECT * FROM api_logs").columns]
    fields = [field.name for field in message("corpus.v1.ApiLog").fields]

    assert columns == [*fields, "rowtime"]


def test_metadata_is_there_when_asked_for() -> None:
    planned = plan("SELECT __topic AS topic, __partition AS p, __offset AS o, __timestamp AS t FROM api_logs")

    assert [column.type for column in planned.columns] == ["string", "int", "bigint", "timestamp"]


def test_a_group_key_that_no_store_tells_apart_is_warned_of() -> None:
    warnings = plan(
        "SELECT service_type AS service, COUNT(*) AS n FROM bookings "
        "GROUP BY TUMBLE(rowtime, INTERVAL '1' MINUTE), service_type"
    ).warnings

    assert [(warning.code, warning.column, warning.severity) for warning in warnings] == [
        ("NO_TIME_COLUMN", 70, Severity.WARNING),
        ("GROUP_KEY_NOT_A_TAG", 108, Severity.WARNING),
    ]


def test_distinctcount_says_how_exact_it_is() -> None:
    warnings = plan(BOOKINGS.replace("COUNT(*)", "DistinctCount(driver_id)")).warnings

    assert [warning.code for warning in warnings] == ["APPROXIMATE"]
    assert "32,768" in warnings[0].message


def test_whole_numbers_divide_to_whole_numbers_and_averages_stay_whole() -> None:
    planned = plan(
        "SELECT AVG(discount) AS a, AVG(fare) AS b, SUM(cancel_reason_id) AS c, "
        "SUM(discount) / COUNT(*) AS d, "
        "MAX(tip) AS e FROM bookings GROUP BY TUMBLE(rowtime, INTERVAL '1' MINUTE)"
    )

    assert [column.type for column in planned.columns] == ["bigint", "double", "bigint", "bigint", "float"]


def partial_aggregation(query: str) -> PartialAggregation | None:
    return plan(query).partial_aggregation


GROUPED = "SELECT {} AS x FROM bookings {} GROUP BY TUMBLE(rowtime, INTERVAL '60' SECOND), {}"


def test_records_are_added_up_by_whoever_reads_where_that_gives_the_same() -> None:
    found = partial_aggregation(
        "SELECT S2Id(pickup.latitude, pickup.longitude, 13) AS cell,"
        " COUNT(*) AS n, SUM(fare) AS total FROM bookings WHERE status = 'COMPLETED' GROUP BY"
        " HOP(rowtime, INTERVAL '20' SECOND, INTERVAL '50' SECOND),"
        " S2Id(pickup.latitude, pickup.longitude, 13)"
    )

    span = (Field("pickup.latitude"), Field("pickup.longitude"))
    assert found is not None
    assert found.keys == (Call("s2id", (*span, Constant(13)), ("double", "double", "int"), "string"),)
    assert found.partials == tuple(Partial("sum", Part(Field("fare"), at), "double") for at in exact.PARTS)
    assert (found.pane, found.computed, found.functions) == (timedelta(seconds=10), ("s2id",), ())


@pytest.mark.parametrize(
    ("aggregate", "keys", "partials"),
    [
        ("COUNT(order_number)", ["service_type"], [("count", "order_number")]),
        ("AVG(fare)", ["service_type"], [("sum", "fare"), ("count", "fare")]),
        ("SUM(fare)", ["service_type"], [("sum", "fare")]),
        ("AVG(discount)", ["service_type"], [("sum", "discount"), ("count", "discount")]),
        ("SUM(discount)", ["service_type"], [("sum", "discount")]),
        ("MIN(discount)", ["service_type"], [("min", "discount")]),
        ("MAX(fare)", ["service_type", "fare"], []),
        ("SUM(CASE WHEN status = 'COMPLETED' THEN 1 ELSE 0 END)", ["service_type", "status"], []),
        ("COUNT(*) FILTER (WHERE status = 'COMPLETED')", ["service_type", "status"], []),
    ],
)
def test_what_is_only_added_up_is_no_key(
    aggregate: str, keys: list[str], partials: list[tuple[str, str]]
) -> None:
    found = partial_aggregation(GROUPED.format(aggregate, "", "service_type"))

    assert found is not None
    assert found.keys == tuple(map(Field, keys))
    # Of a float there is a sum for each of its parts, one after the other.
    added = [(partial.function, getattr(partial.value, "of", partial.value)) for partial in found.partials]
    assert list(dict.fromkeys(added)) == [(function, Field(path)) for function, path in partials]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT fare FROM bookings",
        GROUPED.format("STDDEV(fare)", "", "service_type"),
        GROUPED.format("SUM(fare * 2)", "", "service_type"),
        GROUPED.format("COUNT(DISTINCT order_number)", "", "service_type"),
        GROUPED.format("COUNT(rowtime)", "", "service_type"),
        GROUPED.format("COUNT(__offset)", "", "service_type"),
        # Of rows that WHERE drops a function must not count what it could not use.
        GROUPED.format("COUNT(*)", "WHERE fare > 1", "S2Id(fare, fare, 13)"),
        # A function that whoever reads does not know would count once for many records.
        GROUPED.format("COUNT(*)", "", "Split(service_type, ',')[1]"),
        GROUPED.format("COUNT(*)", "", "service_type").replace("TUMBLE", "SESSION"),
    ],
)
def test_a_query_that_needs_every_record_gets_every_record(query: str) -> None:
    assert partial_aggregation(query) is None


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ("fare::DECIMAL(12, 2)", "CAST(fare AS DECIMAL(12, 2))"),
        ("-tip::BIGINT", "-CAST(tip AS BIGINT)"),
        ("items[1].price::INT::STRING", "CAST(CAST(items[1].price AS INT) AS STRING)"),
        ("DATE_TRUNC('Hour', rowtime)", "FLOOR(rowtime TO HOUR)"),
        ("driver_id ILIKE '%A_b'", "LOWER(driver_id) LIKE LOWER('%A_b')"),
        ("driver_id NOT ILIKE 'a'", "NOT LOWER(driver_id) LIKE LOWER('a')"),
    ],
)
def test_what_other_engines_write_is_the_same_plan(written: str, plain: str) -> None:
    one, other = (check(f"SELECT {each} AS x FROM bookings", tables()).plan for each in (written, plain))

    assert one is not None
    assert one == other


WINDOW = "TUMBLE(rowtime, INTERVAL '1' MINUTE)"


@pytest.mark.parametrize(
    ("by", "same"),
    [("k", "UPPER(driver_id)"), ("`k`", "UPPER(driver_id)"), ("fare", "fare"), ("w", "fare > 1")],
)
def test_a_key_is_the_column_of_its_name_else_what_select_calls_so(by: str, same: str) -> None:
    selected = (
        f"SELECT UPPER(driver_id) AS k, fare > 1 AS w, MAX(tip) AS fare FROM bookings GROUP BY {WINDOW}"
    )
    one, other = (check(f"{selected}, {each}, driver_id, fare", tables()).plan for each in (by, same))

    assert one is not None
    assert other is not None
    texts = {"warnings": (), "influences": ()}  # where they stand in the text
    assert replace(one, **texts) == replace(other, **texts)


def test_parts_of_a_time_are_read_as_they_were_sent_and_the_state_does_not_know() -> None:
    parts = plan("SELECT event_timestamp.seconds AS s, event_timestamp.nanos AS n FROM bookings")
    windowed = plan(
        "SELECT MAX(event_timestamp.seconds) AS s, TUMBLE_END(rowtime, INTERVAL '1' MINUTE) AS end_time"
        " FROM bookings GROUP BY TUMBLE(rowtime, INTERVAL '1' MINUTE)"
    )

    assert "`s0`.`event_timestamp:seconds` AS `s`, `s0`.`event_timestamp:nanos` AS `n`" in parts.spark_sql
    assert parts.reads[0].fields == ("event_timestamp:nanos", "event_timestamp:seconds")
    assert "`s0`.`event_timestamp:seconds`" in windowed.spark_sql


@pytest.mark.parametrize(
    "side",
    [
        "(SELECT order_id AS id, rowtime FROM payments UNION ALL SELECT customer_id, rowtime FROM payments)",
        "(SELECT UPPER(order_id) AS id, rowtime FROM payments)",
    ],
    ids=["a union", "a sub-query"],
)
def test_a_side_of_a_join_has_one_column_that_spark_takes_for_event_time(side: str) -> None:
    """It refuses rows with two, once the query runs."""
    plan = check(
        f"SELECT b.fare FROM bookings AS b JOIN {side} AS t ON b.order_number = t.id"
        " AND t.rowtime BETWEEN b.rowtime AND b.rowtime + INTERVAL '1' MINUTE",
        tables(),
    ).plan
    assert plan is not None
    assert plan.staged is not None

    for text in (plan.spark_sql, *(stage.spark_sql for stage in plan.staged.stages)):
        assert "`rowtime` AS `__time`" not in text
