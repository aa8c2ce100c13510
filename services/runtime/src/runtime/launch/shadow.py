"""Run a shadow: a launch beside its dagger's driver, until it takes over (ADRs 109, 138).

A shadow reads what the driver reads, and writes nothing. It discards windows only once the driver's
checkpoint has them as written; a batch that would close others waits. So at any end of the driver the shadow
has what that did not write, and the end of a shadow loses nothing.

The shadow reports to the scheduler by `shadow.json`, and gets orders by files (`daggerspec.rundir`). Two
threads use this class: the main thread checks and takes over, the query's thread waits with a batch.
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

CHECK_S = 0.25
"""Seconds between a shadow's checks of the driver's checkpoint and of its orders."""
# a batch of at most this long reads only what came since the last one
_SHORT_MS = 5_000


class Shadow:
    """State of a shadow: what the driver has closed, what it holds back, and whether it took over."""

    def __init__(self, launch: Launch, chosen: Checkpoint, source: SourceContext) -> None:
        """Begin, with open streams. Raises: JobError (INTERNAL) for a query that cannot have a shadow."""
        windows, whole_from = source.windows, source.registry.state().complete_from()
        if windows is None or not windows.slide:
            raise internal("SHADOW_USELESS", "Its windows do not end together.")
        assert chosen.stand is not None, "a shadow's checkpoint has one that it began beside"
        self.written: datetime | None = None
        """Event time up to which the driver has written windows, once the shadow took over."""
        self._launch, self._windows = launch, windows
        self._place, self._driver_path = chosen.path, chosen.stand.path
        self._partial = NEVER if whole_from is None else windows.last_end(millis(whole_from) - 1)
        self._driver_closed = self._closed = self._current = NEVER
        self._held_back: int | None = None
        self._final = self._has_caught_up = False
        self._reported = ShadowState()
        self._update_driver_stand(chosen.stand)

    # ---- The query's thread --------------------------------------------------------------------------------

    def may_discard(self, closes_until: datetime | None, leave: Callable[[str], None]) -> bool:
        """Block until a batch that closes windows up to `closes_until` is decided.

        True: the driver has written these windows, and the batch is discarded. False: this launch took over,
        and writes them. leave: ends a batch unwritten, and does not return.
        """
        self._current = watermark = millis(closes_until)
        while not self._launch.writing.is_set():
            if not self._windows.closes_one(self._driver_closed, watermark):
                self._closed, self._held_back = watermark, None
                return True
            if self._held_back is None:
                logger().info("shadow.batch_held", closes=str(closes_until))
            self._held_back = watermark
            if self._launch.stopping.wait(CHECK_S):
                leave("It was not handed over.")
        self._held_back = None
        return False

    # ---- The main thread -----------------------------------------------------------------------------------

    def check(self, prepare: Callable[[], None]) -> None:
        """Check the driver's checkpoint and the orders, report, and take over if ordered.

        prepare: runs the checks of a driver before it writes. Raises: JobError where the takeover fails, or
        the driver's checkpoint is gone, or not where the order says.
        """
        ended, handover = (self._launch.run_dir / rundir.PREDECESSOR_ENDED).exists(), self._read_handover()
        try:
            self._update_driver_stand(checkpoint.beside(self._launch.root))
            self._final = ended
        except (OSError, ValueError):  # being written, or no answer: the next check reads it again
            handover = None
        if handover is not None:
            self._take_over(handover, prepare)
        self._write_state()

    def _take_over(self, handover: int, prepare: Callable[[], None]) -> None:
        """Become the dagger's driver.

        From one atomic step on this checkpoint is the dagger's, and an ordinary launch would resume it.
        """
        launch = self._launch
        if handover != _micros(self._driver_closed):
            raise _lost_error(f"It is handed over from {handover}, and finds {_micros(self._driver_closed)}.")
        prepare()
        launch.take_lease()
        self.written = checkpoint.instant(handover)
        checkpoint.hand_over(self._place, self.written)
        launch.writing.set()
        launch.heartbeat.start()
        logger().info("shadow.taken_over", written=str(self.written))

    def _read_handover(self) -> int | None:
        """Read the event time, in us, from which on to write; None before the order to take over."""
        with suppress(OSError, ValueError):
            return int((self._launch.run_dir / rundir.HANDED).read_text())
        return None

    def _update_driver_stand(self, stand: Stand) -> None:
        """Update how far the driver has come."""
        if stand.path.name != self._driver_path.name:
            raise _lost_error(f"It began beside {self._driver_path.name}, and finds {stand.path.name}.")
        self._driver_closed = millis(stand.watermark)

    def _write_state(self) -> None:
        windows = self._windows
        self._has_caught_up = self._has_caught_up or self._is_caught_up()
        behind = max(self._driver_closed, self._closed, self._partial)
        first = windows.next_end(int(time.time() * 1000) if behind == NEVER else behind)
        is_driver = self._launch.writing.is_set()
        state = ShadowState(
            caught_up=self._has_caught_up,
            written=_micros(self._driver_closed),
            closed=0 if self._closed == NEVER else _micros(windows.next_end(self._closed) - windows.slide),
            next_end=_micros(first),
            holds=_micros(NEVER if self._held_back is None or is_driver else self._held_back),
            final=self._final,
            has_taken_over=is_driver,
        )
        if state != self._reported:
            replace_text(self._launch.run_dir / rundir.SHADOW, state.as_json())
            self._reported = state

    def _is_caught_up(self) -> bool:
        """Tell whether all that the driver closed is closed or held back here, and batches are short."""
        beat = self._launch.heartbeat.progress.beat
        if beat.batch_id < 0 or self._windows.closes_one(self._current, self._driver_closed):
            return False
        return self._held_back is not None or beat.batch_duration_ms <= _SHORT_MS


def _lost_error(detail: str) -> JobError:
    """Build the error of a shadow that lost its driver; it may be launched again, from that checkpoint."""
    return internal("SHADOW_LOST", detail, retryable=True)


def _micros(millis: int) -> int:
    """Convert an event time from ms to us; 0 for NEVER."""
    return 0 if millis == NEVER else millis * 1000
