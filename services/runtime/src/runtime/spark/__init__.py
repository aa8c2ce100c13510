"""Everything that knows PySpark from inside.

session  the settings that decide what is computed
queries  what a query does not tell or let do by PySpark alone
warmup   what a start needs whatever the dagger, beside all else
home     a Spark home from which drivers start in half the time (AppCDS)
daemon   the parent of Python workers
jvm      the JVM that started this process
names    Java names that Py4J looks up
"""
