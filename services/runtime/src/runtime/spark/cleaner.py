"""Spark's context cleaner waits until there is something to clean up, where it would look ten times a second.

It takes what nobody refers to any more from a queue of the JVM, a tenth of a second at a time; that pause is
no setting. A thread that wakes up for nothing is a twentieth of what a light dagger costs.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from runtime.spark.java import compiled

_NAME = "PatientQueue"
# What comes is taken at once, as before: only who waits for nothing waits longer.
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
    """To be called before there is anything to clean up; again changes nothing."""
    jvm: Any = session._jvm  # noqa: SLF001 - Spark has no setting for it
    kept = session.sparkContext._jsc.sc().cleaner()  # noqa: SLF001 - as above
    if kept.isEmpty():  # an administrator's setting says that nothing is cleaned up
        return
    cleaner = kept.get()
    field = jvm.java.lang.Class.forName("org.apache.spark.ContextCleaner").getDeclaredField("referenceQueue")
    field.setAccessible(True)
    if field.get(cleaner).getClass().getName() != _NAME:
        field.set(cleaner, compiled(jvm, _SOURCE).loadClass(_NAME).newInstance())
