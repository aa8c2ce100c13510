"""`python -m runtime.replay`: one attempt of a replay, without a JVM."""

from __future__ import annotations

import sys

from chassis.gc_tuning import tune_gc
from runtime.hidden_packages import hide_packages

if __name__ == "__main__":
    hide_packages()
    from runtime.replay.main import main

    tune_gc(100_000)  # entries live to the end: frequent collections would scan them in vain
    sys.exit(main(sys.argv[1:]))
