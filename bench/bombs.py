"""What refusing a bomb costs: time, CPU time, and memory beyond that of the text, in a fresh process each.

    .venv/bin/python bench/bombs.py [--runs K]

The process has the library imported and has checked one small query before; then it makes the text, takes the
peak of its resident memory back to what it is now (/proc/self/clear_refs), and checks. The largest of K runs
is printed. Linux only.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from google.protobuf import timestamp_pb2
from machine import header

from daggersql import Severity, Table, check

MIB = 1024 * 1024
BOMBS: Mapping[str, Callable[[], str]] = {
    "5,000-deep brackets": lambda: f"SELECT {'(' * 5_000}1{')' * 5_000} AS x FROM t",
    "5,000-deep calls": lambda: f"SELECT {'ABS(' * 5_000}nanos{')' * 5_000} AS x FROM t",
    "5,000-deep CASE": lambda: f"SELECT {'CASE WHEN TRUE THEN ' * 5_000}1{' END' * 5_000} AS x FROM t",
    "5,000-deep sub-queries": lambda: f"{'SELECT * FROM (' * 5_000}SELECT nanos FROM t{') t' * 5_000}",
    "20,000 additions": lambda: f"SELECT {' + '.join(['1'] * 20_000)} AS x FROM t",
    "10 MB text": lambda: f"SELECT '{'x' * 10_000_000}' AS x FROM t",
    "10 MB of words": lambda: "SELECT 1 " * 1_111_111,
    "100,000-element list": lambda: f"SELECT nanos FROM t WHERE nanos IN ({', '.join(['12345'] * 100_000)})",
    "100,000-element list, short enough": lambda: (
        f"SELECT nanos FROM t WHERE nanos IN ({','.join(['1'] * 100_000)})"
    ),
}


def main() -> None:
    """Print a line for each bomb: its size, its code, time and memory."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--runs", type=int, default=5, help="processes for each bomb")
    arguments.add_argument("--bomb", choices=BOMBS, help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.bomb:
        print(json.dumps(_refuse(given.bomb)))
        return
    print(header("protobuf"))
    for name in BOMBS:
        runs = [_run(name) for _ in range(given.runs)]
        wall, cpu, memory = (max(run[what] for run in runs) for what in ("wall_s", "cpu_s", "mib"))
        print(
            f"{name} ({runs[0]['bytes'] / 1e6:.2f} MB): {', '.join(runs[0]['codes'])}"
            f" in {wall * 1000:.1f} ms, {cpu * 1000:.1f} ms of CPU, {memory:.1f} MiB"
        )


def _run(name: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, __file__, "--bomb", name], capture_output=True, text=True, check=True, timeout=300
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _refuse(name: str) -> dict[str, Any]:
    table = Table("t", timestamp_pb2.Timestamp.DESCRIPTOR, "seconds")
    check("SELECT nanos FROM t", [table])
    text = BOMBS[name]()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = _resident("VmHWM")
    begin, begin_cpu = time.perf_counter(), time.process_time()
    checked = check(text, [table])
    wall, cpu = time.perf_counter() - begin, time.process_time() - begin_cpu
    codes = [finding.code for finding in checked.findings if finding.severity is Severity.ERROR]
    if not codes:
        raise SystemExit(f"{name} was let through")
    peak = (_resident("VmHWM") - before) / MIB
    return {"bytes": len(text), "codes": codes, "wall_s": wall, "cpu_s": cpu, "mib": peak}


def _resident(field: str) -> int:
    """A value of /proc/self/status, in bytes."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise SystemExit(f"/proc/self/status has no {field}")


if __name__ == "__main__":
    main()
