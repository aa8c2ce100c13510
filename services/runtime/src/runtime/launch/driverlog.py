"""Keeps driver.log short. Both halves of a driver append to it, and nobody else lives as long as they write.

What is in the log moves to driver.log.1, whose own content goes, and the log is cut to nothing. Whoever
started the driver opened it for appending, so all go on at its new end. A line written meanwhile may be lost.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from pathlib import Path

from chassis import tail
from chassis.logging import logger
from daggerspec.rundir import LOG

LIMIT_BYTES = 16 * 1024 * 1024
"""A log that is longer is moved: a launch leaves twice that and what is written in `_PERIOD_S`, not more."""
_PERIOD_S = 5.0


def follow(folder: Path) -> None:
    """Keep the log of this run directory short from now on, on a thread of its own."""

    def watch() -> None:
        while True:
            try:
                keep_short(folder / LOG)
            except OSError as problem:  # a full disk, a directory that was tidied away
                logger().warning("driver.log_not_moved", why=problem.strerror)
            time.sleep(_PERIOD_S)

    threading.Thread(target=watch, name="driver-log", daemon=True).start()


def keep_short(log: Path, limit: int = LIMIT_BYTES) -> None:
    """Move what is in the log, if there is one, when that is more than `limit` bytes. Raises: OSError."""
    if not log.exists() or log.stat().st_size <= limit:
        return
    older = tail.older(log)
    fresh = older.with_name(f"{older.name}.new")
    with log.open("rb") as old, fresh.open("wb") as copy:
        shutil.copyfileobj(old, copy)
        fresh.replace(older)
        shutil.copyfileobj(old, copy)  # what came meanwhile
        copy.flush()
        os.truncate(log, 0)
