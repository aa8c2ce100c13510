"""A launch beside the driver of its dagger, until it is handed over (ADRs 109, 138).

It reads what the driver reads, and writes nothing. It lets go of windows only once the driver's checkpoint
says that they are written; a batch that would close others waits. So whenever the driver ends, and however,
what it did not write is held here, and nothing is lost with a shadow that ends.

The scheduler is told by `shadow.json`, and tells by files (`daggerspec.rundir`). Two threads come here: the
main thread looks and takes over, that of the query waits with a batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

from chassis.files import replace_text
from chassis.logging import logger
from daggerspec import rundir
from daggerspec.shadow import ShadowState
from runtime.errors import JobError, internal
from runtime.launch.boundary import millis
from runtime.launch.launch import Launch
from runtime.source.context import SourceContext
from runtime.source.watermark import NEVER
from runtime.state import checkpoint
from runtime.state.checkpoint import Checkpoint, Stand

LOOK_S = 0.25
"""So often it looks at the checkpoint beside its own, and for what it is told."""
# A batch of no more than this takes in what comes between two.
_SHORT_MS = 5_000


class Shadow:
    """What a launch does in place of writing, before it is its dagger's driver."""

    def __init__(self, launch: Launch, chosen: Checkpoint, source: SourceContext) -> None:
        """Once its streams are open. Raises: `JobError` (INTERNAL) for a query that cannot have a shadow."""
        windows, whole_from = source.windows, source.registry.published().complete_from()
        if windows is None or not windows.slide:
            raise internal("SHADOW_USELESS", "Its windows do not end together.")
        assert chosen.stand is not None, "a shadow's checkpoint has one that it began beside"
        self.written: datetime | None = None
        """Behind these windows it writes, once it was handed over."""
        self._launch, self._windows = launch, windows
        self._place, self._beside = chosen.path, chosen.stand.path
        self._partial = NEVER if whole_from is None else windows.last_end(millis(whole_from) - 1)
        self._known = self._closed = self._begun = NEVER
        self._holds: int | None = None
        self._final = self._has_caught_up = False
        self._told = ShadowState()
        self._seen(chosen.stand)

    # ---- The query's thread --------------------------------------------------------------------------------

    def lets_go(self, closes: datetime | None, leave: Callable[[str], None]) -> bool:
        """Whether a batch that closes windows up to `closes` is not to be written, as they are written; False
        once they are this launch's to write. Waits until either is so; `leave` ends a batch, and does not
        return.
        """
        self._begun = watermark = millis(closes)
        while not self._launch.writing.is_set():
            if not self._windows.closes_one(self._known, watermark):
                self._closed, self._holds = watermark, None
                return True
            if self._holds is None:
                logger().info("shadow.batch_held", closes=str(closes))
            self._holds = watermark
            if self._launch.stopping.wait(LOOK_S):
                leave("It was not handed over.")
        self._holds = None
        return False

    # ---- The main thread -----------------------------------------------------------------------------------

    def look(self, prepare: Callable[[], None]) -> None:
        """See what is new, say how far it is, and take over once it is handed over: what comes before that it
        `prepare`s.

        Raises: `JobError` when it cannot, or when what it goes by is gone, or not as it was told.
        """
        ended, handed = (self._launch.run_dir / rundir.PREDECESSOR_ENDED).exists(), self._handed()
        try:
            self._seen(checkpoint.beside(self._launch.root))
            self._final = ended
        except (OSError, ValueError):  # it is being written, or does not answer: looked at again
            handed = None
        if handed is not None:
            self._take_over(handed, prepare)
        self._tell()

    def _take_over(self, handed: int, prepare: Callable[[], None]) -> None:
        """Become the dagger's driver. Its checkpoint counts from one step on; what it then finds is an
        ordinary launch's.
        """
        launch = self._launch
        if handed != _micros(self._known):
            raise _lost(f"It is handed over from {handed}, and finds {_micros(self._known)}.")
        prepare()
        launch.take_lease()
        self.written = checkpoint.instant(handed)
        checkpoint.hand_over(self._place, self.written)
        launch.writing.set()
        launch.heartbeat.speak()
        logger().info("shadow.taken_over", written=str(self.written))

    def _handed(self) -> int | None:
        """Behind which windows it is to write, in us; None while it is not handed over."""
        with suppress(OSError, ValueError):
            return int((self._launch.run_dir / rundir.HANDED).read_text())
        return None

    def _seen(self, stand: Stand) -> None:
        """The driver beside it has come so far."""
        if stand.path.name != self._beside.name:
            raise _lost(f"It began beside {self._beside.name}, and finds {stand.path.name}.")
        self._known = millis(stand.watermark)

    def _tell(self) -> None:
        windows = self._windows
        self._has_caught_up = self._has_caught_up or self._catches_up()
        behind = max(self._known, self._closed, self._partial)
        first = windows.next_end(int(time.time() * 1000) if behind == NEVER else behind)
        taken = self._launch.writing.is_set()
        state = ShadowState(
            caught_up=self._has_caught_up,
            written=_micros(self._known),
            closed=0 if self._closed == NEVER else _micros(windows.next_end(self._closed) - windows.slide),
            next_end=_micros(first),
            holds=_micros(NEVER if self._holds is None or taken else self._holds),
            final=self._final,
            taken=taken,
        )
        if state != self._told:
            replace_text(self._launch.run_dir / rundir.SHADOW, state.as_json())
            self._told = state

    def _catches_up(self) -> bool:
        """Whether it has closed, or holds, all that the driver has closed, and batches have become short."""
        beat = self._launch.heartbeat.progress.beat
        if beat.batch_id < 0 or self._windows.closes_one(self._begun, self._known):
            return False
        return self._holds is not None or beat.batch_duration_ms <= _SHORT_MS


def _lost(detail: str) -> JobError:
    """Once it is the newest launch it may be launched again, from the checkpoint of the one before."""
    return internal("SHADOW_LOST", detail, retryable=True)


def _micros(millis: int) -> int:
    """An event time in us; 0 for none."""
    return 0 if millis == NEVER else millis * 1000
