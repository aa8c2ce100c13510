"""The embedded stack for a bench: started in a folder of its own, stopped and removed at the end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import yaml

from chassis import drivers

_DAGGERS = Path(sys.executable).with_name("daggers")


@dataclass(frozen=True, slots=True)
class Stack:
    """A running embedded stack."""

    state_dir: Path
    kafka: str
    gateway: str

    @property
    def bearer(self) -> tuple[tuple[str, str], ...]:
        """The token that its gateway asks for, as metadata."""
        token = (self.state_dir / "administrator.token").read_text().strip()
        return (("authorization", f"Bearer {token}"),)

    def daggers(self, *words: str | Path) -> Any:
        """What a command of the CLI answers, as JSON. Raises with what it printed when it fails."""
        return _daggers(self.state_dir, *words)

    def run_with_file(self, document: Mapping[str, Any], *words: str) -> Any:
        """Run a command of the CLI that reads a file with this document; return its answer."""
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            yaml.safe_dump(dict(document), file)
            file.flush()
            return self.daggers(*words, Path(file.name))

    def end(self, part: str) -> None:
        """Ends a part of the stack, by its name in `daggers local status`."""
        (found,) = [
            dagger for dagger in self.daggers("local", "status")["processes"] if dagger["name"] == part
        ]
        process = psutil.Process(found["pid"])
        process.terminate()
        process.wait(30)

    def driver_session(self, name: str) -> int:
        """Session id of a dagger's driver."""
        [driver] = [dagger for dagger in drivers.living(self.state_dir / "runs") if dagger.dagger == name]
        return driver.pid


@contextmanager
def stack(*, spare: bool = False) -> Iterator[Stack]:
    """A fresh stack; `spare`: with one that takes launches. A signal to terminate ends the bench, and takes
    the stack down as an interrupt does.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    os.environ["DAGGERS_SCHEDULER_SPARE"] = str(spare).lower()  # noqa: TID251 - for what is started here
    with tempfile.TemporaryDirectory(prefix="daggers-bench-") as folder:
        state_dir = Path(folder)
        try:
            _daggers(state_dir, "local", "up", "--detach")
            status = _daggers(state_dir, "local", "status")
            yield Stack(state_dir, status["kafka"]["bootstrap_servers"], status["gateway"]["address"])
        finally:
            _daggers(state_dir, "local", "down")


@contextmanager
def kafka_alone() -> Iterator[tuple[Path, str, Path]]:
    """Start the embedded Kafka alone; yield its folder, its address, and its JAVA_HOME."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with tempfile.TemporaryDirectory(prefix="daggers-bench-") as folder:
        state_dir = Path(folder)
        try:
            _daggers(state_dir, "local", "up", "--only", "kafka", "--detach")
            status = _daggers(state_dir, "local", "status")
            [kafka] = [one["pid"] for one in status["processes"] if one["name"] == "kafka"]
            java = Path(psutil.Process(kafka).exe())
            yield state_dir, status["kafka"]["bootstrap_servers"], java.parents[1]
        finally:
            _daggers(state_dir, "local", "down")


def _daggers(state_dir: Path, *words: str | Path) -> Any:
    done = subprocess.run(
        [_DAGGERS, *words, "--state-dir", state_dir, "-o", "json"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"daggers {' '.join(map(str, words))}:\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout) if done.stdout.strip() else None
