r"""Split(text, pattern): the parts between the matches of a regular expression, as Java's String.split.

Empty parts at the end are left out. Never NULL: an empty list for NULL. The fast form is native: Spark's
`split` is Java's, but keeps the empty parts, which the query takes off. As in Java, \d, \w, \s and (?i) mean
ASCII, and what matches nothing at all also splits inside of characters beyond U+FFFF.
"""

from __future__ import annotations

import re

from pyspark.sql import SparkSession


def reference(text: str | None, pattern: str | None) -> list[str]:
    """The parts of one text."""
    if text is None or pattern is None:
        return []
    parts, begin = [], 0
    for found in re.finditer(pattern, text, re.ASCII):
        if found.end() == 0:
            continue  # an empty match at the very beginning splits nothing off
        parts.append(text[begin : found.start()])
        begin = found.end()
    if not parts:
        return [text]
    parts.append(text[begin:])
    while parts and not parts[-1]:
        parts.pop()
    return parts


def register(spark: SparkSession) -> None:
    """Nothing to bring: Spark has it."""
