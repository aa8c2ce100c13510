"""Keep what is cached of daggers as small as the fleet."""

from __future__ import annotations

from typing import Any, Final

from fleet import Fleet

LEAST: Final = 100
"""Entries that are never too many."""


class Eviction:
    """Evicts from one cache the daggers that are gone.

    A cache is searched when it is twice as large as after the last search, so a start that fills it with a
    large fleet searches it a few times.
    """

    def __init__(self) -> None:
        self._search_at = LEAST

    def make_room(self, entries: dict[str, Any], fleet: Fleet) -> None:
        """Evict what is gone, before an entry is added. entries: by name of the dagger."""
        if len(entries) < self._search_at:
            return
        for name in [name for name in entries if fleet.living(name) is None]:
            del entries[name]
        self._search_at = max(LEAST, 2 * len(entries))
