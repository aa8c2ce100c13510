"""Runs one launch of one dagger: `spark-submit … __main__.py --spec RUN_DIR/spec.pb --generation N`.

A spare waits for one: `spark-submit … __main__.py --spare PID:START_TICKS`. What previews daggers is
`spark-submit … __main__.py --preview PID:START_TICKS`. An attempt of a replay that computes
the query is `spark-submit … __main__.py --replay --run-dir DIR …`.
"""

import os
import sys

from runtime.hidden_packages import hide_packages
from runtime.spark import session as spark
from runtime.spark import warmup

if __name__ == "__main__":
    hide_packages()
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # noqa: TID251 - else, for --help say, there is no JVM yet
    started = warmup.begin().result if submitted else spark.start
    # These imports take half a second, in which Spark starts.
    from runtime.launch import main

    if "--preview" in sys.argv:
        from runtime.preview import main as preview

        main.leave(preview.main(sys.argv[1:], started))
    if "--replay" in sys.argv:
        from runtime.replay import computing

        main.leave(computing.main(sys.argv[1:], started))
    main.leave(main.main(sys.argv[1:], started))
