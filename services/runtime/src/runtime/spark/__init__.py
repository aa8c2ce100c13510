"""All code that uses internals of PySpark.

session  creates the SQL session, with the settings that decide what is computed
queries  reads and controls a streaming query beyond PySpark's own API
warmup   starts in parallel what every driver needs
home     builds a Spark home from which drivers start in half the time (AppCDS)
daemon   is the parent of Python workers
jvm      watches the JVM that started this process
names    caches Java names that Py4J looks up
"""
