"""Delay before the next attempt. Pure: the jitter comes from the name and the attempt."""

from __future__ import annotations

from datetime import timedelta
from zlib import crc32


def delay(name: str, attempt: int, *, base: timedelta, cap: timedelta) -> timedelta:
    """Return the wait before `attempt` (from 1): base · 2^(attempt-1), at most `cap`, less up to half of it.

    The jitter spreads daggers that died together, and is the same whoever works it out.
    """
    doublings: int = 1 << min(attempt - 1, 32)  # beyond that any base is past any cap
    full = min(base * doublings, cap)
    return full * (1 - crc32(f"{name}/{attempt}".encode()) / 2**33)
