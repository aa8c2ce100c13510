"""ArrayOperate(list, steps, type): a list after the steps distinct and sorted, from left to right.

`int` and `long` are whole numbers, `float` and `double` DOUBLE, `other` anything. The fast form is native:
`array_distinct` and `array_sort`, which `daggersql.functions.own` writes into the query.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import SparkSession


def reference(items: Sequence[Any] | None, steps: str | None, kind: str | None) -> list[Any] | None:
    """The list after the steps."""
    if items is None or steps is None or kind is None:
        return None
    return transformed(typed(items, kind), steps.split("."))


def typed(items: Sequence[Any], kind: str) -> list[Any]:
    """The elements with the declared type; NULL for text that is no such number."""
    read: Callable[[Any], Any] | None = {"int": int, "long": int, "float": float, "double": float}.get(
        kind.lower()
    )
    return [item if read is None or item is None else _number(read, item) for item in items]


def _number(read: Callable[[Any], Any], item: Any) -> Any:
    try:
        return read(item)
    except ValueError:
        return None


def transformed(items: list[Any], steps: Sequence[str]) -> list[Any]:
    """The list after steps that keep it a list. All NaN are one value, greater than others; NULL is last."""
    for step in steps:
        items = sorted(items, key=order) if step in ("sorted", "sort") else _distinct(items)
    return items


def order(item: Any) -> tuple[bool, bool, Any]:
    """What an element sorts by."""
    unknown = item is None
    no_number = isinstance(item, float) and math.isnan(item)
    return unknown, no_number, 0 if unknown or no_number else item


def _distinct(items: list[Any]) -> list[Any]:
    first: dict[Any, Any] = {}
    for item in items:
        first.setdefault(order(item), item)
    return list(first.values())


def register(spark: SparkSession) -> None:
    """Nothing to bring: Spark has the steps."""
