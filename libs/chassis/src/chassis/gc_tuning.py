"""Python's garbage collector, in processes whose objects come and go in masses and form no cycles.

As Python sets it up, the collector looks at the young objects after every 700, and again and again at all
that stays. That was half of what a Python worker of Spark did, whose daemon collects after each task besides
(`bench/seed.py`), and a fifth of what a Create cost the gateway, beside a fold that stays (`bench/log.py`).
"""

from __future__ import annotations

import gc
from functools import cache
from typing import Final

ALIVE: Final = 20_000
"""Objects: more than what the calls under way in a service hold."""


def look_seldom() -> None:
    """To be called as a service begins, before there is anything that stays.

    What it reads of a log comes in masses: looking at it again and again was a sixth of a fold of records in
    memory.
    """
    gc.set_threshold(ALIVE)


@cache
def tune_gc(alive: int) -> None:
    """To be called once all that stays is loaded: none of it is looked at again.

    `alive` is more objects than live at a time otherwise; cycles are still found, a little later.
    """
    gc.set_threshold(alive)
    gc.collect()
    gc.freeze()
