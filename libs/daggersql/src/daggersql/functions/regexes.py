"""Patterns of text: Java's, which Spark runs. What may take exponential time is refused, and so is what Java
would not read: it would end the job.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from daggersql.findings import Report, Span, instead
from daggersql.functions.javaregexes import compiled
from daggersql.functions.signature import Check
from daggersql.ir.expr import Expr
from daggersql.limits import MAX_REGEX

_QUANTIFIED_GROUP = re.compile(r"\((?:[^()\\]|\\.)*(?:[+*]|\{\d+,\d*\})[^()]*\)(?:[+*]|\{\d+,\d*\})")
_ALTERNATIVES = re.compile(r"\((?:[^()\\]|\\.)*\|(?:[^()\\]|\\.)*\)(?:[+*]|\{\d+,\d*\})")
_REFERENCE = re.compile(r"\\.|\$(?:(\d)|\{([a-zA-Z][a-zA-Z0-9]*)\})?|\\$", re.DOTALL)
_QUOTED = re.compile(r"(?<!\\)\\Q(.*?)(?:\\E|\Z)", re.DOTALL)


def what_is_wrong(text: str, *, native: bool) -> tuple[str, str] | None:
    """The code and a sentence about a pattern that cannot be taken; None for one that can.

    `native` for a pattern that Java itself runs; otherwise Python does.
    """
    plain = _QUOTED.sub(lambda quoted: re.escape(quoted[1]), text)
    if len(text) > MAX_REGEX or _QUANTIFIED_GROUP.search(plain) or _ALTERNATIVES.search(plain):
        return (
            "REGEX_TOO_COSTLY",
            "This pattern may take exponential time: do not repeat a group that repeats itself.",
        )
    try:
        compiled(text, native=native)
    except (re.error, OverflowError, RecursionError) as wrong:
        return "INVALID_REGEX", f"This is not a pattern: {wrong}."
    return None


def check_regex(number: int) -> Check:
    """A check that argument `number` is a constant pattern that ends in reasonable time."""

    def check(arguments: Sequence[Expr], place: Span, report: Report) -> None:
        pattern = arguments[number]
        if pattern.wrong:
            return
        if not (pattern.is_constant and isinstance(pattern.value, str)):
            report.error("INVALID_REGEX", pattern.span, "The pattern must be a text constant.")
            return
        wrong = what_is_wrong(pattern.value, native=True)
        if wrong is not None:
            report.object_to(wrong[0], pattern.span, wrong[1])

    return check


def pattern_of(pattern: Expr) -> re.Pattern[str] | None:
    """A constant pattern with its groups; None when it is no pattern."""
    try:
        return compiled(pattern.value, native=True) if isinstance(pattern.value, str) else None
    except (re.error, OverflowError, RecursionError):
        return None


def check_group(arguments: Sequence[Expr], place: Span, report: Report) -> None:
    """The third argument of REGEXP_EXTRACT is the number of a group."""
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


def check_replacement(arguments: Sequence[Expr], place: Span, report: Report) -> None:
    """The third argument of REGEXP_REPLACE names groups that there are."""
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
        if (
            reference[0] in ("\\", "$")
            or int(number) > pattern.groups
            or name not in (None, *pattern.groupindex)
        ):
            report.error(
                "INVALID_ARGUMENT",
                replacement.span,
                f"In a replacement $0 to ${pattern.groups} are groups; a dollar of its own is written \\$.",
                "\\$",
            )
            return
