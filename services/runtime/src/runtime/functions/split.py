"""Split(text, pattern): the parts between the matches of a regular expression, as Java's String.split.

Empty parts at the end are left out; an empty pattern is a space. Never NULL: an empty list for NULL. The
fast form is native: Spark's `split` is Java's, but keeps the empty parts, which the query takes off. What
matches nothing also splits inside of characters beyond U+FFFF there.
"""

from __future__ import annotations

from daggersql.functions.javaregexes import compile_pattern, matches
from runtime.values.registration import Registration


def reference(text: str | None, pattern: str | None) -> list[str]:
    """Split one text; an empty list for NULL."""
    if text is None or pattern is None:
        return []
    parts, begin = [], 0
    for match in matches(compile_pattern(pattern or " "), text):
        if match.end() == 0:
            continue  # an empty match at the very beginning splits nothing off
        parts.append(text[begin : match.start()])
        begin = match.end()
    if not parts:
        return [text]
    parts.append(text[begin:])
    while parts and not parts[-1]:
        parts.pop()
    return parts


def register(session: Registration) -> None:
    """Bring nothing: Spark has it."""
