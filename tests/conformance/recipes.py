"""Expands the `recipe` of a refused text that is too large to write out."""

from collections.abc import Mapping
from typing import Any


def expand(recipe: Mapping[str, Any]) -> str:
    """The text: prefix + unit * count (joined by sep) + middle + close * count + suffix.

    In `unit`, {i} is the running number from 0 and {n} the next one.
    """
    unit: str = recipe["unit"]
    count: int = recipe["count"]
    units = (unit.replace("{i}", str(i)).replace("{n}", str(i + 1)) for i in range(count))
    body = recipe.get("sep", "").join(units if "{" in unit else [unit] * count)
    return "".join(
        [
            recipe.get("prefix", ""),
            body,
            recipe.get("middle", ""),
            recipe.get("close", "") * count,
            recipe.get("suffix", ""),
        ]
    )
