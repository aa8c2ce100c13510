"""Run a build tool: its output goes to a log, and people see how long it has taken so far."""

import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from cli.environment import environment
from cli.errors import RefusedError
from cli.output.progress import Report

LONGEST_TAIL = 200
_running: set[subprocess.Popen[str]] = set()


def run(
    words: Sequence[str | Path],
    *,
    log: Path,
    report: Report,
    failure: str,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> None:
    """Run a command to its end. Raises RefusedError: the sentence `failure`, and its last lines."""
    lines: list[str] = []
    begun = time.monotonic()
    try:
        with (
            log.open("w", encoding="utf-8") as out,
            subprocess.Popen(
                [str(word) for word in words],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                text=True, encoding="utf-8", errors="replace",
                env=environment() if env is None else dict(env), cwd=cwd,
            ) as process,
        ):  # fmt: skip
            assert process.stdout is not None
            _running.add(process)
            try:
                for line in process.stdout:
                    out.write(line)
                    if line.strip():
                        lines.append(line.strip())
                        report(f"{time.monotonic() - begun:.0f} s")
            except BaseException:  # an interrupt: leave no build running behind
                process.kill()
                raise
            finally:
                _running.discard(process)
    except FileNotFoundError as error:
        raise RefusedError(f"{failure}: {words[0]} is missing", reason="TOOL_MISSING") from error
    if process.returncode != 0:
        telling = [line for line in lines if "error" in line.lower()] or lines
        tail = f": {telling[-1][:LONGEST_TAIL]}" if telling else ""
        raise RefusedError(
            f"{failure} (it ended with exit code {process.returncode}, see {log}){tail}", reason="TOOL_FAILED"
        )


def stop_all() -> None:
    """Kill what other threads run, which raise for it."""
    for process in list(_running):
        process.kill()
