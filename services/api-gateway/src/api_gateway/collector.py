"""Python's garbage collector in the gateway.

The fold is hundreds of thousands of objects that stay, and a call makes hundreds that go without help. As
Python sets it up, the collector looks at the young ones after every 700 and at the fold again and again: a
fifth of the CPU time of a Create (`bench/log.py`).
"""

from __future__ import annotations

import gc
from typing import Final

# More than what the calls under way hold; cycles are still found, a little later.
_BETWEEN_LOOKS: Final = 20_000


def relieve() -> None:
    """To be called once the log is folded: nothing of that is looked at again."""
    gc.set_threshold(_BETWEEN_LOOKS)
    gc.collect()
    gc.freeze()
