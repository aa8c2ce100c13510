"""Spark's properties as an administrator's file sets them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

OF_EXECUTORS: Final = frozenset(
    {
        "spark.cores.max",
        "spark.dynamicAllocation.enabled",
        "spark.executor.cores",
        "spark.executor.instances",
        "spark.executor.memory",
    }
)
"""Those that say how many executors an application has, and of which size."""
_NAME: Final = re.compile(r"^[ \t]*([^\s=:#!][^\s=:]*)", re.MULTILINE)


def read_names(file: Path | None) -> frozenset[str]:
    """Read which properties a file sets, in the form of `spark-defaults.conf`. Raises: OSError."""
    return frozenset(_NAME.findall(file.read_text()) if file else ())
