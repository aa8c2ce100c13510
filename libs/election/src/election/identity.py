"""Identities of candidates that prove, on their own host, whether their process still lives."""

from __future__ import annotations

import os
import socket
from uuid import uuid4

from chassis import processes


def identity() -> str:
    """Make an identity of this process: `BOOT/PID_NAMESPACE@PID-START_TICKS-RANDOM`.

    Boot, namespace and start tell the process from a later one that has its process id.
    """
    me = processes.find(os.getpid())
    ticks = me.start_ticks if me else 0
    return f"{_process_space()}@{os.getpid()}-{ticks}-{uuid4().hex[:8]}"


def host_name() -> str:
    """Return the name of this host that drivers and candidates are registered by."""
    return socket.gethostname()


def proven_dead(candidate: str) -> bool:
    """Tell whether the process with this identity ran in this boot of this host, and has ended.

    False of a process of another host, of an earlier boot or another namespace: nothing is proven.
    """
    space, _, process_id = candidate.rpartition("@")
    if space != _process_space():
        return False
    pid, ticks, _ = process_id.split("-", maxsplit=2)
    process = processes.find(int(pid))
    return process is None or process.start_ticks != int(ticks)


def _process_space() -> str:
    """Return what a process id is unique in: this boot and its namespace of process ids."""
    return f"{processes.boot_id()}/{processes.pid_namespace()}"
