"""Texts that Java reads its own way: formats, numbers, steps of streams."""

import math

import pytest

from daggersql.functions import formats, reals, steps


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (".*%s.*", ".*aB c.*"),
        ("%1$s-%<s", "aB c-aB c"),
        ("%s%s", "aB caB c"),
        ("%S", "AB C"),
        ("%6s|%-6s|", "  aB c|aB c  |"),
        ("%.2s", "aB"),
        ("%4.2s", "  aB"),
        ("100%%%s", "100%aB c"),
        ("%%s", "%s"),
        ("%3%%-3%|", "  %%  |"),
        ("%n", "\n"),
        ("", ""),
    ],
)
def test_a_format_is_filled_as_java_fills_it(pattern: str, text: str) -> None:
    parts, odd = formats.parse(pattern)

    assert formats.fill(parts, "aB c") == text
    assert odd == ()


@pytest.mark.parametrize("pattern", ["%", "%d", "%2$s", "%0s", "%-s", "%#s", "%3n", "%9999s"])
def test_what_begins_no_format_stands_for_itself_and_is_told(pattern: str) -> None:
    parts, odd = formats.parse(pattern)

    assert formats.fill(parts, "x") == pattern
    assert odd == (pattern[:2],)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1", 1.0), (" +1.5e3\t", 1500.0), (".5", 0.5), ("5.", 5.0), ("2d", 2.0), ("2.5F", 2.5),
        ("0x1.8p1", 3.0), ("0X10P0d", 16.0), ("1e400", math.inf), ("-0x1p9999", -math.inf),
        ("Infinity", math.inf), ("-Infinity", -math.inf), ("1e-400", 0.0),
    ],
)  # fmt: skip
def test_text_is_a_number_where_java_reads_one(text: str, number: float) -> None:
    assert reals.read(text) == number


NO_NUMBERS = [
    "",
    " ",
    ".",
    "e5",
    "1e",
    "inf",
    "nan",
    "infinity",
    "NANA",
    "1_0",
    "١",
    "0x10",
    "1dd",
    "1 2",
    "--1",
]


@pytest.mark.parametrize("text", NO_NUMBERS)
def test_text_is_none_where_java_reads_none(text: str) -> None:
    assert reals.read(text) is None
    assert math.isnan(reals.read("-NaN") or 0.0)


@pytest.mark.parametrize(
    ("written", "names"),
    [
        ("DISTINCT.Sum", ["distinct", "sum"]),
        ("findfirst", ["findFirst"]),
        (" distinct . asdoublestream ", ["distinct", "asDoubleStream"]),
        ("sorted.", ["sorted"]),
        ("reverse", ["reverse"]),
        ("", [""]),
    ],
)
def test_steps_are_known_in_any_letter_case(written: str, names: list[str]) -> None:
    assert steps.parse(written) == names
