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
_LINE: Final = re.compile(r"^[ \t]*([^\s=:#!][^\s=:]*)[ \t]*[=:]?[ \t]*(.*?)[ \t]*$", re.MULTILINE)


def read(file: Path | None) -> dict[str, str]:
    """Read the properties that a file sets, in the form of `spark-defaults.conf`. Raises: OSError."""
    return dict(_LINE.findall(file.read_text()) if file else ())
