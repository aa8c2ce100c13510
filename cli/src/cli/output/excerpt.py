"""The line of a query that a finding speaks of, with carets under the place."""

from collections.abc import Mapping
from typing import Any

from rich.cells import cell_len

WIDTH = 100
CUT = "…"


def excerpt(query: list[str], finding: Mapping[str, Any]) -> str | None:
    """Return the finding's line of the query, indented, with carets below; None where it has no place there.

    A long line is cut around the place. Tabs stay tabs, and a wide character has two carets, so that they
    line up; unprintable characters, and those that would move what follows, are shown as replacement
    characters.
    """
    line, column = finding.get("line"), finding.get("column")
    if not line or not column or line > len(query):
        return None
    text, first = query[line - 1], column - 1
    same_line = finding.get("end_line") in (None, line)
    last = max((finding.get("end_column") or 0) - 1 if same_line else len(text), first + 1)
    begin = max(first - WIDTH // 2, 0) if len(text) > WIDTH else 0
    end = min(begin + WIDTH, len(text))
    before, marked, after = (
        _printable(text[part])
        for part in (slice(begin, first), slice(first, min(last, end)), slice(last, end))
    )
    left, right = CUT if begin else "", CUT if end < len(text) else ""
    space = "".join("\t" if character == "\t" else " " * cell_len(character) for character in left + before)
    carets = "^" * max(cell_len(marked), 1)
    return f"    {left}{before}{marked}{after}{right}\n    {space}{carets}"


def _printable(text: str) -> str:
    return "".join(
        character if character.isprintable() or character == "\t" else "\N{REPLACEMENT CHARACTER}"
        for character in text
    )
