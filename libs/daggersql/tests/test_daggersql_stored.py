"""Warnings about rows that a time-series store could not keep apart, and tags with too many values."""

import pytest
from tests.conformance.corpus import tables

from daggersql import Finding, check

GROUPED = (
    "SELECT {columns}, COUNT(*) AS n, TUMBLE_END(rowtime, INTERVAL '1' MINUTE) AS window_timestamp"
    " FROM bookings GROUP BY TUMBLE(rowtime, INTERVAL '1' MINUTE), {key}"
)
BRANCH = (
    "SELECT {tag} AS tag_of, COUNT(*) AS n, TUMBLE_END(rowtime, INTERVAL '1' MINUTE) AS window_timestamp"
    " FROM {stream} GROUP BY TUMBLE(rowtime, INTERVAL '1' MINUTE){key}"
)


def warned(sql: str) -> list[str]:
    checked = check(sql, tables())
    assert checked.plan is not None, checked.findings
    return [found.code for found in checked.findings]


@pytest.mark.parametrize(
    ("key", "codes"),
    [
        ("order_number", ["HIGH_CARDINALITY_TAG"]),
        ("customer.id", []),
        ("service_area_id", []),
        ("fare", ["HIGH_CARDINALITY_TAG"]),
        ("event_timestamp", ["HIGH_CARDINALITY_TAG"]),
        ("S2Id(pickup.latitude, pickup.longitude, 13)", []),
        ("S2Id(pickup.latitude, pickup.longitude, 20)", ["HIGH_CARDINALITY_TAG"]),
        ("GeoHash(pickup.latitude, pickup.longitude, 9)", ["HIGH_CARDINALITY_TAG"]),
    ],
)
def test_a_tag_with_a_value_for_each_record_is_warned_of(key: str, codes: list[str]) -> None:
    assert warned(GROUPED.format(columns=f"{key} AS tag_key", key=key)) == codes


def test_a_key_with_a_value_for_each_record_has_one_verdict_whatever_it_is_selected_as() -> None:
    forms = ("order_number", "order_number AS tag_order", "service_type AS tag_service")

    assert [warned(GROUPED.format(columns=form, key="order_number, service_type")) for form in forms] == [
        ["HIGH_CARDINALITY_TAG", "GROUP_KEY_NOT_A_TAG"],
        ["HIGH_CARDINALITY_TAG", "GROUP_KEY_NOT_A_TAG"],
        ["HIGH_CARDINALITY_TAG"],
    ]


def test_rows_that_go_to_no_time_series_store_are_not_warned_of() -> None:
    sql = GROUPED.format(columns="order_number, fare AS tag_fare", key="order_number, fare")

    assert check(sql, tables(), points=False).findings == ()


@pytest.mark.parametrize(
    ("time", "codes"),
    [
        ("TUMBLE_START(rowtime, INTERVAL '1' MINUTE)", []),
        ("TIMESTAMPADD(HOUR, 7, TUMBLE_END(rowtime, INTERVAL '1' MINUTE))", []),
        ("FLOOR(TUMBLE_END(rowtime, INTERVAL '1' MINUTE) TO DAY)", ["TWO_ROWS_PER_KEY"]),
        ("CURRENT_TIMESTAMP", ["TWO_ROWS_PER_KEY"]),
        ("MAX(event_timestamp)", ["TWO_ROWS_PER_KEY"]),
    ],
)
def test_a_time_that_windows_may_share_is_warned_of(time: str, codes: list[str]) -> None:
    sql = f"SELECT {time} AS window_timestamp, COUNT(*) AS n FROM bookings"

    assert warned(f"{sql} GROUP BY TUMBLE(rowtime, INTERVAL '1' MINUTE)") == codes


