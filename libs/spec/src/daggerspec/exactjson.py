"""JSON whose numbers come out as they went in.

A fraction that a float writes as it stood is a float, any other a Decimal: one of a DECIMAL column has all
its digits. Whole numbers are whole, however large.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any


def loads(text: str | bytes) -> Any:
    """Parse a JSON text. Raises: ValueError."""
    return json.loads(text, parse_float=_fraction)


def dumps(value: Any, *, indent: int | None = None) -> str:
    """Format a value as JSON, as `json.dumps` writes it; what has no JSON becomes text."""
    return "".join(_pieces(value, indent, "\n"))


def _fraction(text: str) -> float | Decimal:
    number = float(text)
    return number if repr(number) == text else Decimal(text)


def _pieces(value: Any, indent: int | None, line: str) -> Iterator[str]:
    """Yield the pieces of a value's text; `line` begins a line at its depth."""
    inner = line + " " * (indent or 0)
    begin, between, end = ("", ", ", "") if indent is None else (inner, f",{inner}", line)
    match value:
        case Decimal():
            yield str(value)
        case Mapping() if value:
            for number, (key, part) in enumerate(value.items()):
                yield between if number else f"{{{begin}"
                yield f"{_scalar(str(key))}: "
                yield from _pieces(part, indent, inner)
            yield f"{end}}}"
        case list() | tuple() if value:
            for number, part in enumerate(value):
                yield between if number else f"[{begin}"
                yield from _pieces(part, indent, inner)
            yield f"{end}]"
        case _:
            yield _scalar(value)


def _scalar(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
