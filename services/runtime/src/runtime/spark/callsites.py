"""Where a job comes from is what Spark's query says of itself, from its start on.

PySpark says it anew for each job that Python asks for, and afterwards takes back what was said before it.
From then on Spark looks for it, through the stack of the query's thread, for each step of each batch.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from pyspark.sql.classic import dataframe


def leave() -> None:
    """PySpark says nothing from now on; again changes nothing."""
    module: Any = dataframe
    module.SCCallSiteSync = nullcontext
