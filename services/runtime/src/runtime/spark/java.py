"""Java that Spark's JVM is given, where a class has to be another than Spark's or Hadoop's.

Spark compiles what it generates with the same compiler, so it is there, and loaded sooner or later. No jar
that somebody must build and ship, and no setting that executors elsewhere would be given and could not load.
"""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def compiled(jvm: Any, source: str) -> Any:
    """The class loader of the classes in `source`, which sees all that Spark sees.

    It is the same for the same source: Py4J takes two classes of one name for one.
    """
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(source)
    return compiler.getClassLoader()
