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
    """Make collections rare. Call it at the start of a service, before it loads its state.

    A fold creates masses of objects that stay: collecting them again and again took a sixth of a fold's time.
    """
    gc.set_threshold(ALIVE)


@cache
def tune_gc(alive: int) -> None:
    """Exclude all present objects from collections. Call it once the state is loaded.

    `alive`: more than the number of other objects that live at a time. Cycles are found a little later.
    """
    gc.set_threshold(alive)
    gc.collect()
    gc.freeze()
