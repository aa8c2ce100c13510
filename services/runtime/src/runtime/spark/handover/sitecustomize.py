"""Imported by every Python that Spark starts for a driver, before all else: see `runtime.spark.planners`.

The one that is to plan a stream hands its connection to the driver's Python and becomes `cat`, which takes no
memory and ends with the JVM, whose pipe it reads. The others go on.
"""

import json
import os
import sys

_MODULE = "pyspark.sql.streaming.python_streaming_source_runner"
_ASK = ("PYTHON_WORKER_FACTORY_SOCK_PATH", "PYTHON_WORKER_FACTORY_PORT", "PYTHON_WORKER_FACTORY_SECRET")

if sys.orig_argv[-1] == _MODULE and "DAGGERS_PLANNERS" in os.environ:  # noqa: TID251 - handed on by Spark
    connection = [os.environ.get(name) for name in _ASK]  # noqa: TID251 - as above
    with open(os.environ["DAGGERS_PLANNERS"], "a", encoding="utf-8") as planners:  # noqa: PTH123, TID251 - loads less
        planners.write(json.dumps([*connection, os.getpid()]) + "\n")
    os.execvp("cat", ["cat"])  # noqa: S606 - whichever there is
