"""A monitor of the walks, in place of the stack's: it waits for nothing long."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from conftest import Stack
from tests.integration.faults import kill, process, serving
from tests.walks.receivers import Receivers


@contextmanager
def serving_monitor(
    stack: Stack, receivers: Receivers, folder: Path, limits: Mapping[str, str]
) -> Iterator[None]:
    """Serve a monitor with these settings that notifies these receivers, in place of the stack's."""
    env = process(stack, "health-monitor").environ() | limits | receivers.environment()
    env["DAGGERS_MONITOR_STATE_DIR"] = str(folder / "monitor")
    del env["DAGGERS_LOCAL_PROCESS"]  # it is none of the stack's
    kill(stack, "health-monitor")
    with serving("health_monitor", env, folder):
        yield
