"""Summaries of alerts: texts in which {column} and {column:.1%} stand for values of a row.

    parse    a template -> its parts, or TemplateError with the place
    render   parts and values -> one line for a person

A form behind a colon is `,`, then `.2f`, `.1%` or `.1e` with any number of digits, or `d`; each may be left
out. `{{` and `}}` are braces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

MOST: Final = 500
"""Characters of a summary."""
_VALUE: Final = 200
_FORM: Final = re.compile(r",?(?:(?:\.\d{1,2})?[f%e]|d)?")
_NUMBERS: Final = (int, float)
_MISSING: Final = "unknown"


class TemplateError(ValueError):
    """Template that cannot be read; `offset` is the place of the mistake."""

    def __init__(self, problem: str, offset: int) -> None:
        super().__init__(problem)
        self.problem, self.offset = problem, offset


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A place for a value."""

    column: str
    form: str
    offset: int
    """Offset of the column's name in the template."""


Part: TypeAlias = str | Placeholder


def parse(template: str) -> tuple[Part, ...]:
    """Parse a template. Raises: TemplateError."""
    return tuple(_parts(template))


def _parts(template: str) -> Iterator[Part]:
    offset = 0
    while offset < len(template):
        character = template[offset]
        if template[offset : offset + 2] in ("{{", "}}"):
            yield character
            offset += 2
        elif character == "}":
            raise TemplateError("this } closes nothing: a brace is written }}", offset)
        elif character == "{":
            end = template.find("}", offset)
            if end < 0:
                raise TemplateError("this { is not closed: a brace is written {{", offset)
            column, _, form = template[offset + 1 : end].partition(":")
            if not column or "{" in column:
                raise TemplateError("a column's name stands between { and }", offset)
            if not _FORM.fullmatch(form):
                problem = f"{form} is no form: write it like .1%, .2f or ,"
                raise TemplateError(problem, offset + len(column) + 2)
            yield Placeholder(column, form, offset + 1)
            offset = end + 1
        else:
            ends = [end for brace in "{}" if (end := template.find(brace, offset)) >= 0]
            end = min(ends, default=len(template))
            yield template[offset:end]
            offset = end


def columns(parts: Sequence[Part]) -> tuple[str, ...]:
    """List the columns that a template names, each once."""
    return tuple(dict.fromkeys(part.column for part in parts if isinstance(part, Placeholder)))


def render(parts: Sequence[Part], values: Mapping[str, Any]) -> str:
    """Fill a template by the values of a row, as one line of at most MOST characters."""
    texts = (part if isinstance(part, str) else _format(part, values.get(part.column)) for part in parts)
    return one_line("".join(texts))


def _format(part: Placeholder, value: Any) -> str:
    if value is None:
        return _MISSING
    if part.form and isinstance(value, _NUMBERS) and not isinstance(value, bool):
        whole = part.form.endswith("d")
        return format(round(value) if whole else value, part.form)
    return text_of(value)


def text_of(value: Any) -> str:
    """Format a value of a row for a person."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6g}" if abs(value) < 1e15 else f"{value:g}"
    text = str(value)
    return text if len(text) <= _VALUE else text[: _VALUE - 1] + "…"


def one_line(text: str) -> str:
    """Make one line of a text, without characters that control, or turn the direction of writing."""
    printable = "".join(character if character.isprintable() else " " for character in text)
    line = " ".join(printable.split())
    return line if len(line) <= MOST else line[: MOST - 1] + "…"
