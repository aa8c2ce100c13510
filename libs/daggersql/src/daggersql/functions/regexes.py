"""Patterns of text: Java's, which Spark runs. What may take exponential time is refused, and so is what Java
would not read: it would end the job.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from daggersql.findings import Report, Span
from daggersql.functions.signature import Check
from daggersql.limits import MAX_REGEX
from daggersql.tree import Expr

_QUANTIFIED_GROUP = re.compile(r"\((?:[^()\\]|\\.)*(?:[+*]|\{\d+,\d*\})[^()]*\)(?:[+*]|\{\d+,\d*\})")
_ALTERNATIVES = re.compile(r"\((?:[^()\\]|\\.)*\|(?:[^()\\]|\\.)*\)(?:[+*]|\{\d+,\d*\})")
# Python's own: named groups, conditions, comments, flags in the middle.
_PYTHONS = re.compile(r"\(\?(?:P|\(|#)|\\[ZN]\{?")
# Java's own, told to Python in its words so that it can look at the rest.
_JAVAS = (
    (re.compile(r"\\[pP]\{\^?\w+\}"), r"\\w"),
    (re.compile(r"\(\?<(?=[A-Za-z])"), "(?P<"),
    (re.compile(r"\\[hRX]"), r"\\s"),
)
_REFERENCE = re.compile(r"\\.|\$(\d)?|\\$", re.DOTALL)


def compiled(text: str) -> re.Pattern[str]:
    """The pattern as Python has it. Raises `re.error` for what Java does not read either."""
    if _PYTHONS.search(text):
        raise re.error("Java does not know this construct")
    for pattern, other in _JAVAS:
        text = pattern.sub(other, text)
    return re.compile(text)


def check_regex(number: int) -> Check:
    """A check that argument `number` is a constant pattern that ends in reasonable time."""

    def check(arguments: Sequence[Expr], place: Span, report: Report) -> None:
        pattern = arguments[number]
        if pattern.wrong:
            return
        if not (pattern.is_constant and isinstance(pattern.value, str)):
            report.error("INVALID_REGEX", pattern.span, "The pattern must be a text constant.")
            return
        text = pattern.value
        if len(text) > MAX_REGEX or _QUANTIFIED_GROUP.search(text) or _ALTERNATIVES.search(text):
            report.error(
                "REGEX_TOO_COSTLY",
                pattern.span,
                "This pattern may take exponential time: do not repeat a group that repeats itself.",
            )
            return
        try:
            compiled(text)
        except (re.error, OverflowError, RecursionError) as wrong:
            report.error("INVALID_REGEX", pattern.span, f"This is not a pattern: {wrong}.")

    return check


def groups_of(pattern: Expr) -> int | None:
    """How many groups a constant pattern has; None when it is no pattern."""
    try:
        return compiled(pattern.value).groups if isinstance(pattern.value, str) else None
    except (re.error, OverflowError, RecursionError):
        return None


def check_group(arguments: Sequence[Expr], place: Span, report: Report) -> None:
    """The third argument of REGEXP_EXTRACT is the number of a group."""
    groups = groups_of(arguments[1])
    if len(arguments) < 3 or groups is None or arguments[2].wrong:
        return
    number = arguments[2].value
    if not isinstance(number, int) or not 0 <= number <= groups:
        report.error(
            "INVALID_ARGUMENT",
            arguments[2].span,
            f"The group is a constant from 0, all that matches, to {groups}, the groups of the pattern.",
            "0",
        )


def check_replacement(arguments: Sequence[Expr], place: Span, report: Report) -> None:
    """The third argument of REGEXP_REPLACE names groups that there are."""
    groups, replacement = groups_of(arguments[1]), arguments[2]
    if groups is None or replacement.wrong:
        return
    if not isinstance(replacement.value, str):
        report.error(
            "INVALID_ARGUMENT", replacement.span, "The replacement is written as a constant.", "'$1'"
        )
        return
    for found in _REFERENCE.finditer(replacement.value):
        if found[0] in ("\\", "$") or (found[1] and int(found[1]) > groups):
            report.error(
                "INVALID_ARGUMENT",
                replacement.span,
                f"In a replacement $0 to ${groups} are groups; a dollar of its own is written \\$.",
                "\\$",
            )
            return
