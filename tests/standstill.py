"""Servers that stand still: their processes are stopped, and the kernel keeps their connections."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import psutil


def serving(port: int) -> list[int]:
    """The processes behind a port of this machine, the one that accepts connections first."""
    listening = (
        connection.pid
        for connection in psutil.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port
    )
    first = psutil.Process(next(pid for pid in listening if pid is not None))
    return [first.pid, *(child.pid for child in first.children(recursive=True))]


@contextmanager
def standing_still(pids: Sequence[int]) -> Iterator[None]:
    """These processes do nothing, while the block runs."""
    assert os.getpid() not in pids
    try:
        for pid in pids:
            with suppress(ProcessLookupError):  # one that was about to end
                os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
