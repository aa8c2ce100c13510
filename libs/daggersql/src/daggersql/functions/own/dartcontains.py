"""DartContains(name, text[, pattern][, refresh hours])."""

from __future__ import annotations

import re
from collections.abc import Sequence

from daggersql.findings import Report, Span
from daggersql.functions.references import builds, signatures, use
from daggersql.functions.signature import Doc, Function
from daggersql.tree import Expr
from daggersql.types import BOOLEAN, Family, family

MAX_PATTERN = 1_000


def _check(arguments: Sequence[Expr], place: Span, report: Report) -> None:
    use(arguments, report, entries=True)
    for pattern in (each for each in arguments[2:] if family(each.type) is Family.TEXT):
        text = pattern.value
        if not isinstance(text, str):
            report.error("INVALID_ARGUMENT", pattern.span, "The pattern is written as a constant.", "'%s.*'")
        elif len(text) > MAX_PATTERN:
            report.error(
                "REGEX_TOO_COSTLY", pattern.span, f"The pattern is longer than {MAX_PATTERN} characters."
            )
        elif not _compiles(text):
            report.error(
                "INVALID_REGEX",
                pattern.span,
                "This is no regular expression, with %s for each entry.",
                "'%s.*'",
            )


def _compiles(pattern: str) -> bool:
    try:
        re.compile(pattern.replace("%s", "x"))
    except (re.error, OverflowError, RecursionError):
        return False
    return True


FUNCTION = Function(
    "DartContains",
    signatures(BOOLEAN, Family.TEXT, Family.INTEGER),
    own=True,
    check=_check,
    build=builds("dartcontains({0}, {1}, {2})", BOOLEAN),
    doc=Doc(
        about="Whether a text is an entry of a reference table; or, with a pattern, whether the whole text"
        " matches it for an entry: %s stands for each entry, which is put in as it is and so may be a pattern"
        " itself. NULL for NULL. All rows of a batch see one version of the table.",
        parameters=(
            ("name", "a constant: the name of a registered reference table"),
            ("text", "text; letter case matters"),
            ("pattern", "a constant: a regular expression with %s for the entry, such as '.*%s.*'"),
            (
                "refresh hours",
                "a constant: how old the table may grow; 1 when left out, 0 reads it for each batch",
            ),
        ),
        examples=(),
        dagger="Takes content that is no list for an empty one.",
    ),
)
