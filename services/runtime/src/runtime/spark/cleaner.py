"""Let Spark's context cleaner block until there is something to clean, instead of polling ten times a second.

It takes unreachable references from a queue of the JVM with a timeout of 0.1 s, for which there is no
setting. Waking up for nothing is a twentieth of a light dagger's cost.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from runtime.spark.java import compile_java

_NAME = "PatientQueue"
# a reference is still taken at once; only the timeout is longer
_SOURCE = f"""
import java.lang.ref.Reference;
import java.lang.ref.ReferenceQueue;

public class {_NAME} extends ReferenceQueue {{
  public Reference remove(long timeout) throws InterruptedException {{
    return super.remove(100 * timeout);
  }}
}}
"""


def wait_patiently(session: SparkSession) -> None:
    """Replace the cleaner's queue; call it before there is anything to clean. Idempotent."""
    jvm: Any = session._jvm  # noqa: SLF001 - Spark has no setting for it
    option = session.sparkContext._jsc.sc().cleaner()  # noqa: SLF001 - as above
    if option.isEmpty():  # an administrator has disabled the cleaner
        return
    cleaner = option.get()
    field = jvm.java.lang.Class.forName("org.apache.spark.ContextCleaner").getDeclaredField("referenceQueue")
    field.setAccessible(True)
    if field.get(cleaner).getClass().getName() != _NAME:
        field.set(cleaner, compile_java(jvm, _SOURCE).loadClass(_NAME).newInstance())
