"""Java's regular expressions as Python matches them; the answers are Java 17's own."""

import re

import pytest
from tests.conformance.corpus import tables

from daggersql import check
from daggersql.functions.javaregexes import compile_pattern, matches


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        (r"\Qa.b*\E", "a.b*aab", ["a.b*"]), (r"\Q*\E{2}", "a**", ["**"]), (r"a\Qb\E*", "abbb", ["abbb"]),
        (r"\h+", "a \t\xa0\u3000b", [" \t\xa0\u3000"]), (r"\R", "x\r\ny\n", ["\r\n", "\n"]),
        (r"\p{Alpha}+", "abéc1", ["ab", "c"]), (r"\p{L}+", "abéc1", ["abéc"]), (r"\pL", "1a", ["a"]),
        (r"\P{Alpha}+", "ab1-", ["1-"]), (r"\p{Punct}+", "a$^|", ["$^|"]), (r"\p{Sc}", "9€", ["€"]),
        (r"[a-z&&[^aeiou]]+", "hello", ["h", "ll"]), (r"[a-d[m-p]]+", "adxmp", ["ad", "mp"]),
        (r"[^a-c&&[^x]]", "abx", ["x"]), (r"[]a]+", "x]a", ["]a"]), (r"[\w&&\D]+", "ab12", ["ab"]),
        (r"a++b", "aab", ["aab"]), (r"a*+a", "aaa", []), (r"(?>a|ab)c", "abc", []),
        (r"(?i)k", "K\u212a", ["K"]),
        (r"a(?i)b|c", "aBC", ["aB", "C"]), (r"(a(?i)b)c", "aBcaBC", ["aBc"]),
        (r"(?<n>a)\k<n>", "aab", ["aa"]),
        (r"(a)\11", "aa1", ["aa1"]), (r".+", "a\u2028b\x85", ["a", "b"]), (r"a$", "a\r\n", ["a"]),
        (r"(?m)^.", "a\rb\r\nc", ["a", "b", "c"]), (r"\Z", "a\n", ["", ""]), (r"|a", "aa", ["", "", ""]),
        (r"$*a", "a", ["a"]), (r"^+a", "ba", []), (r"\B", "", [""]), (r"\z?b", "b", ["b"]),
        (r"\R{2}", "\r\n", []), (r"\R\R", "\r\n", ["\r\n"]),
        (r"\x{1F600}|\u0041|\0102|\cA", "😀AB\x01", ["😀", "A", "B", "\x01"]),
        (r"(?x) a b # c", "ab", ["ab"]), (r"(?i)[^a]", "aA", []), (r"\bé", "é", ["é"]),
        (r"[.*]", "a.", ["."]),
    ],
)  # fmt: skip
def test_a_pattern_matches_in_python_what_it_matches_in_java(
    pattern: str, text: str, found: list[str]
) -> None:
    assert [found[0] for found in matches(compile_pattern(pattern), text)] == found


@pytest.mark.parametrize(
    "pattern",
    ["(", "a)", "[a", "[z-a]", "*a", "a{", "{", "a{,2}", "+", "\\", r"a\y", r"\E", r"\p{Foo}",
    r"\p{alpha}", r"[a-\d]",
     "(?P<n>a)", "(?#c)a", "(?(1)a|b)", r"\k<n>", "a**", "[^]", "(" * 200 + ")" * 200],
)  # fmt: skip
def test_what_java_does_not_read_is_refused_where_it_stands(pattern: str) -> None:
    sql = f"SELECT REGEXP(driver_id, '{pattern}') AS n FROM bookings"
    (finding,) = check(sql, tables()).findings

    assert (finding.code, finding.line, finding.column) == ("INVALID_REGEX", 1, 26)


@pytest.mark.parametrize(
    "pattern",
    [r"\p{IsLatin}+", r"\X", r"\G.", r"\p{javaLowerCase}", "(?<=a|bc)d", "(?u)é", r"\p{InThai}", r"\b{g}"],
)
def test_what_only_java_matches_is_left_to_java(pattern: str) -> None:
    assert check(f"SELECT REGEXP(driver_id, '{pattern}') AS n FROM bookings", tables()).findings == ()
    with pytest.raises(re.error):
        compile_pattern(pattern)


@pytest.mark.parametrize(
    ("replacement", "codes"),
    [("$1", []), ("${n}", []), (r"\$", []), ("$2", ["INVALID_ARGUMENT"]), ("${m}", ["INVALID_ARGUMENT"]),
     ("$", ["INVALID_ARGUMENT"])],
)  # fmt: skip
def test_a_replacement_names_groups_that_there_are(replacement: str, codes: list[str]) -> None:
    sql = f"SELECT REGEXP_REPLACE(driver_id, '(?<n>a)', '{replacement}') AS n FROM bookings"

    assert [finding.code for finding in check(sql, tables()).findings] == codes


def test_quoted_text_costs_nothing() -> None:
    assert check(r"SELECT REGEXP(driver_id, '\Q(a+)+\E') AS n FROM bookings", tables()).findings == ()
