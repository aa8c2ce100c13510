"""Evaluate filters of JSON paths, and the functions at their ends.

As json-path 2.4 has it: a missing last name is null; a number on the left equals a text that reads as it; a
condition about something that it cannot be about lets nothing through.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from daggersql.functions.jsonsteps import (
    Comparison,
    Condition,
    Constant,
    Function,
    Inner,
    Junction,
    Number,
    Regex,
)
from runtime.values.featurerows import java_text

UNDEFINED = object()
"""Result of a path that leads nowhere."""
_LONGEST_DOUBLE = 18
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)


class MissingError(LookupError):
    """A path that leads to one place leads nowhere in this document, or its function has nothing to go by."""


class _CannotHoldError(Exception):
    """The operator does not know what to make of its sides."""


class Filter:
    """Conditions about the elements of one document.

    `follow` gives what an inner path leads to from an element, `UNDEFINED` for nothing; with True as its
    second argument, whether it leads anywhere.
    """

    def __init__(self, follow: Callable[[Inner, bool, Any], Any]) -> None:
        self._follow = follow

    def accepts(self, condition: Condition, element: Any) -> bool:
        """Tell whether an element passes."""
        try:
            return self._holds(condition, element)
        except _CannotHoldError:
            return False

    def _holds(self, condition: Condition, element: Any) -> bool:
        match condition:
            case Junction("not", (one,)):
                return not self._holds(one, element)
            case Junction(kind, conditions):
                return (all if kind == "all" else any)(
                    self._holds(condition, element) for condition in conditions
                )
            case Comparison("exists", Inner() as inner):
                return bool(self._follow(inner, True, element))
            case Comparison(operator, left, right):
                return _OPERATORS[operator](self._side(left, element), self._side(right, element))
        raise AssertionError(condition)

    def _side(self, side: Inner | Constant | Regex, element: Any) -> Any:
        match side:
            case Inner():
                return self._follow(side, False, element)
            case Constant(value):
                return value
            case Regex(pattern):
                return pattern
        raise AssertionError(side)


def apply_function(function: Function, holder: Any, parameters: Sequence[Any]) -> Any:
    """Apply a path's function to a value and its parameters. Raises `MissingError` where no number is."""
    if function.name in ("length", "size"):
        return Number(len(holder)) if isinstance(holder, list | dict) else None
    elements = holder if isinstance(holder, list) else []
    if function.name == "concat":
        return "".join(
            [element for element in elements if _is_text(element)]
            + [_text(parameter) for parameter in parameters]
        )
    numbers = [float(item) for item in (*elements, *parameters) if isinstance(item, Number)]
    if not numbers:
        raise MissingError(function.name)
    result = _OF_NUMBERS[function.name](numbers)
    return Number(java_text(result)) if math.isfinite(result) else None


def _deviation(numbers: Sequence[float]) -> float:
    total, count = sum(numbers), len(numbers)
    return math.sqrt(
        max(0.0, sum(number * number for number in numbers) / count - total * total / count / count)
    )


_OF_NUMBERS: dict[str, Callable[[Sequence[float]], float]] = {
    "sum": sum,
    "avg": lambda numbers: sum(numbers) / len(numbers),
    "min": min,
    "max": max,
    "stddev": _deviation,
}


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and not isinstance(value, Number)


def _decimal(number: Number) -> Decimal:
    """Read a number as json-path does: a fraction of up to 18 characters is a double."""
    if len(number) > _LONGEST_DOUBLE or not set(number) & set(".eE"):
        return Decimal(number)
    double = float(number)
    return Decimal(java_text(double)) if math.isfinite(double) else Decimal(number)


def _text(value: Any) -> str:
    match value:
        case Number():
            return str(_decimal(value))
        case str():
            return value
        case bool():
            return str(value).lower()
    return ""


def _equal(left: Any, right: Any) -> bool:
    match left:
        case Number():
            if isinstance(right, str) and not isinstance(right, Number):
                right = Number(right) if _DECIMAL.fullmatch(right) else None
                return right is not None and _decimal(left) == Decimal(right)
            return isinstance(right, Number) and _decimal(left) == _decimal(right)
        case str():
            return isinstance(right, str) and left == _text(right)
        case list() | dict():
            return _same(left, right)
        case bool() | None:
            return left is right
    return False


def _same(left: Any, right: Any) -> bool:
    """Tell whether two values are one, down to their parts: 1 and 1.0 are not."""
    if type(left) is not type(right):
        return False
    match left:
        case list():
            return len(left) == len(right) and all(map(_same, left, right))
        case dict():
            return left.keys() == right.keys() and all(_same(left[name], right[name]) for name in left)
        case Number():
            whole = [not set(number) & set(".eE") for number in (left, right)]
            return whole[0] == whole[1] and _decimal(left) == _decimal(right)
    return bool(left == right)


def _order_by(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def is_ordered(left: Any, right: Any) -> bool:
        if isinstance(left, Number) and isinstance(right, Number):
            return compare(_decimal(left), _decimal(right))
        # Java compares texts by their UTF-16 units.
        return _is_text(left) and _is_text(right) and compare(_units(left), _units(right))

    return is_ordered


def _units(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")


def _elements(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    if isinstance(value, dict):
        return []
    raise _CannotHoldError


def _in(left: Any, right: Any) -> bool:
    return any(_equal(left, element) for element in _elements(right))


def _subset(left: Any, right: Any) -> bool:
    within = _elements(right)
    if not isinstance(right, list):
        return False
    elements = _elements(left)
    return isinstance(left, list) and all(any(_equal(element, one) for one in within) for element in elements)


def _contains(left: Any, right: Any) -> bool:
    if _is_text(left) and _is_text(right):
        return right in left
    return isinstance(left, list) and any(_equal(right, item) for item in left)


def _has_size(left: Any, right: Any) -> bool:
    length = len(left) if isinstance(left, list) else len(_units(left)) // 2 if _is_text(left) else None
    return isinstance(right, Number) and length == int(_decimal(right))


def _is_empty(left: Any, right: Any) -> bool:
    if not _is_text(left) and not isinstance(left, list | dict):
        return False
    if not isinstance(right, bool):
        raise _CannotHoldError
    return (not left) == right


def _matches(left: Any, right: Any) -> bool:
    pattern, text = (left, right) if isinstance(left, re.Pattern) else (right, left)
    return pattern.fullmatch(_text(text)) is not None


_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": _equal,
    "!=": lambda left, right: not _equal(left, right),
    "===": lambda left, right: _kind(left) is _kind(right) and _equal(left, right),
    "!==": lambda left, right: not (_kind(left) is _kind(right) and _equal(left, right)),
    "<": _order_by(lambda left, right: left < right),
    "<=": _order_by(lambda left, right: left <= right),
    ">": _order_by(lambda left, right: left > right),
    ">=": _order_by(lambda left, right: left >= right),
    "=~": _matches,
    "in": _in,
    "nin": lambda left, right: not _in(left, right),
    "subsetof": _subset,
    "contains": _contains,
    "size": _has_size,
    "empty": _is_empty,
}


def _kind(value: Any) -> type:
    return list if isinstance(value, dict) else type(value)
