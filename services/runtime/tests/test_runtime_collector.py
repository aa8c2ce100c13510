"""The garbage collector of a worker."""

import subprocess
import sys

LIFE = """
import gc
from runtime.collector import relieve

relieve()
before = gc.get_stats()[0]["collections"]
messages = [[] for _ in range(50_000)]
looks = gc.get_stats()[0]["collections"] - before
kept = gc.get_freeze_count()
relieve()
print(gc.isenabled(), looks, kept > 1000, gc.get_freeze_count() == kept)
"""


def test_masses_of_messages_are_not_looked_at_and_what_a_worker_keeps_is_set_aside_once() -> None:
    done = subprocess.run([sys.executable, "-c", LIFE], capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["True", "0", "True", "True"]
