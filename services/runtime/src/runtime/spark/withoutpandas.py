"""Let PySpark map batches of Arrow without pandas, which our processes hide (`runtime.hidden_packages`).

`mapInArrow` asks for pandas before it makes the function, for it shares that step with `mapInPandas`, and
uses nothing of it: https://github.com/apache/spark/blob/v4.1.0/python/pyspark/sql/pandas/map_ops.py
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.pandas import functions


def leave() -> None:
    """Stop PySpark from asking for pandas there from now on. Idempotent."""
    module: Any = functions
    module.require_minimum_pandas_version = _require_nothing


def _require_nothing() -> None:
    """Take the place of PySpark's check of pandas' version."""
