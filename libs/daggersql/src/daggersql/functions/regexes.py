"""Patterns of text: Java's, which Spark runs. What may take exponential time is refused, and so is what Java
would not read: it would end the job.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from daggersql.findings import QueryError, Report, Span, instead
from daggersql.functions.javaregexes import Pattern, compile_pattern, read
from daggersql.functions.regexcost import COMPETING
from daggersql.functions.signature import Check
from daggersql.ir.expr import Expr
from daggersql.limits import MAX_REGEX, MAX_REGEXES

_COSTLY = (
    "This pattern may take exponential time: a group that repeats itself or has alternatives is not repeated"
    f" without bound, and at most {COMPETING} repeats may compete for the same text."
)
_REFERENCE = re.compile(r"\\.|\$(?:(\d)|\{([a-zA-Z][a-zA-Z0-9]*)\})?|\\$", re.DOTALL)


def what_is_wrong(text: str, *, native: bool) -> tuple[str, str] | None:
    """Return the code and a sentence about a pattern that is refused; None for one that is accepted.

    `native`: Java itself runs it; otherwise Python does.
    """
    if len(text) > MAX_REGEX:
        return "REGEX_TOO_COSTLY", f"A pattern has at most {MAX_REGEX} characters."
    try:
        if read(text, native=native).shape.too_costly:
            return "REGEX_TOO_COSTLY", _COSTLY
        if not native:
            compile_pattern(text)
    except (re.error, OverflowError, RecursionError) as wrong:
        return "INVALID_REGEX", f"This is not a pattern: {wrong}."
    return None


def check_regex(number: int) -> Check:
    """Check that argument `number` is a constant pattern that ends in reasonable time."""

    def check(arguments: Sequence[Expr], span: Span, report: Report) -> None:
        pattern = arguments[number]
        if pattern.wrong:
            return
        if not (pattern.is_constant and isinstance(pattern.value, str)):
            report.error("INVALID_REGEX", pattern.span, "The pattern must be a text constant.")
            return
        object_to_pattern(pattern.value, pattern.span, report)

    return check


def object_to_pattern(text: str, span: Span, report: Report) -> None:
    """Object to a pattern that Java cannot take, or should not. Raises: QueryError when they are too many."""
    report.patterns.add(text)
    if not report.accepted and sum(map(len, report.patterns)) > MAX_REGEXES:
        raise QueryError(
            "REGEX_TOO_COSTLY", span, f"The patterns of a query have at most {MAX_REGEXES} characters."
        )
    wrong = what_is_wrong(text, native=True)
    if wrong is not None:
        report.object_to(wrong[0], span, wrong[1])


def pattern_of(pattern: Expr) -> Pattern | None:
    """Read a constant pattern; None when it has errors, or is too long."""
    text = pattern.value
    try:
        return read(text, native=True) if isinstance(text, str) and len(text) <= MAX_REGEX else None
    except re.error:
        return None


_MAY_TAKE_NO_PART = re.compile(r"\||\)(?:[?*]|\{0)|\(\?<?!")
_FLAG_OF_COMMENTS = re.compile(r"\(\?[a-zA-Z]*x")


def where_group_matches(pattern: str, group: int) -> str | None:
    r"""Build a pattern that matches a text if this group takes part in the first match of `pattern` there.

    None where the group evidently always takes part. The matcher never backtracks into a lookahead, and its
    groups keep their texts: behind it, `\1` is found somewhere in the text if the group took part, and
    nowhere if it did not.
    """
    if group == 0 or not _MAY_TAKE_NO_PART.search(pattern) or _FLAG_OF_COMMENTS.search(pattern):
        return None
    closed = pattern + (r"\E" if pattern.rfind(r"\Q") > pattern.rfind(r"\E") else "")
    return rf"\A(?=[\s\S]*?(?:{closed}))[\s\S]*?\{group}"


def check_group(arguments: Sequence[Expr], span: Span, report: Report) -> None:
    """Check that the third argument of REGEXP_EXTRACT is the number of a group."""
    pattern = pattern_of(arguments[1])
    if len(arguments) < 3 or pattern is None or arguments[2].wrong:
        return
    number, groups = arguments[2].value, pattern.groups
    if not isinstance(number, int) or not 0 <= number <= groups:
        report.error(
            "INVALID_ARGUMENT",
            arguments[2].span,
            f"The group is a constant from 0, all that matches, to {groups}, the groups of the pattern.",
            instead(arguments[2].span, "0"),
        )


def check_replacement(arguments: Sequence[Expr], span: Span, report: Report) -> None:
    """Check that the third argument of REGEXP_REPLACE names only groups of the pattern."""
    pattern, replacement = pattern_of(arguments[1]), arguments[2]
    if pattern is None or replacement.wrong:
        return
    if not isinstance(replacement.value, str):
        report.error(
            "INVALID_ARGUMENT", replacement.span, "The replacement is written as a constant.", "'$1'"
        )
        return
    for reference in _REFERENCE.finditer(replacement.value):
        number, name = reference[1] or 0, reference[2]
        if reference[0] in ("\\", "$") or int(number) > pattern.groups or name not in (None, *pattern.names):
            report.error(
                "INVALID_ARGUMENT",
                replacement.span,
                f"In a replacement $0 to ${pattern.groups} are groups; a dollar of its own is written \\$.",
                "\\$",
            )
            return
