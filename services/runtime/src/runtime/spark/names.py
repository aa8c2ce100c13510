"""Look up each Java name only once.

Py4J asks the JVM for every part of `jvm.org.apache.spark.SparkConf`, each time it is written, and the JVM
searches the 200 jars of Spark for each part that is not a class. That was a third of what the JVM did in a
small batch (`bench/idle.py`), and a fifth of a second of a start.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

from py4j.java_gateway import JavaPackage, JVMView


def remember() -> None:
    """Make Py4J cache the classes and packages that it finds. Idempotent."""
    for owner in (JVMView, JavaPackage):
        if not hasattr(owner.__getattr__, "__wrapped__"):
            owner.__getattr__ = _cache_attributes(owner.__getattr__)


def _cache_attributes(look_up: Any) -> Any:
    @wraps(look_up)
    def looked_up(owner: Any, name: str) -> Any:
        java_object = owner.__dict__[name] = look_up(owner, name)
        return java_object

    return looked_up
