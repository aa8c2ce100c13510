"""Notices when a reader is idle, and what its idle advance is then; `idle` decides."""

from __future__ import annotations

import time
from collections.abc import Callable

from runtime.source.offsets import Offsets, Positions
from runtime.source.plan import ReaderPlan
from runtime.source.planner.idle import next_advance
from runtime.source.planner.record_samples import RecordSamples
from runtime.source.planner.sampling import newest, walked
from runtime.source.status import StatusPublisher


class IdleSource:
    """How long one reader has been idle, and what it has done about it."""

    def __init__(
        self, plan: ReaderPlan, publisher: StatusPublisher, samples: Callable[[], RecordSamples]
    ) -> None:
        self._plan = plan
        self._publisher = publisher
        self._samples = samples
        self._busy_until: float | None = None
        self._advanced: int | None = None
        self._sampled: Positions | None = None

    def busy(self) -> None:
        """Something new has come, or it cannot be known that nothing has."""
        self._busy_until = time.monotonic()

    def is_silent(self) -> bool:
        """Whether nothing new has come for the idle timeout."""
        since, timeout = self._busy_until, self._plan.idle_timeout
        return since is not None and timeout > 0 and time.monotonic() - since >= timeout / 1000

    def advance(self, here: Offsets) -> int | None:
        """The event time (ms) of an idle advance, or None. Everything up to `here` has been read, and nothing
        follows.
        """
        if self._busy_until is None:
            self.busy()
        plan = self._plan
        if not self.is_silent() or plan.windows is None:
            self._publisher.update(idle=False)
            return None
        self._learn_newest(here.next)
        self._publisher.update(idle=True)
        states = self._publisher.registry.published().watermarks()
        own = states.pop(plan.key)
        if self._advanced is not None:
            own = own.after(self._advanced)
        idle_until = int(time.time() * 1000) - plan.idle_timeout
        return next_advance(own, list(states.values()), plan.windows, idle_until)

    def advanced(self, advance: int) -> None:
        """A batch carries this advance."""
        self._advanced = advance

    def _learn_newest(self, here: Positions) -> None:
        """Once in each silence: how new what has been read is, whoever has read it."""
        if self._sampled == here:
            return
        walks = {partition: newest(0, offset) for partition, offset in here.items() if offset}
        times = walked(walks, self._samples().by_event_time).values()
        self._sampled = here
        newest_record = max((time for time in times if time is not None), default=None)
        self._publisher.update(newest_record=newest_record)
