"""Rotate driver.log, from the driver itself: no other process lives as long as its two halves write.

The log's content moves to driver.log.1, replacing that, and the log is truncated. All writers opened it for
appending, so they continue at its new end. A line written during the rotation may be lost.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from chassis import tail
from chassis.logging import logger
from daggerspec.rundir import LOG

LIMIT_BYTES = 16 * 1024 * 1024
"""Size from which on a log is rotated: a launch leaves at most twice that, and what it writes in `_PERIOD_S`.
"""
_PERIOD_S = 5.0


def follow(folders: Callable[[], Iterable[Path]]) -> None:
    """Rotate the logs of these run directories from now on, in a thread of its own."""

    def watch() -> None:
        while True:
            try:
                for folder in folders():
                    keep_short(folder / LOG)
            except OSError as problem:  # a full disk, a removed directory
                logger().warning("driver.log_not_moved", why=problem.strerror)
            time.sleep(_PERIOD_S)

    threading.Thread(target=watch, name="driver-log", daemon=True).start()


def keep_short(log: Path, limit: int = LIMIT_BYTES) -> None:
    """Rotate the log if it is larger than `limit` bytes. Raises: OSError."""
    if not log.exists() or log.stat().st_size <= limit:
        return
    older = tail.older(log)
    fresh = older.with_name(f"{older.name}.new")
    with log.open("rb") as old, fresh.open("wb") as copy:
        shutil.copyfileobj(old, copy)
        fresh.replace(older)
        shutil.copyfileobj(old, copy)  # lines written during the copy
        copy.flush()
        os.truncate(log, 0)
