"""Show what an embedded stack is doing: addresses and processes."""

from pathlib import Path
from typing import Any

import psutil

from devstack import drivers, influxdb
from devstack.process_table import listening_ports
from devstack.processes import StackProcess
from devstack.state import Stack


def status(stack: Stack) -> dict[str, Any]:
    """Return what `daggers local status` shows: the embedded InfluxDB's token, and not the user's own."""
    influx = stack.influx
    file = influx.token_file if stack.own_influx is None else None
    # Where Kafka alone was ever started there is none.
    token = influxdb.read_token(file) if file is not None and Path(file).exists() else None
    sessions = [process for process in stack.processes if process.members()]
    sessions += [drivers.session(driver) for driver in drivers.find(stack.state_dir)]
    return {
        "state_dir": str(stack.state_dir),
        "kafka": {"bootstrap_servers": stack.kafka},
        "gateway": {
            "address": stack.gateway,
            "token_file": str(stack.token_file) if stack.token_file else None,
        },
        "portal": {"url": stack.portal},
        "influx": {"url": influx.url, "org": influx.org, "token": token, "bucket": influx.bucket},
        "processes": [row for session in sessions for row in _rows(session)],
    }


def _rows(session: StackProcess) -> list[dict[str, Any]]:
    """Return the leader, and every other process of its session that listens."""
    rows = []
    for process in sorted(session.members(), key=lambda member: member.pid != session.pid):
        ports = listening_ports(process)
        if process.pid == session.pid or ports:
            name = session.name if process.pid == session.pid else f"{session.name} ({_program(process)})"
            rows.append({"name": name, "pid": process.pid, "ports": ports, "log": session.log})
    return rows


def _program(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.Error:
        return "?"
