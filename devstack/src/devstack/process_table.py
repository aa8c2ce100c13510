"""Add by psutil to `chassis.processes`: environments, ports, and signals that reach no later process."""

import os
from collections.abc import Callable, Iterable
from contextlib import suppress

import psutil

from chassis import processes

DEAD = (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)


def sessions_with(variable: str, matches: Callable[[str], bool]) -> dict[int, str]:
    """Sessions of this user with a living process whose environment matches: what its variable has."""
    sessions = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            value = process.environ().get(variable, "")
            if not value or process.uids().real != os.getuid() or process.status() in DEAD:
                continue
            if matches(value):
                sessions[os.getsid(process.pid)] = value
    return sessions


def session_members(session: int) -> list[psutil.Process]:
    """Return the living processes of a session."""
    members = []
    for driver in processes.session(session):
        with suppress(psutil.Error):
            process = psutil.Process(driver.pid)  # which it tells from a later one with this pid
            if processes.find(driver.pid) == driver:
                members.append(process)
    return members


def kill_all(condemned: Iterable[psutil.Process]) -> None:
    """SIGKILL to each of them."""
    for process in condemned:
        with suppress(psutil.Error):
            process.kill()


def listening_ports(process: psutil.Process) -> list[int]:
    """TCP ports a process listens on, sorted."""
    with suppress(psutil.Error):
        connections = process.net_connections(kind="tcp")
        return sorted({c.laddr.port for c in connections if c.status == psutil.CONN_LISTEN})
    return []
