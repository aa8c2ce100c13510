"""Functions over text and bytes. Positions count from 1, except where Flink counts from 0 (SPLIT_INDEX)."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence

from daggersql.findings import Report, Span, instead_of_constant
from daggersql.functions.checks import together
from daggersql.functions.regexes import check_group, check_regex, check_replacement, where_group_matches
from daggersql.functions.signature import Function, Signature, corrected_form, overloads, scalar
from daggersql.ir.expr import Expr, call, cast, text_constant
from daggersql.ir.families import Family
from daggersql.ir.ops import Form
from daggersql.ir.types import BOOLEAN, INT, NULL, STRING
from daggersql.limits import MAX_TEXT

TEXT, WHOLE, BYTES, ANY = Family.TEXT, Family.INTEGER, Family.BINARY, Family.ANY


def _whole(span: int) -> str:
    return f"try_cast({{{span}}} AS INT)"


def _check_length(arguments: Sequence[Expr], span: Span, report: Report) -> None:
    """Check the number that decides the length of the result."""
    length = arguments[1]
    if length.wrong:
        return
    if not (length.is_constant and isinstance(length.value, int)):
        report.error(
            "INVALID_ARGUMENT", length.span, "The length must be a constant, so that it has a limit."
        )
    elif length.value > MAX_TEXT:
        report.error("RESULT_TOO_LARGE", span, f"The text would be longer than {MAX_TEXT:,} characters.")


def _check_index(arguments: Sequence[Expr], span: Span, report: Report) -> None:
    """Check that the separator of SPLIT_INDEX is a constant text."""
    separator = arguments[1]
    fine = isinstance(separator.value, str) and separator.value and "\\E" not in separator.value
    if not separator.wrong and not fine:
        report.error("INVALID_ARGUMENT", separator.span, "The separator is a constant text, and not empty.")


def _check_repeated(arguments: Sequence[Expr], span: Span, report: Report) -> None:
    """Limit repetitions: of a constant by its length, of a column to a thousand."""
    text, times = arguments[0].value, arguments[1].value
    if isinstance(times, int) and times * (len(text) if isinstance(text, str) else 1024) > MAX_TEXT:
        report.error("RESULT_TOO_LARGE", span, f"The text may be longer than {MAX_TEXT:,} characters.")


_URL_PARTS = ("HOST", "PATH", "QUERY", "REF", "PROTOCOL", "AUTHORITY", "FILE", "USERINFO")


def _check_url_part(arguments: Sequence[Expr], span: Span, report: Report) -> None:
    part = arguments[1]
    if not part.wrong and part.value not in _URL_PARTS:
        report.error(
            "INVALID_ARGUMENT",
            part.span,
            f"The part is one of {', '.join(_URL_PARTS)}.",
            instead_of_constant(part.span, "HOST"),
        )
    if (
        len(arguments) == 3
        and not arguments[2].wrong
        and not re.fullmatch(r"[\w.-]+", str(arguments[2].value))
    ):
        report.error("INVALID_ARGUMENT", arguments[2].span, "The key is a constant of letters and digits.")


def _pad(name: str) -> Function:
    # NULL for a negative length and for nothing to fill up with, as Flink says.
    padded = f"{name.lower()}({{0}}, {_whole(1)}, {{2}})"
    form = corrected_form(
        f"CASE WHEN {_whole(1)} >= 0 AND {{2}} <> '' THEN {padded} END",
        f"CASE WHEN {_whole(1)} >= 0 THEN {padded} END",
    )
    return overloads(name, Signature((TEXT, WHOLE, TEXT), STRING, form), check=_check_length)


def _trim(name: str, side: str) -> Function:
    return overloads(
        name,
        Signature((TEXT,), STRING, f"trim({side} ' ' FROM {{0}})"),
        Signature((TEXT, TEXT), STRING, f"trim({side} {{1}} FROM {{0}})"),
    )


def _substring(name: str) -> Function:
    # Nothing begins before the text; Spark would count the length from there on.
    before = f"{_whole(1)} < - char_length({{0}})"
    inside = f"{_whole(1)} >= 0 OR {_whole(1)} >= - char_length({{0}})"

    def unless_before(part: str) -> str:
        return f"CASE WHEN {inside} THEN {part} WHEN {before} THEN '' END"

    rest, part = f"substring({{0}}, {_whole(1)})", f"substring({{0}}, {_whole(1)}, {_whole(2)})"
    of_length = f"CASE WHEN {_whole(2)} >= 0 THEN {unless_before(part)} END"
    return overloads(
        name,
        Signature((TEXT, WHOLE), STRING, corrected_form(unless_before(rest), rest)),
        Signature((TEXT, WHOLE, WHOLE), STRING, corrected_form(of_length, part)),
    )


# Between \Q and \E a pattern is plain text.
_PARTS = "split({0}, concat('\\\\Q', {1}, '\\\\E'))"
_PART = f"CASE WHEN {_whole(2)} >= 0 THEN get({_PARTS}, {_whole(2)}) END"
_PART_OF_SOMETHING = f"CASE WHEN {_whole(2)} >= 0 AND {{0}} <> '' THEN get({_PARTS}, {_whole(2)}) END"
# Words are made of ASCII letters and digits, as in Flink; all else stands between them as it is.
_SMALL, _CAPITAL = string.ascii_lowercase, string.ascii_uppercase
_WORD = (
    f"concat(translate(left(word, 1), '{_SMALL}', '{_CAPITAL}'),"
    f" translate(substring(word, 2), '{_CAPITAL}', '{_SMALL}'))"
)
_WORDS = "regexp_extract_all({0}, '[A-Za-z0-9]+|[^A-Za-z0-9]+', 0)"
_INITIALS = corrected_form(f"array_join(transform({_WORDS}, word -> {_WORD}), '')", "initcap({0})")
# What would be looked for from before the text on is looked for from its begin on.
_LOCATED_FROM = corrected_form(
    f"CASE WHEN {{2}} IS NOT NULL THEN locate({{0}}, {{1}}, greatest({_whole(2)}, 1)) END",
    f"locate({{0}}, {{1}}, {_whole(2)})",
)
_WHOLE_MATCH = Form("CASE WHEN rlike({0}, {1}) THEN regexp_extract({0}, {1}, 0) END")
# NULL where nothing matches; Spark gives an empty text.
_GROUP = Form("CASE WHEN rlike({0}, {1}) THEN regexp_extract({0}, {1}, {2}) END")
# It gives one for a group that took no part, too.
_OPTIONAL_GROUP = corrected_form(
    "CASE WHEN rlike({0}, {3}) THEN regexp_extract({0}, {1}, {2}) END", _GROUP.template
)


def _overlaid(*more: str) -> Form:
    """Build OVERLAY, which changes nothing if the position is outside of the text, as in Flink."""
    put = f"overlay({{0}}, {{1}}, {_whole(2)}{''.join(more)})"
    inside = f"{_whole(2)} >= 1 AND {_whole(2)} <= char_length({{0}})"
    has_values = " AND ".join(f"{{{number}}} IS NOT NULL" for number in range(1, 3 + len(more)))
    return corrected_form(f"CASE WHEN {inside} THEN {put} WHEN {has_values} THEN {{0}} END", put)


def _extract(arguments: Sequence[Expr], span: Span, report: Report, where: Expr | None) -> Expr:
    """REGEXP_EXTRACT."""
    given = [cast(argument, STRING) if argument.type == NULL else argument for argument in arguments]
    if len(given) == 2:
        return call(_WHOLE_MATCH, STRING, span, *given)
    pattern, group = given[1].value, given[2].value
    if isinstance(pattern, str) and isinstance(group, int):
        matching = where_group_matches(pattern, group)
        if matching is not None:
            return call(_OPTIONAL_GROUP, STRING, span, *given, text_constant(matching, STRING, span))
    return call(_GROUP, STRING, span, *given)


_UPPER, _LOWER = (Form(f"{name}({{0}})", total=True) for name in ("upper", "lower"))
_LENGTH = ("CHAR_LENGTH", "CHARACTER_LENGTH")

FUNCTIONS = (
    scalar("UPPER", [TEXT], STRING, _UPPER),
    scalar("LOWER", [TEXT], STRING, _LOWER),
    scalar("UCASE", [TEXT], STRING, _UPPER),
    scalar("LCASE", [TEXT], STRING, _LOWER),
    scalar("INITCAP", [TEXT], STRING, _INITIALS),
    scalar("REVERSE", [TEXT], STRING, "reverse({0})"),
    *(scalar(name, [TEXT], INT, "char_length({0})") for name in _LENGTH),
    _substring("SUBSTRING"),
    _substring("SUBSTR"),
    scalar("LEFT", [TEXT, WHOLE], STRING, f"left({{0}}, {_whole(1)})"),
    scalar("RIGHT", [TEXT, WHOLE], STRING, f"right({{0}}, {_whole(1)})"),
    _trim("TRIM", "BOTH"),
    _trim("LTRIM", "LEADING"),
    _trim("RTRIM", "TRAILING"),
    _pad("LPAD"),
    _pad("RPAD"),
    scalar("POSITION", [TEXT, TEXT], INT, "locate({0}, {1})"),
    scalar("INSTR", [TEXT, TEXT], INT, "instr({0}, {1})"),
    overloads(
        "LOCATE",
        Signature((TEXT, TEXT), INT, "locate({0}, {1})"),
        Signature((TEXT, TEXT, WHOLE), INT, _LOCATED_FROM),
    ),
    scalar("REPLACE", [TEXT, TEXT, TEXT], STRING, "replace({0}, {1}, {2})"),
    Function("CONCAT", (Signature((TEXT,), STRING, Form("concat({rest})", total=True), variadic=True),)),
    Function(
        "CONCAT_WS",
        (
            Signature(
                (TEXT, TEXT),
                STRING,
                "CASE WHEN {0} IS NOT NULL THEN concat_ws({0}, {rest}) END",
                variadic=True,
            ),
        ),
    ),
    overloads(
        "SPLIT_INDEX",
        # NULL for a negative index and behind the last part; an empty text has no part.
        Signature((TEXT, TEXT, WHOLE), STRING, corrected_form(_PART_OF_SOMETHING, _PART)),
        check=_check_index,
    ),
    scalar("ASCII", [TEXT], INT, "ascii({0})"),
    scalar("CHR", [WHOLE], STRING, "char({0})"),
    scalar("MD5", [TEXT], STRING, "md5(CAST({0} AS BINARY))"),
    scalar("SHA1", [TEXT], STRING, "sha1(CAST({0} AS BINARY))"),
    scalar("SHA224", [TEXT], STRING, "sha2(CAST({0} AS BINARY), 224)"),
    scalar("SHA256", [TEXT], STRING, "sha2(CAST({0} AS BINARY), 256)"),
    scalar("SHA384", [TEXT], STRING, "sha2(CAST({0} AS BINARY), 384)"),
    scalar("SHA512", [TEXT], STRING, "sha2(CAST({0} AS BINARY), 512)"),
    overloads(
        "TO_BASE64",
        Signature((TEXT,), STRING, "replace(base64(CAST({0} AS BINARY)), '\\r\\n', '')"),
        Signature((BYTES,), STRING, "replace(base64({0}), '\\r\\n', '')"),
    ),
    scalar("FROM_BASE64", [TEXT], STRING, "try_validate_utf8(CAST(try_to_binary({0}, 'base64') AS STRING))"),
    # An empty pattern is found nowhere, as in Flink.
    overloads(
        "REGEXP",
        Signature(
            (TEXT, TEXT), BOOLEAN, corrected_form("(rlike({0}, {1}) AND {1} <> '')", "rlike({0}, {1})")
        ),
        check=check_regex(1),
    ),
    Function(
        "REGEXP_EXTRACT",
        (Signature((TEXT, TEXT), STRING, _WHOLE_MATCH), Signature((TEXT, TEXT, WHOLE), STRING, _GROUP)),
        check=together(check_regex(1), check_group),
        build=_extract,
    ),
    overloads(
        "REGEXP_REPLACE",
        Signature((TEXT, TEXT, TEXT), STRING, "regexp_replace({0}, {1}, {2})"),
        check=together(check_regex(1), check_replacement),
    ),
    overloads(
        "OVERLAY",
        Signature((TEXT, TEXT, WHOLE), STRING, _overlaid()),
        Signature((TEXT, TEXT, WHOLE, WHOLE), STRING, _overlaid(f", {_whole(3)}")),
    ),
    overloads(
        "REPEAT",
        Signature((TEXT, WHOLE), STRING, f"repeat({{0}}, {_whole(1)})"),
        check=together(_check_length, _check_repeated),
    ),
    overloads(
        "HEX",
        Signature((WHOLE,), STRING, "hex(CAST({0} AS BIGINT))"),
        Signature((TEXT,), STRING, "hex(CAST({0} AS BINARY))"),
    ),
    scalar("BIN", [WHOLE], STRING, "bin(CAST({0} AS BIGINT))"),
    overloads(
        "PARSE_URL",
        Signature((TEXT, TEXT), STRING, "try_parse_url({0}, {1})"),
        Signature((TEXT, TEXT, TEXT), STRING, "try_parse_url({0}, {1}, {2})"),
        check=_check_url_part,
    ),
)
