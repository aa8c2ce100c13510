"""What a command costs to start: median CPU seconds of one process, its gateway's not counted.

.venv/bin/python bench/commands.py --runs 21
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

import machine

from api_gateway.quarantine.memory import MemoryQuarantine
from api_gateway.server import serving
from api_gateway.state.projection import Projection
from chassis import logging
from chassis.endpoint import Endpoint
from eventlog.memory import MemoryLog

ROOT = Path(__file__).parents[1]
FILE = ROOT / "examples" / "daggers" / "completed_bookings.yaml"
PACKAGES = ("typer", "grpcio", "protobuf", "rich", "pyyaml")


def main() -> None:
    """Print a line for each command."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--runs", type=int, default=21)
    runs = arguments.parse_args().runs
    print(machine.header(*PACKAGES))
    print(
        f"# median of {runs} runs, CPU seconds (user and system) of the process; least and greatest behind it"
    )
    with tempfile.TemporaryDirectory() as folder, gateway(Path(folder)) as address:
        at = ("--gateway", address)
        environment = {**os.environ, "XDG_STATE_HOME": folder}  # noqa: TID251 - handed on to the commands
        for words in (["--help"], ["version"], ["list", *at], ["validate", str(FILE), *at]):
            cpu_s(words, environment)  # the first one compiles
            spent = sorted(cpu_s(words, environment) for _ in range(runs))
            shown = " ".join(["daggers", *(word for word in words if word not in at)])
            name = shown.replace(str(FILE), FILE.name)
            print(f"{name:<40} {statistics.median(spent):.3f}  ({spent[0]:.3f} to {spent[-1]:.3f})")


def cpu_s(words: Sequence[str], environment: dict[str, str]) -> float:
    """CPU seconds of one command."""
    command = subprocess.Popen(
        [sys.executable, "-m", "cli", *words],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, _, used = os.wait4(command.pid, 0)
    command.returncode = 0  # it is reaped
    return used.ru_utime + used.ru_stime


@contextmanager
def gateway(folder: Path) -> Iterator[str]:
    """A gateway whose log is in memory, in a thread of this process; its address."""
    logging.configure("bench", level="ERROR")
    port: Future[int] = Future()
    stop: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def serve() -> None:
        stopped = asyncio.Event()
        stop.set_result((asyncio.get_running_loop(), stopped))
        async with serving(
            MemoryLog(),
            Projection(f"sqlite:///{folder / 'projection.db'}"),
            MemoryQuarantine(),
            Endpoint("127.0.0.1:0"),
            alerts=MemoryLog(),
            source="/api-gateway/bench",
            drain_s=1,
        ) as served:
            port.set_result(served.port)
            await stopped.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        yield f"127.0.0.1:{port.result(60)}"
    finally:
        loop, stopped = stop.result(60)
        loop.call_soon_threadsafe(stopped.set)
        thread.join(60)


if __name__ == "__main__":
    main()
