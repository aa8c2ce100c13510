"""Run a build tool, with its output in a log and progress taken from its lines."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from cli.environment import environment
from cli.errors import RefusedError
from cli.progress import Report

TAIL_LINES = 5


def run(
    words: Sequence[str | Path], *, log: Path, report: Report, what: str, env: Mapping[str, str] | None = None
) -> None:
    """Run a command to its end. Raises RefusedError: the sentence `what`, and its last lines."""
    lines: list[str] = []
    try:
        with (
            log.open("w", encoding="utf-8") as out,
            subprocess.Popen(
                [str(word) for word in words],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                text=True, encoding="utf-8", errors="replace",
                env=environment() if env is None else dict(env),
            ) as process,
        ):  # fmt: skip
            assert process.stdout is not None
            try:
                for line in process.stdout:
                    out.write(line)
                    if line.strip():
                        lines.append(line.strip())
                        report(f"({len(lines)}) {line.strip()[:60]}")
            except BaseException:  # an interrupt: leave no build running behind
                process.kill()
                raise
    except FileNotFoundError as error:
        raise RefusedError(f"{what}: {words[0]} is missing", reason="TOOL_MISSING") from error
    if process.returncode != 0:
        tail = "; ".join(lines[-TAIL_LINES:])
        raise RefusedError(f"{what} (exit code {process.returncode}): {tail}", reason="TOOL_FAILED")
