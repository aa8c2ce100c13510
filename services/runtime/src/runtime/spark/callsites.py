"""Keep the call site of a query's jobs as Spark sets it at the start of the query.

PySpark sets another one for each job that Python requests, and clears it afterwards. From then on Spark would
search the stack of the query's thread for it, at each step of each batch.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from pyspark.sql.classic import dataframe


def leave() -> None:
    """Stop PySpark from setting call sites from now on. Idempotent."""
    module: Any = dataframe
    module.SCCallSiteSync = nullcontext
