"""Runs one launch of one dagger: `spark-submit … __main__.py --spec RUN_DIR/spec.pb --generation N`."""

import os
import sys

from runtime import warmup

if __name__ == "__main__":
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # noqa: TID251 - not for --help: a JVM of spark-submit's is there
        warmup.begin()
    from runtime import launch  # these imports take half a second, in which Spark starts

    launch.leave(launch.main(sys.argv[1:]))
