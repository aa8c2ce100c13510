"""Compile Java in Spark's JVM, where a class has to replace one of Spark or Hadoop.

Spark compiles generated code with the same compiler, so it is always there. This needs no jar to build and
ship, and no setting that remote executors would get and could not load.
"""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def compile_java(jvm: Any, source: str) -> Any:
    """Compile `source`, and return the class loader of its classes, which sees all classes of Spark.

    Cached by source: Py4J confuses two classes of one name.
    """
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(source)
    return compiler.getClassLoader()