@pytest.mark.parametrize(
    ("first", "second", "codes"),
    [
        ({"tag": "'booked'", "key": ""}, {"tag": "'paid'", "key": ""}, []),
        ({"tag": "'same'", "key": ""}, {"tag": "'same'", "key": ""}, ["TWO_ROWS_PER_KEY"]),
        (
            {"tag": "order_number", "key": ", order_number"},
            {"tag": "order_id", "key": ", order_id"},
            ["TWO_ROWS_PER_KEY"],
        ),
    ],
)
def test_branches_without_a_tag_of_their_own_are_warned_of(
    first: dict[str, str], second: dict[str, str], codes: list[str]
) -> None:
    both = [BRANCH.format(stream="bookings", **first), BRANCH.format(stream="payments", **second)]

    assert warned(" UNION ALL ".join(both)) == codes


PLACE = "__topic AS tag_topic, __partition AS tag_partition, MOD(__offset / 1000, 10) AS tag_thousand"


@pytest.mark.parametrize(
    ("sql", "codes"),
    [
        ("SELECT fare FROM bookings", ["RECORDS_SHARE_POINTS"]),
        ("SELECT fare, __partition AS tag_partition FROM bookings", ["RECORDS_SHARE_POINTS"]),
        (f"SELECT fare, {PLACE.replace('tag_', '')} FROM bookings", ["RECORDS_SHARE_POINTS"]),
        (f"SELECT fare, {PLACE} FROM bookings", []),
        (f"SELECT item.price, {PLACE} FROM bookings, UNNEST(items) AS item (id, quantity, name, price)", []),
        (f"SELECT fare, {PLACE} FROM bookings UNION ALL SELECT fee, {PLACE} FROM payments", []),
        (f"SELECT fare, {PLACE} FROM bookings UNION ALL SELECT fee, {PLACE.replace('__partition', '1')}"
         " FROM payments", ["RECORDS_SHARE_POINTS"]),
        (GROUPED.format(columns="service_area_id AS tag_area", key="service_area_id"), []),
    ],
)  # fmt: skip
def test_forwarded_records_that_a_store_may_not_tell_apart_are_warned_of(sql: str, codes: list[str]) -> None:
    checked = check(sql, tables(), points=True)

    assert [found.code for found in checked.findings] == codes
    assert warned(sql) == []


def test_what_that_warning_suggests_ends_it() -> None:
    [finding] = check("SELECT fare FROM bookings", tables(), points=True).findings

    assert check(f"SELECT fare, {finding.suggestion} FROM bookings", tables(), points=True).findings == ()


EXACT = "(SELECT CAST(fare AS DECIMAL(38, 2)) AS exact, rowtime FROM bookings) t"


@pytest.mark.parametrize(
    ("column", "source", "warns"),
    [
        ("CAST(fare AS DECIMAL(15, 2)) AS n", "bookings", 0),
        ("CAST(fare AS DECIMAL(16, 2)) AS n", "bookings", 1),
        ("fare::DECIMAL(38, 10) AS n", "bookings", 1),
        ("CAST(fare AS DECIMAL(38, 10)) AS tag_n", "bookings", 0),  # a tag is text
        ("CAST(CAST(fare AS DECIMAL(38, 10)) AS STRING) AS n", "bookings", 0),
        ("exact", EXACT, 1),
        ("exact AS n, exact * 2 AS twice", EXACT, 2),
    ],
)
def test_a_number_that_a_store_would_cut_off_is_warned_of_until_the_edit_is_made(
    column: str, source: str, warns: int
) -> None:
    sql = f"SELECT 1 AS one, {column} FROM {source}"

    def found(text: str, *, points: bool) -> list[Finding]:
        checked = check(text, tables(), points=points)
        assert checked.plan is not None, checked.findings
        return [found for found in checked.findings if found.code == "DECIMAL_AS_DOUBLE"]

    assert len(found(sql, points=True)) == warns
    assert found(sql, points=False) == []
    for left in range(warns, 0, -1):
        edit = found(sql, points=True)[0].edit
        assert edit is not None
        sql = edit.apply(sql)

        assert len(found(sql, points=True)) == left - 1
