"""Records as they are: which queries may have them, and when nothing of them has to be decoded."""

from __future__ import annotations

import pytest
from tests.conformance.corpus import tables

from daggersql import Plan, Table, check

SELECT = "SELECT `__value` AS `value`, `__key` AS `key`, `__headers` AS `headers` FROM bookings"


def asked(sql: str, *, records: bool = True) -> tuple[Plan | None, list[str]]:
    """The plan, and the codes of what is found."""
    [bookings] = [table for table in tables() if table.name == "bookings"]
    checked = check(sql, [Table(bookings.name, bookings.message, bookings.time_field, records)])
    return checked.plan, [finding.code for finding in checked.findings]


def plan(sql: str) -> Plan:
    found, wrong = asked(sql)
    assert found is not None, wrong
    return found


def test_a_record_is_value_key_and_headers() -> None:
    assert [column.type for column in plan(SELECT).columns] == [
        "binary", "binary", "array<struct<key:string,value:binary>>",
    ]  # fmt: skip


def test_no_other_query_has_records() -> None:
    assert asked(SELECT, records=False) == (None, ["UNKNOWN_COLUMN"] * 3)


def test_every_field_of_a_record_leaves_the_record_itself_out() -> None:
    names = {column.name for column in plan("SELECT * FROM bookings").columns}

    assert "order_number" in names
    assert not any(name.startswith("__") for name in names)


@pytest.mark.parametrize(
    ("where", "undecoded"),
    [
        ("", True),
        ("WHERE `__partition` = 1", True),
        ("WHERE CAST(`__key` AS STRING) = 'a'", True),
        ("WHERE fare > 0", False),
        ("WHERE rowtime > TIMESTAMP '2026-01-01 00:00:00'", False),
        ("WHERE customer.id = '2' AND `__partition` = 1", False),
    ],
)
def test_records_are_decoded_only_where_something_is_asked_of_their_fields(
    where: str, undecoded: bool
) -> None:
    [read] = plan(f"{SELECT} {where}").reads

    assert read.undecoded == undecoded
    assert (read.fields == ()) == (undecoded or "rowtime" in where)


def test_an_own_query_decodes_its_records_even_if_it_needs_no_field() -> None:
    found, _ = asked("SELECT `__offset` AS o FROM bookings", records=False)

    assert found is not None
    assert not found.reads[0].undecoded


def test_whatever_the_message_has_may_stand_in_a_record() -> None:
    [bookings] = [table for table in tables() if table.name == "bookings"]
    fields = {("bookings", field.name) for field in bookings.message.fields}

    assert all(fields < set(origins) for origins in plan(SELECT).origins)


def test_state_is_that_of_any_forwarding() -> None:
    found, _ = asked("SELECT fare FROM bookings", records=False)

    assert found is not None
    assert plan(SELECT).fingerprint == found.fingerprint
