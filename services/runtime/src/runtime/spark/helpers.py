"""End the processes that Spark only needs to start a stream."""

from __future__ import annotations

from pyspark.sql import SparkSession

_MODULES = {"pyspark.sql.worker.create_data_source", "pyspark.sql.worker.plan_data_source_read"}


def end(session: SparkSession) -> None:
    """End these processes: each takes 25 MiB as the parent of ended workers.

    Spark starts them again if needed.
    """
    context = session.sparkContext
    jvm, environment = context._jvm, context._jsc.sc().env()  # noqa: SLF001 - Spark has no setting for it
    # by reflection: for a method call Py4J resolves the classes of all methods, some of which are missing
    field = jvm.java.lang.Class.forName("org.apache.spark.SparkEnv").getDeclaredField("pythonWorkers")  # type: ignore[union-attr]
    field.setAccessible(True)
    factories = field.get(environment).iterator()
    while factories.hasNext():
        factory = factories.next()
        if factory._1().workerModule() in _MODULES:  # noqa: SLF001 - Scala's name for the first of a pair
            factory._2().stop()  # noqa: SLF001 - as above
