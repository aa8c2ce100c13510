"""Names of candidates that prove, on their own host, whether their process still lives."""

from __future__ import annotations

import os
import socket
from uuid import uuid4

from chassis import processes


def identity() -> str:
    """A name for this process that proves, on this host, whether it still lives."""
    me = processes.find(os.getpid())
    ticks = me.start_ticks if me else 0
    return f"{_process_space()}@{os.getpid()}-{ticks}-{uuid4().hex[:8]}"


def host_name() -> str:
    """Name of this host, as drivers and candidates are known by."""
    return socket.gethostname()


def proven_dead(candidate: str) -> bool:
    """Whether the process with this identity ran in this boot of this host, and is gone."""
    space, _, process_id = candidate.rpartition("@")
    if space != _process_space():
        return False
    pid, ticks, _ = process_id.split("-", maxsplit=2)
    process = processes.find(int(pid))
    return process is None or process.start_ticks != int(ticks)


def _process_space() -> str:
    """This boot and this space of process ids."""
    return f"{processes.boot_id()}/{processes.pid_namespace()}"
