"""ListContains(list, item): whether a list has the item. Never NULL.

The fast form is native: `array_contains`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from runtime.values.registration import Registration


def reference(items: Sequence[Any] | None, item: Any) -> bool:
    """Tell whether one of the items is this one. NaN equals NaN, as in SQL."""
    if items is None or item is None:
        return False
    if isinstance(item, float) and math.isnan(item):
        return any(isinstance(item, float) and math.isnan(item) for item in items)
    return any(other is not None and other == item for other in items)


def register(session: Registration) -> None:
    """Bring nothing: Spark has it."""
