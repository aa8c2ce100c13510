"""How new the records are that wait, and when a window will end; looked at no more often than it matters."""

from __future__ import annotations

import logging
from collections.abc import Callable

from runtime.errors import TemporaryError
from runtime.source.offsets import Positions
from runtime.source.planner.due import closing, look_again
from runtime.source.planner.record_samples import RecordSamples
from runtime.source.planner.sampling import newest, walked
from runtime.source.watermark import Windows

_log = logging.getLogger(__name__)


class Waiting:
    """The event times of one reader's records that no batch has yet; in ms, as `due` has them."""

    def __init__(self, windows: Windows, delay: int, samples: Callable[[], RecordSamples]) -> None:
        self._windows, self._delay = windows, delay
        self._samples = samples
        self.read()

    def read(self) -> None:
        """A batch reads them: none waits."""
        self.newest: int | None = None
        """The newest event time, as far as it was looked at."""
        self.again = 0
        """When that is to be looked at again."""
        self.closes: int | None = None
        """When a window will end, as far as that is known."""
        self._looked_at: Positions = {}

    def look(self, unread: Positions, ends: Positions, watermark: int, now: int) -> None:
        """Look at them, if it is time: they begin at `unread`, and topics end at `ends`."""
        if now < self.again:
            return
        self._learn_newest(unread, ends)
        known = self._windows, watermark, self._delay, self.newest, now
        self.again, self.closes = look_again(*known), closing(*known)

    def _learn_newest(self, unread: Positions, ends: Positions) -> None:
        if ends == self._looked_at:
            return
        walks = {p: newest(start, ends[p]) for p, start in unread.items() if start < ends[p]}
        try:
            times = walked(walks, self._samples().by_event_time).values()
        except TemporaryError as problem:
            _log.warning("%s", problem.error.detail)
            return
        self._looked_at = ends
        self.newest = max((time for time in (self.newest, *times) if time is not None), default=None)
