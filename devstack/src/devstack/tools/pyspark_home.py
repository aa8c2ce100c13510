"""Find the installed PySpark without importing it, which takes long."""

import importlib.util
from pathlib import Path


def find_pyspark() -> Path:
    """Return the folder of the installed PySpark, which is a distribution of Spark."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0])
