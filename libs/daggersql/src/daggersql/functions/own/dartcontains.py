"""DartContains(name, text[, pattern][, refresh hours])."""

from __future__ import annotations

import re
from collections.abc import Sequence

from daggersql.findings import Report, Span
from daggersql.functions import formats
from daggersql.functions.javaregexes import compile_pattern
from daggersql.functions.references import HOURS, builds, signatures, use
from daggersql.functions.signature import Doc, Function
from daggersql.ir.expr import Expr
from daggersql.ir.families import Family, family
from daggersql.ir.ops import Form
from daggersql.ir.types import BOOLEAN

MAX_PATTERN = 1_000


def _check(arguments: Sequence[Expr], span: Span, report: Report) -> None:
    use(arguments, report, entries=True)
    for pattern in (argument for argument in arguments[2:] if family(argument.type) is Family.TEXT):
        text = pattern.value
        if not isinstance(text, str):
            report.error("INVALID_ARGUMENT", pattern.span, "The pattern is written as a constant.", "'%s.*'")
        elif len(text) > MAX_PATTERN:
            report.error(
                "REGEX_TOO_COSTLY", pattern.span, f"The pattern is longer than {MAX_PATTERN} characters."
            )
        else:
            _check_format(text, pattern.span, report)


def _check_format(pattern: str, span: Span, report: Report) -> None:
    parts, odd = formats.parse(pattern)
    if odd:
        report.warn(
            "INVALID_ARGUMENT",
            span,
            f"{odd[0]!r} stands for itself: the entry is written %s, a percent sign %%.",
            "%%",
        )
    try:
        compile_pattern(formats.fill(parts, "x"))
    except (re.error, OverflowError, RecursionError):
        report.object_to(
            "INVALID_REGEX", span, "This is no regular expression, with %s for each entry.", "'%s.*'"
        )


_FORM = Form("dartcontains({0}, {1}, {2})")

FUNCTION = Function(
    "DartContains",
    signatures(BOOLEAN, Family.TEXT, Family.INTEGER),
    own=True,
    check=_check,
    build=builds(_FORM, BOOLEAN),
    doc=Doc(
        about="Whether a text is an entry of a reference table; or, with a pattern, whether the whole text"
        " matches it for an entry: %s stands for each entry, which is put in as it is and so may be a pattern"
        " itself. Patterns are Java's; as in its String.format there are also %1$s, %S for capitals, %10s,"
        " %-10s, %.3s, %n, and %% for a percent sign. NULL for NULL. All rows of a batch see one version of"
        " the table.",
        parameters=(
            ("name", "a constant: the name of a registered reference table"),
            ("text", "text; letter case matters"),
            ("pattern", "a constant: a regular expression with %s for the entry, such as '.*%s.*'"),
            HOURS,
        ),
        examples=(),
        dagger="Takes content that is no list for an empty one, and ends the job for a second %s and for"
        " other formats.",
    ),
)
