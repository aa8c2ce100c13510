"""Cache what is in use, whatever the number of launches in a process.

Workers and drivers serve all launches of their process. A cache of so many entries, sized for one launch,
would build everything anew in each batch of several.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from functools import update_wrapper
from typing import Final, Generic, ParamSpec, TypeVar

UNUSED_S: Final = 600.0
"""An entry that nobody used for so long is dropped when the next one is built."""
_P = ParamSpec("_P")
_T = TypeVar("_T")


class cache_in_use(Generic[_P, _T]):  # noqa: N801 - a decorator, as those of functools
    """Decorator that caches what a function returns for as long as it is used. Thread-safe.

    Arguments are hashable. Two threads that miss at once may both build the entry; the first one counts.
    """

    def __init__(self, build: Callable[_P, _T], clock: Callable[[], float] = time.monotonic) -> None:
        """clock: monotonic seconds."""
        self._build, self._clock = build, clock
        self._entries: dict[Hashable, tuple[_T, float]] = {}
        """Entries with the time of their last use, the one used longest ago first."""
        self._lock = threading.Lock()
        update_wrapper(self, build)
        self.__qualname__ = build.__qualname__

    def __call__(self, *arguments: _P.args, **named: _P.kwargs) -> _T:
        """Return the entry of these arguments, built where there is none. Raises: what building raises."""
        key = arguments, tuple(sorted(named.items()))
        with self._lock:
            if key in self._entries:
                return self._use(key, self._entries.pop(key)[0])
        entry = self._build(*arguments, **named)
        with self._lock:
            self._drop_unused()
            return self._use(key, self._entries.pop(key, (entry, 0.0))[0])

    def cache_clear(self) -> None:
        """Drop all entries."""
        with self._lock:
            self._entries.clear()

    def __reduce__(self) -> str:
        """Pickle it by its name, as a function."""
        return self.__qualname__

    def _use(self, key: Hashable, entry: _T) -> _T:
        self._entries[key] = entry, self._clock()
        return entry

    def _drop_unused(self) -> None:
        now = self._clock()
        while self._entries:
            oldest = next(iter(self._entries))
            if now - self._entries[oldest][1] < UNUSED_S:
                return
            del self._entries[oldest]
