"""Python's garbage collector, in processes whose objects come and go in masses and form no cycles.

As Python sets it up, the collector looks at the young objects after every 700, and again and again at all
that stays. That was half of what a Python worker of Spark did, whose daemon collects after each task besides
(`bench/seed.py`), and a fifth of what a Create cost the gateway, beside a fold that stays (`bench/log.py`).
"""

from __future__ import annotations

import gc
from functools import cache


@cache
def tune_gc(alive: int) -> None:
    """To be called once all that stays is loaded: none of it is looked at again.

    `alive` is more objects than live at a time otherwise; cycles are still found, a little later.
    """
    gc.set_threshold(alive)
    gc.collect()
    gc.freeze()
