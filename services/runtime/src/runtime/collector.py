"""Python's garbage collector in the workers of executors.

A worker makes hundreds of thousands of messages a second, and no cycles of them. As Python sets it up, the
collector looks at all of them again for every 700; that was half of what a worker did (`bench/seed.py`). And
PySpark's daemon has it look at everything that was ever imported after each task.
"""

from __future__ import annotations

import gc
from functools import cache

# More than the messages that are alive at a time; cycles are still found, a little later.
_BETWEEN_LOOKS = 100_000


@cache
def relieve() -> None:
    """To be called when a worker has loaded what it keeps: nothing of that is looked at again."""
    gc.set_threshold(_BETWEEN_LOOKS)
    gc.collect()
    gc.freeze()
