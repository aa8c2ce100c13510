"""ArrayOperate(list, steps, type): a list after steps such as distinct and sorted, from left to right.

Types and steps are those of `daggersql.functions.steps`. The fast form is native: `array_distinct` and
`array_sort`, which `daggersql.functions.own` writes into the query.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from daggersql.functions.steps import KINDS, parse
from daggersql.ir.types import BIGINT
from runtime.values.registration import Registration


def reference(items: Sequence[Any] | None, steps: str | None, kind: str | None) -> list[Any] | None:
    """Apply the steps to one list; None for a NULL argument."""
    if items is None or steps is None or kind is None:
        return None
    return apply_steps(convert_elements(items, kind), parse(steps))


def convert_elements(items: Sequence[Any], kind: str) -> list[Any]:
    """Convert the elements to the declared type; text that is no such number becomes NULL."""
    wanted = KINDS[kind.lower()]
    read: Callable[[Any], Any] = int if wanted == BIGINT else float
    return [item if wanted is None or item is None else _number(read, item) for item in items]


def _number(read: Callable[[Any], Any], item: Any) -> Any:
    try:
        return read(item)
    except ValueError:
        return None


def apply_steps(items: list[Any], steps: Sequence[str]) -> list[Any]:
    """Apply steps that keep the list a list. All NaN are one value, greater than others; NULL is last."""
    for step in steps:
        match step:
            case "sorted" | "sort":
                items = sorted(items, key=order)
            case "distinct":
                items = _distinct(items)
            case "asLongStream" | "asDoubleStream":
                items = convert_elements(items, "long" if step == "asLongStream" else "double")
    return items


def order(item: Any) -> tuple[bool, bool, Any]:
    """Return an element's sort key: (is NULL, is NaN, value)."""
    unknown = item is None
    no_number = isinstance(item, float) and math.isnan(item)
    return unknown, no_number, 0 if unknown or no_number else item


def _distinct(items: list[Any]) -> list[Any]:
    first: dict[Any, Any] = {}
    for item in items:
        # Messages are dicts, which have no hash.
        first.setdefault(repr(item) if isinstance(item, dict) else order(item), item)
    return list(first.values())


def register(session: Registration) -> None:
    """Bring nothing: Spark has the steps."""
