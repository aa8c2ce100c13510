"""MapGet(map, key): the value of a key, with its own type; NULL when there is none.

The fast form is native: `try_element_at`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession


def reference(values: Mapping[Any, Any] | None, key: Any) -> Any:
    """The value of one key."""
    return None if values is None or key is None else values.get(key)


def register(spark: SparkSession) -> None:
    """Nothing to bring: Spark has it."""
