"""Functions of time, without Spark: the corpus, and both forms beside each other on every zone there is."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.conformance.corpus import cases
from tests.conformance.values import agrees, plain, refusal

from daggersql.functions import zones as zone_names
from daggersql.functions.patterns import LETTERS, parse
from runtime import functions
from runtime.values import zones

TYPES: dict[str, list[pa.DataType]] = {
    "StartOfMonth": [pa.int64(), pa.string()],
    "EndOfMonth": [pa.int64(), pa.string()],
    "StartOfWeek": [pa.int64(), pa.string()],
    "EndOfWeek": [pa.int64(), pa.string()],
    "TimeInDate": [pa.int64(), pa.int32(), pa.int32(), pa.string()],
    "TimestampFromUnix": [pa.int64()],
    "FormatTimeInZone": [pa.timestamp("us", "UTC"), pa.string(), pa.string()],
}
CASES = {
    case["id"]: case
    for case in cases("udf_cases")
    if case["udf"] in TYPES and refusal(case["expected"]) is None
}
PERIODS = ("StartOfMonth", "EndOfMonth", "StartOfWeek", "EndOfWeek")
NAMES = st.sampled_from(sorted(zone_names.names())) | st.sampled_from(["GMT+07:00", "-3", "IST", "UTC+05:45"])
SECONDS = st.integers(zones.FIRST - 10, zones.LAST + 10) | st.integers(-5_000_000_000, 5_000_000_000)
RESTLESS = [
    "America/New_York", "Africa/Casablanca", "Asia/Damascus", "America/Toronto", "Pacific/Kiritimati",
    "Pacific/Apia", "America/Havana", "Asia/Gaza", "Europe/Dublin", "America/Nuuk", "Australia/Lord_Howe",
    "Antarctica/Troll",
]  # fmt: skip
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def fast(name: str, *rows: tuple[Any, ...]) -> list[Any]:
    """The fast form, of a batch of rows."""
    columns = zip(*rows, strict=True)
    arrays = [pa.array(values, kind) for values, kind in zip(columns, TYPES[name], strict=False)]
    found: list[Any] = functions.load(name.lower()).compute(*arrays).to_pylist()
    return found


def changes(name: str) -> list[int]:
    """Instants around a zone's changes of offset, of the rules 400 and 4000 years later too."""
    clock = zones.clock(name)
    assert clock is not None
    turns = [int(start) for start in clock.starts[1:][:: max(1, len(clock.starts) // 40)]]
    later = [turn + 400 * cycle * 365_2425 * 86_400 // 10_000 for turn in turns for cycle in (1, 10)]
    return [turn + by for turn in [*turns, *later] for by in (-3600, -1, 0, 1, 1800, 5400) if turn < 2**36]


@pytest.mark.parametrize("name", sorted(CASES))
def test_both_forms_give_what_the_corpus_says(name: str) -> None:
    case = CASES[name]
    arguments = tuple(map(plain, case["args"]))
    answers = [functions.load(case["udf"].lower()).reference(*arguments), *fast(case["udf"], arguments)]

    assert [agrees(case["expected"], answer) for answer in answers] == [True, True], answers


@pytest.mark.parametrize("name", RESTLESS)
@pytest.mark.parametrize("function", PERIODS)
def test_both_forms_agree_around_every_change_of_the_clocks(function: str, name: str) -> None:
    rows = [(instant, name) for instant in changes(name)]
    reference = functions.load(function.lower()).reference

    assert fast(function, *rows) == [reference(*row) for row in rows]


@given(st.sampled_from(PERIODS), SECONDS | st.none(), NAMES | st.sampled_from([None, "", "Nowhere", "utc+x"]))
@example("StartOfMonth", 788_800_000, "Pacific/Kiritimati")  # its January 1995 began at 00:40
@example("EndOfMonth", zones.LAST, "UTC")
@example("EndOfWeek", zones.LAST, "UTC")  # that week ends in the year 10000
@example("StartOfMonth", zones.FIRST, "America/New_York")  # there it is the year 0
@settings(max_examples=8 * settings.default.max_examples)
def test_both_forms_of_a_period_agree(function: str, seconds: int | None, zone: str | None) -> None:
    assert fast(function, (seconds, zone)) == [functions.load(function.lower()).reference(seconds, zone)]


@given(SECONDS, st.integers(-1, 24) | st.none(), st.integers(-1, 60), NAMES)
@example(1710072000, 2, 30, "America/New_York")  # an hour that the clocks skip
@settings(max_examples=5 * settings.default.max_examples)
def test_both_forms_of_timeindate_agree(seconds: int, hour: int | None, minute: int, zone: str) -> None:
    row = (seconds, hour, minute, zone)

    assert fast("TimeInDate", row) == [functions.load("timeindate").reference(*row)]


def test_an_hour_that_the_clocks_skip_is_as_much_later_as_they_jump() -> None:
    half_past_three = 1710055800

    assert fast("TimeInDate", (1710072000, 2, 30, "America/New_York")) == [half_past_three]


@given(st.integers(-(2**63), 2**63 - 1) | SECONDS | st.none())
@settings(max_examples=3 * settings.default.max_examples)
def test_both_forms_of_timestampfromunix_agree(seconds: int | None) -> None:
    assert fast("TimestampFromUnix", (seconds,)) == [functions.load("timestampfromunix").reference(seconds)]


PATTERNS = st.lists(
    st.tuples(st.sampled_from(LETTERS), st.integers(1, 6)).map(
        lambda part: part[0] * min(part[1], 3 if part[0] in "Xz" else 6)
    )
    | st.sampled_from(["'T'", "''", " ", "-", "'o''clock'", "日"]),
    max_size=6,
).map("/".join)


@given(
    st.integers(zones.FIRST * 10**6, zones.LAST * 10**6 + 999_999) | st.integers(0, 2 * 10**15),
    NAMES,
    PATTERNS,
)
@example(0, "Europe/London", "z")  # which was an hour ahead all year
@settings(max_examples=8 * settings.default.max_examples)
def test_both_forms_of_formattimeinzone_agree(micros: int, zone: str, pattern: str) -> None:
    row = (EPOCH + timedelta(microseconds=micros), zone, pattern)

    assert fast("FormatTimeInZone", row) == [functions.load("formattimeinzone").reference(*row)]


def test_a_batch_keeps_the_order_of_its_rows_zones_and_nulls() -> None:
    rows = [(0, "UTC"), (None, "UTC"), (0, "Asia/Tokyo"), (0, None), (2**62, "UTC"), (0, "x"), (9, "UTC")]
    times = [(None if row[0] is None else EPOCH, row[1], "HH") for row in rows]

    assert fast("EndOfMonth", *rows) == [functions.load("endofmonth").reference(*row) for row in rows]
    assert fast("FormatTimeInZone", *times) == ["00", None, "09", None, "00", None, "00"]


@pytest.mark.parametrize("name", sorted(TYPES))
def test_an_empty_batch_and_one_of_nulls_are_fine(name: str) -> None:
    compute = functions.load(name.lower()).compute

    assert compute(*[pa.array([], kind) for kind in TYPES[name]]).to_pylist() == []
    assert compute(*[pa.nulls(2, kind) for kind in TYPES[name]]).to_pylist() == [None, None]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("yy", "24"), ("yyyyy", "02024"), ("M/MM/MMM/MMMM", "2/02/Feb/February"),
        ("d/dd/D/DDD", "9/09/40/040"), ("G a aa", "AD AM AM"),
        ("k:K:h:H", "24:0:12:0"), ("S SS SSS", "7 07 007"), ("EE EEEE u", "Fri Friday 5"),
        ("Z X XX XXX", "+0530 +05 +0530 +05:30"), ("z", "IST"), ("yyyy'T''x'''", "2024T'x'"), ("", ""),
    ],
)  # fmt: skip
def test_patterns_mean_what_they_mean_in_java(pattern: str, expected: str) -> None:
    time = datetime(2024, 2, 8, 18, 30, 0, 7_000, tzinfo=UTC)

    assert fast("FormatTimeInZone", (time, "Asia/Kolkata", pattern)) == [expected]


@pytest.mark.parametrize("pattern", ["Y", "ww", "W", "F", "yyyy-bb", "'open", "XXXX", "zzzz", "y" * 300])
def test_a_pattern_without_a_meaning_of_its_own_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"\.$"):
        parse(pattern)


@pytest.mark.parametrize(
    ("name", "same_as"),
    [("IST", "Asia/Kolkata"), ("GMT+07:00", "Asia/Jakarta"), ("+5:30", "Asia/Kolkata"), ("Z", "UTC"),
     ("UTC-3", "America/Sao_Paulo"), ("GMT+0530", "Asia/Kolkata")],
)  # fmt: skip
def test_zones_may_be_written_as_java_takes_them(name: str, same_as: str) -> None:
    instant = 1_700_000_000

    assert fast("StartOfMonth", (instant, name)) == fast("StartOfMonth", (instant, same_as))


@pytest.mark.parametrize("name", ["", "Nowhere", "GMT+19", "GMT+7:60", "asia/jakarta", "../UTC", "UTC "])
def test_what_is_no_zone_is_none(name: str) -> None:
    assert zones.find(name) is None
