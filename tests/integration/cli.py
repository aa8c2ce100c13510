"""The `daggers` command as a user runs it: a subprocess, its exit code, its one JSON document."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DAGGERS = Path(sys.executable).with_name("daggers")
DEADLINE_S = 180


@dataclass(frozen=True)
class Outcome:
    """How one command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON document on stdout."""
        return json.loads(self.out)


@dataclass(frozen=True)
class Cli:
    """Runs commands against the stack in `state_dir`."""

    state_dir: Path
    daggers: Path = DAGGERS
    """The command; that of another version, where it matters."""

    def try_(self, *words: object) -> Outcome:
        """Run a command with JSON output, whatever its exit code."""
        done = subprocess.run(
            [self.daggers, *map(str, words), "--state-dir", self.state_dir, "-o", "json"],
            capture_output=True, text=True, check=False, timeout=DEADLINE_S + 60,
        )  # fmt: skip
        return Outcome(done.returncode, done.stdout, done.stderr)

    def __call__(self, *words: object) -> Any:
        """Run a command that must succeed; its JSON document."""
        outcome = self.try_(*words)
        assert outcome.code == 0, f"daggers {' '.join(map(str, words))}: {outcome}"
        return outcome.json

    def rows(
        self, name: str, *, enough: Callable[[list[dict[str, Any]]], bool], deadline_s: float = DEADLINE_S
    ) -> list[dict[str, Any]]:
        """The rows of a dagger once they are `enough`; what there is at the deadline."""
        end = time.monotonic() + deadline_s
        while True:
            rows: list[dict[str, Any]] = self("rows", name, "--limit", "100000")
            if enough(rows) or time.monotonic() > end:
                return rows
            time.sleep(1)  # polling a database for what a stream will write; bounded by the deadline

    def until(
        self, name: str, wanted: Callable[[dict[str, Any]], bool], *, deadline_s: float = DEADLINE_S
    ) -> dict[str, Any]:
        """The dagger once `wanted(dagger)` holds; fails at the deadline with what it was."""
        end = time.monotonic() + deadline_s
        while True:
            dagger: dict[str, Any] = self("get", name)
            if wanted(dagger):
                return dagger
            assert time.monotonic() < end, f"{name} never got there: {dagger}"
            time.sleep(0.5)  # polling a phase; bounded by the deadline


def runs(dagger: dict[str, Any]) -> bool:
    """Whether it is RUNNING; a busy machine may show another phase for a moment."""
    return bool(dagger["phase"] == "RUNNING")


def at_least(count: int) -> Callable[[list[dict[str, Any]]], bool]:
    """Whether there are this many rows."""
    return lambda rows: len(rows) >= count
