"""Patterns that would not end are refused by what they are; what people write is not."""

import time

import pytest
from tests.conformance.corpus import tables

from daggersql import check
from daggersql.findings import MAX_FINDINGS
from daggersql.functions.regexes import what_is_wrong

COSTLY = [
    r"(a+){50}b", r"((a+))+\2b", r"(.*){30}x", ".*" * 11 + "x", r"(a+)+$", r"(a|aa)+b", r"(a|a)*b",
    r"(a*)*b", r"(a?){40}a{40}", r"(a?a?)*b", r"((a?)+)+b", r"(?:a*a*)+b", r"(?:(?:a+)+)+b", r"(.*a){20}x",
    r"(.+)+x", r"(\w+\s?)*$", r"(?:a{1,50}){50}b", r"(?=(a+)+b)", r"(?!(a+)+b)a", r"a*a*a*a*a*b",
    r"\w*\d*\w*\d*\w*\d*\w*!", r"([a-z]+)*\d", r"(a|b|ab)*c", r"(?i)(A+)+b", r"(\pL+)+\d",
    r"(.*)\1(.*)\2(.*)\3x", "a?" * 30 + "a" * 30, "(?:a|b)*c", "(?:a?b)*c", r"(x+x+)+y", r"(?>(a+)+b)",
    r"(?:a|a){60}b", r"(?x) (a + ) + b", r"(\Qa\E+)+b", r"([\s\S]*,){12}x",
    r"^(([a-z])+.)+[A-Z]([a-z])+$", r"(a*)\1*\1*\1*b", r"(a*?)*?b", "a{0,999}" * 4 + "b", r"(?U)(\w+)+!",
]  # fmt: skip
CHEAP = [
    r"^(\d{1,3}\.){3}\d{1,3}$", r"(https?)://([^/]+)/([^?]*)\?(.*)$", r".*foo.*bar.*", r"(?:a|b)*+c",
    r"\d{4}-\d{2}-\d{2}( \d{2}:\d{2})?", r'(\S+) (\S+) \[(.*)\] "(.*)" (\d+)', r"(ab)*c",
    r"[\w.+-]+@[\w-]+\.[\w.]+", r"a+b+c+d+e+f+g+", r"(?:cat|dog|cow){1,3}", r"key=([^;]*);.*val=(\d+)",
    r"\s*(\w+)\s*=\s*(.*)\s*", r"(?:[^,]*,){5}([^,]*)", r"(\d+)(,\d+)?", r"^\s*(.*?)\s*$", "a?" * 9,
    r"(?i)^(GET|POST) /(\w+)/(\w+)(/.*)?$", r"\Q(a+)+\E", r"(?<=a{0,9})b", "(a{1000}){1000}", "[+*]+x",
]  # fmt: skip


@pytest.mark.parametrize("pattern", COSTLY)
def test_a_pattern_whose_parts_compete_for_the_same_text_is_refused(pattern: str) -> None:
    found = what_is_wrong(pattern, native=True)

    assert found is not None
    assert found[0] == "REGEX_TOO_COSTLY"


@pytest.mark.parametrize("pattern", CHEAP)
def test_a_pattern_whose_next_character_decides_is_taken(pattern: str) -> None:
    assert what_is_wrong(pattern, native=True) is None


@pytest.mark.parametrize(
    "pattern",
    [r"\p{Nope}", "{", "a{,3}", "a{3,1}", "(?<=a+)b", r"(?<=\1)(a)", "(?<n>a)(?<n>b)", r"\x{110000}", "[&&]",
     "[a-&&b]", r"\1", r"\c\Q", "(?<n>a", "x{2"],
)  # fmt: skip
def test_what_java_would_refuse_at_the_start_is_refused_by_the_check(pattern: str) -> None:
    found = what_is_wrong(pattern, native=True)

    assert found is not None
    assert found[0] == "INVALID_REGEX"


@pytest.mark.parametrize(
    ("condition", "codes"),
    [("driver_id LIKE '%a%b%c%d%'", []), ("driver_id LIKE '%a%b%c%d%e%'", ["REGEX_TOO_COSTLY"]),
     ("driver_id LIKE 'a!%b!%c!%d!%e!%f' ESCAPE '!'", []),
     ("driver_id SIMILAR TO '%a%a%a%a%a%'", ["REGEX_TOO_COSTLY"])],
)  # fmt: skip
def test_wildcards_of_like_compete_too(condition: str, codes: list[str]) -> None:
    found = check(f"SELECT fare FROM bookings WHERE {condition}", tables()).findings

    assert [each.code for each in found] == codes


def test_a_query_that_was_accepted_goes_on_with_a_warning() -> None:
    both = "driver_id SIMILAR TO '%a%a%a%a%a%' OR REGEXP(driver_id, '(a+){50}')"
    checked = check(f"SELECT fare FROM bookings WHERE {both}", tables(), accepted=True)

    assert checked.plan is not None
    assert [found.code for found in checked.findings] == ["REGEX_TOO_COSTLY"] * 2


def test_the_patterns_of_a_query_have_a_budget() -> None:
    columns = ", ".join(f"REGEXP(driver_id, '{'a' * 900}{number}') AS c{number}" for number in range(30))
    found = check(f"SELECT {columns} FROM bookings", tables()).findings

    assert [each.code for each in found] == ["REGEX_TOO_COSTLY"]


def test_one_error_among_many_warnings_is_an_error() -> None:
    warned = " AND ".join("status = 'NO_SUCH'" for _ in range(MAX_FINDINGS + 1))
    checked = check(f"SELECT order_number FROM bookings WHERE {warned} AND no_such_column = 1", tables())

    assert checked.plan is None
    assert "UNKNOWN_COLUMN" in [found.code for found in checked.findings]


_HOSTILE = {
    "pipes": ("REGEXP(driver_id, '(" + "|" * 980 + "') AS c#", ", "),
    "groups": ("REGEXP(driver_id, '" + "(" * 480 + ")" * 480 + "') AS c#", ", "),
    "classes": ("REGEXP(driver_id, '#" + r"[\p{L}\d-\x{FFFF}]?" * 40 + "') AS c#", ", "),
    "unknown columns": ("custmer_nme#", " + "),
    "unknown functions": ("REGEX#(driver_id) AS c#", ", "),
    "wildcards": ("driver_id LIKE '%a%b%c%d%e%f%g%h#' AS c#", ", "),
}


@pytest.mark.parametrize("kind", _HOSTILE)
def test_240_kib_of_what_is_costly_to_look_at_are_refused_at_once(kind: str) -> None:
    unit, between = _HOSTILE[kind]
    count = 240 * 1024 // (len(unit) + len(between) + 4)
    sql = f"SELECT {between.join(unit.replace('#', str(number)) for number in range(count))} FROM bookings"
    begin = time.process_time()
    checked = check(sql, tables())
    took = time.process_time() - begin

    assert checked.plan is None
    # It takes a twentieth of that; what grew with the cube of a pattern took more than ten seconds.
    assert took < 2
