"""ArrayAggregate(list, steps, type): one value made of a list, after steps of ArrayOperate if asked for.

The last step makes the value (`daggersql.functions.steps.ENDS`). Sums of whole numbers have 64 bits, an empty
list of numbers gives 0. The fast form is native, which `daggersql.functions.own` writes into the query.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from daggersql.functions.steps import parse
from runtime.functions.arrayoperate import apply_steps, convert_elements, order
from runtime.values.registration import Registration

_LARGEST = 2**63


def reference(items: Sequence[Any] | None, steps: str | None, kind: str | None) -> Any:
    """Aggregate one list to one value; None for a NULL argument, and for a sum beyond 64 bits."""
    if items is None or steps is None or kind is None:
        return None
    *before, last = parse(steps)
    elements = apply_steps(convert_elements(items, kind), before)
    values = [item for item in elements if item is not None]
    empty = None if kind.lower() == "other" or "boxed" in before else 0
    match last:
        case "count":
            return len(elements)
        case "findFirst" | "findAny":
            return elements[0] if elements else empty
        case "toArray":
            return elements
        case "sum":
            total = sum(values)
            return total if isinstance(total, float) or -_LARGEST <= total < _LARGEST else None
        case "average":
            return sum(values) / len(values) if values else 0.0
    return (min if last == "min" else max)(values, key=order, default=empty)


def register(session: Registration) -> None:
    """Bring nothing: Spark has the steps."""
