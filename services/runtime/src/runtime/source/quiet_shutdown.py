"""End the processes that start a stream without a trace in the log, when Spark has no more use for them.

Spark hangs up. PySpark takes that for an error, tries to tell Spark of it, and prints that nobody listens: a
trace in driver.log at the end of every launch, and whenever a process had nothing to do for a minute.
"""

from __future__ import annotations

import signal
import sys


def expect() -> None:
    """Prepare for Spark's hanging up. Call it in such a process before; anywhere else it changes nothing."""
    if sys.argv[-1].startswith("pyspark.sql.worker."):
        # They have no connection but Spark's: its end is theirs.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
