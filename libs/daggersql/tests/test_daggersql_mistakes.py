"""Typical mistakes, each with the one sentence that it gets and the query that its change makes."""

from __future__ import annotations

from pathlib import Path

import pytest
from google.protobuf.descriptor_pool import DescriptorPool
from tests.conformance.corpus import compiled

from daggerspec.violation import Edit
from daggersql import Severity, Table, check

DOCUMENT = Path(__file__).parents[3] / "docs" / "mistakes.md"
PROTO = """
syntax = "proto3";
package shop.v1;
import "google/protobuf/timestamp.proto";
enum Status { UNKNOWN = 0; COMPLETED = 1; }
message Booking {
  string order_number = 1;
  Status status = 2;
  google.protobuf.Timestamp event_timestamp = 3;
  double fare = 4;
  string end = 5;
  string order = 6;
  int32 city_id = 7;
  string customer_id = 8;
}
"""
END = "TUMBLE_END(rowtime, INTERVAL '1' MINUTE) AS window_timestamp"
GROUP = "GROUP BY TUMBLE(rowtime, INTERVAL '1' MINUTE)"


@pytest.fixture(scope="module")
def bookings(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """Make the stream of all queries."""
    folder = tmp_path_factory.mktemp("protos")
    (folder / "shop.proto").write_text(PROTO)
    pool = DescriptorPool()
    for file in compiled(folder / "shop.proto", include=folder).file:
        pool.AddSerializedFile(file.SerializeToString())
    return Table("bookings", pool.FindMessageTypeByName("shop.v1.Booking"), "event_timestamp")


def count(rest: str = "", *, first: str = "count(1) AS n", keys: str = "") -> str:
    return f"SELECT {first}, {END} FROM bookings{rest} {GROUP}{keys}"


MISTAKES = [
    (
        count(first="status AS tag_status count(1) AS n", keys=", status"),
        "A comma is missing before 'count'.",
    ),
    (count(first="status count(1) AS n", keys=", status"), "A comma is missing before 'count'."),
    (count(first="status\n count(1) AS n", keys=", status"), "A comma is missing before 'count'."),
    (
        f"SELECT count(1) AS n {END} FROM bookings {GROUP}",
        "A comma is missing before 'TUMBLE_END'.",
    ),
    (count(keys=" status"), "A comma is missing before 'status'."),
    ("SELECT fare AS f city_id AS c FROM bookings", "A comma is missing before 'city_id'."),
    (
        count(first="order AS tag_order, count(1) AS n", keys=", order"),
        "order is a word of the language: as a name it stands in backticks.",
    ),
    (
        count(first="end AS tag_end, count(1) AS n", keys=", end"),
        "end is a word of the language: as a name it stands in backticks.",
    ),
    (
        count(" WHERE status = COMPLETED"),
        "There is no column COMPLETED, and status has the value COMPLETED: text is quoted.",
    ),
    (
        count(' WHERE status = "COMPLETED"'),
        "Names are quoted with backticks, text with single quotes.",
    ),
    (count(" WHERE status == 'COMPLETED'"), "Values are compared by a single =."),
    (count(" WHERE status = 'COMPLETD'"), "status is never 'COMPLETD'."),
    (
        count().replace("SELECT", "SELEC"),
        "A query begins with SELECT or WITH, before 'SELEC'.",
    ),
    (count(first="cuont(1) AS n"), "There is no function cuont."),
    (count(first="count(1 n"), "')' is missing here, before 'n'."),
    (count().replace("FROM", "FORM"), "'FORM' is not expected here."),
    (
        count(first="status, count(1) AS n"),
        "status is neither grouped by nor aggregated: add status to GROUP BY.",
    ),
    (count().replace("'1' MINUTE", "1 MINUTE"), "The number of an INTERVAL stands in single quotes."),
    (count().replace("rowtime", "event_timestamp"), "Windows go by event time: use rowtime here."),
    (count(first="sum(fair) AS n"), "There is no column fair in bookings."),
    (count(first="count(1)"), "Give this column a name: AS count_1."),
    (
        count().replace("FROM bookings", "FROM bookins"),
        "The dagger has no stream called bookins.",
    ),
    (
        count(first="sum(status) AS n"),
        "Argument 1 of SUM is a number, not text (status).",
    ),
    (
        count(first="*"),
        "With GROUP BY, list the columns to select: keys and aggregates.",
    ),
    (count(" HAVING count(1) > 1"), "GROUP BY stands before HAVING."),
    (count(keys=" WHERE fare > 1"), "WHERE stands before GROUP BY."),
    (count(keys=" HAVING count(1) > 1 WHERE fare > 1"), "WHERE stands before HAVING."),
]
"""Queries with one mistake, and what is said of it."""
WITHOUT_CHANGE = {"SUM is a number", "list the columns", "stands before"}
"""Parts of sentences about mistakes that only a person can mend."""


@pytest.mark.parametrize(("sql", "sentence"), MISTAKES)
def test_a_mistake_gets_one_sentence_and_where_one_can_be_the_change_that_mends_it(
    bookings: Table, sql: str, sentence: str
) -> None:
    findings = check(sql, [bookings], points=True).findings
    mended, changes = sql, 0
    while (found := check(mended, [bookings], points=True).findings) and found[0].edit and changes < 3:
        mended, changes = apply(found[0].edit, mended), changes + 1

    assert {finding.message for finding in findings} == {sentence}
    if not any(part in sentence for part in WITHOUT_CHANGE):
        errors = [finding for finding in found if finding.severity is Severity.ERROR]
        assert (errors, changes > 0) == ([], True)


def table() -> str:
    """Write the mistakes as docs/mistakes.md lists them."""
    rows = [f"| `{' '.join(sql.split())}` | {sentence} |" for sql, sentence in MISTAKES]
    return "\n".join(("| query | what is said |", "|---|---|", *dict.fromkeys(rows)))


def test_the_documentation_lists_every_mistake() -> None:
    assert table() in DOCUMENT.read_text(), f"the table of {DOCUMENT} is to be:\n{table()}"


def apply(edit: Edit, sql: str) -> str:
    """Change a text as a finding says."""
    lines = sql.split("\n")
    begins = [sum(len(line) + 1 for line in lines[:number]) for number in range(len(lines))]
    start = begins[edit.line - 1] + edit.column - 1
    end = begins[edit.end_line - 1] + edit.end_column - 1
    return sql[:start] + edit.text + sql[end:]
