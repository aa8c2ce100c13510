"""The garbage collector of a process whose objects come and go in masses."""

import subprocess
import sys

LIFE = """
import gc
from chassis.gc_tuning import tune_gc

tune_gc(100_000)
before = gc.get_stats()[0]["collections"]
messages = [[] for _ in range(50_000)]
looks = gc.get_stats()[0]["collections"] - before
kept = gc.get_freeze_count()
tune_gc(100_000)
print(gc.isenabled(), looks, kept > 100, gc.get_freeze_count() == kept)
"""


def test_masses_of_messages_are_not_looked_at_and_what_stays_is_set_aside_once() -> None:
    done = subprocess.run([sys.executable, "-c", LIFE], capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["True", "0", "True", "True"]
