"""Rows as they are shown, and series."""

import io
import json
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from daggers.v1 import gateway_pb2
from rich.console import Console

from cli.commands.rows import unseen
from cli.commands.rows_live import show_live
from cli.errors import UnreachableError
from cli.framework.instants import instant
from cli.framework.row_reads import COMPARISONS, Look, condition, order
from cli.output.printer import Format, Printer
from cli.output.row_text import document, text
from cli.output.sparkline import Series, sparkline, table
from cli.output.visible import printable
from daggerspec.exactjson import dumps
from daggerspec.row import Row, from_proto

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, ""),
        ("text", "text"),
        (True, "true"),
        (1.5, "1.5"),
        ({"a": None, "b": ["ü"]}, '{"a": null, "b": ["ü"]}'),
    ],
)
def test_a_value_is_shown_as_text_and_never_as_python(value: object, shown: str) -> None:
    assert text(value) == shown


def test_a_sparkline_goes_from_zero_to_the_largest_value() -> None:
    assert sparkline([0, 7, 3.5, 7]) == "▁█▅█"
    assert sparkline([]) == ""


def test_a_table_of_no_series_says_so_under_its_whole_title() -> None:
    console = Console(width=80, file=io.StringIO())
    with console.capture() as capture:
        console.print(table("a_rather_long_name  RUNNING", [], 5))

    lines = [line.strip() for line in capture.get().splitlines()]
    assert (lines[0], lines[-1]) == ("a_rather_long_name  RUNNING", "no rows yet")


def test_a_series_is_the_values_of_one_field_with_one_set_of_tags() -> None:
    rows = [
        Row(NOON.replace(minute=minute), {"c": city}, {"n": minute}) for minute in (1, 0) for city in "ab"
    ]

    assert sorted((each.tags, each.values) for each in Series.collect(rows)) == [
        ("c=a", (0.0, 1.0)),
        ("c=b", (0.0, 1.0)),
    ]


def test_a_row_is_shown_as_it_was_answered() -> None:
    fields = [
        gateway_pb2.RowField(name="cell", integer=-8520148434366234624),
        gateway_pb2.RowField(name="nested", json='{"a": [null, 1]}'),
    ]
    row = gateway_pb2.Row(tags={"b": "2", "a": "1"}, fields=fields, key="k")
    row.time.FromDatetime(NOON)

    assert document(from_proto(row)) == {
        "window_timestamp": "2026-01-01T12:00:00Z",
        "tags": {"a": "1", "b": "2"},
        "fields": {"cell": -8520148434366234624, "nested": {"a": [None, 1]}},
    }


def test_what_would_not_be_seen_in_a_value_is_escaped() -> None:
    assert printable("a\u202eb\x07 é 😀") == "a\\u202eb\\x07 é 😀"


def test_every_digit_is_in_the_text_and_in_the_json() -> None:
    fields = [
        gateway_pb2.RowField(name="cell", integer=2**53 + 1),
        gateway_pb2.RowField(name="total", json="12345678901234567890.120"),
        gateway_pb2.RowField(name="nested", json='{"a": [1.50]}'),
    ]
    row = from_proto(gateway_pb2.Row(fields=fields))
    printed = dumps(document(row)["fields"])

    assert [text(value) for value in row.fields.values()] == [
        "9007199254740993", "12345678901234567890.120", '{"a": [1.50]}',
    ]  # fmt: skip
    assert printed == '{"cell": 9007199254740993, "total": 12345678901234567890.120, "nested": {"a": [1.50]}}'


@pytest.mark.parametrize(
    ("said", "column", "sign", "value"),
    [
        ("tag_city=12", "tag_city", "=", "12"),
        ("city = São Paulo", "city", "=", "São Paulo"),
        ("n>=-1.5", "n", ">=", "-1.5"),
        ("n!=", "n", "!=", ""),
        ("text=a=b", "text", "=", "a=b"),
        ("n<3", "n", "<", "3"),
    ],
)
def test_a_condition_is_read_as_it_is_written(said: str, column: str, sign: str, value: str) -> None:
    expected = gateway_pb2.RowCondition(column=column, comparison=COMPARISONS[sign], value=value)

    assert condition(said) == expected


def test_an_order_is_a_column_and_perhaps_a_direction() -> None:
    assert [order(said) for said in ("revenue", "revenue:desc", "")] == ["revenue", "revenue desc", ""]


@pytest.mark.parametrize(
    ("said", "instant_"),
    [
        ("10m", NOON - timedelta(minutes=10)),
        ("2026-01-01T11:00:00Z", NOON - timedelta(hours=1)),
        ("2026-01-01T11:00", NOON - timedelta(hours=1)),
        ("2026-01-01T11:00+02:00", NOON - timedelta(hours=3)),
        ("2026-01-01", NOON - timedelta(hours=12)),
        ("999999d", datetime(1970, 1, 1, tzinfo=UTC)),
    ],
)
def test_since_is_a_span_before_now_or_an_instant(said: str, instant_: datetime) -> None:
    assert instant("--since", said, NOON) == instant_


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--where", "ordes=1"), 1, "there is no column ordes: did you mean orders?"),
        (("--where", "orders=many"), 1, "must be a number: the type of orders is bigint"),
        (("--sort", "order:desc"), 1, "there is no column order: did you mean orders?"),
        (("--sort", "orders:down"), 1, "must be a column, and asc or desc"),
        (("--where", "orders"), 2, "--where orders: it must be FIELD=VALUE"),
        (("--since", "yesterday"), 2, "--since yesterday: it must be a duration such as 30s"),
        (
            ("--where", "orders>=1", "--where", "tag_city=x", "--sort", "orders:desc", "--since", "1h"),
            0,
            "[]",
        ),
    ],
)
def test_what_is_asked_is_judged_by_the_columns_of_the_dagger(
    shell: Any, dagger_file: str, words: tuple[str, ...], code: int, said: str
) -> None:
    shell.fill()
    assert shell("apply", "-f", shell.file("orders.yaml", dagger_file))[0] == 0
    ended, out, _ = shell("rows", "orders_by_city", *words, "-o", "json")

    assert (ended, said in out) == (code, True), out
    assert code != 1 or words[0] in json.loads(out)["error"]["findings"][0]["field"]


def test_rows_that_come_again_are_shown_once_and_changed_ones_again() -> None:
    first, changed = Row(NOON, {}, {"n": 1}), Row(NOON, {}, {"n": 2})

    looks = [Look([first], snapshot=True), Look([]), Look([changed]), Look([first])]
    anew = Look([first, changed], snapshot=True)

    assert list(unseen(iter([*looks, anew]))) == [first, changed, first]


class Restarting:
    """A gateway that does not answer at the moment."""

    def get(self, name: str) -> gateway_pb2.Dagger:
        raise UnreachableError("nobody")


def test_a_live_watch_goes_on_while_the_gateway_restarts() -> None:
    terminal = Console(width=80, height=24, file=io.StringIO())
    printer = Printer(Format.TEXT, terminal)
    session: Any = SimpleNamespace(out=printer)
    gateway: Any = Restarting()

    show_live(session, gateway, "orders", iter([Look([Row(NOON, {"c": "x"}, {"n": 7})])]))

    assert "orders" in terminal.file.getvalue()


def test_rows_of_one_time_without_tags_are_shown_once_over_a_relaunch() -> None:
    look = Look([Row(NOON, {}, {"customer": each}) for each in "abc"], snapshot=True)

    assert list(unseen(iter([look, look]))) == look.rows
