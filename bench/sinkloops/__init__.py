"""The sinks that `bench/sinks.py` measures, one file a sink: its server and a loop that one would write.

A loop sends what the writer sends, with the same library and as many requests at once. It has no plan, no
types but those of these rows, no refusals and no second try.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import pkgutil
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any, Final

import pyarrow as pa
from daggers.v1 import spec_pb2

from daggersql import Column, Role
from runtime.encode.rows import Layout

DAGGER: Final = "bench"
AT_ONCE: Final = 64
"""Requests under way, of the writer and of the loop."""
TIME: Final = "window_timestamp"
_INSTANT: Final = pa.timestamp("us", "UTC")
COLUMNS: Final = (
    ("tag_city", Role.TAG, "string", pa.string()),
    ("vehicle", Role.FIELD, "string", pa.string()),
    ("n", Role.FIELD, "bigint", pa.int64()),
    ("fare", Role.FIELD, "double", pa.float64()),
    ("order_number", Role.FIELD, "string", pa.string()),
    (TIME, Role.TIME, "timestamp", _INSTANT),
)
NAMES: Final = tuple(name for name, *_ in COLUMNS)
LAYOUT: Final = Layout(
    tuple(Column(name, role, name, spark) for name, role, spark, _ in COLUMNS),
    hidden=("__window_start", "__window_end", "__key_0"),
)
SCHEMA: Final = pa.schema(
    [*((name, kind) for name, _, _, kind in COLUMNS),
     ("__window_start", _INSTANT), ("__window_end", _INSTANT), ("__key_0", pa.string())]
)  # fmt: skip


@dataclass(frozen=True)
class Trial:
    """One sink."""

    serving: Callable[[], AbstractContextManager[str]]
    """Its server, in a process of its own: where it is."""
    sink: Callable[[str], spec_pb2.ResolvedSink]
    """The sink there."""
    send: Callable[[str, pa.RecordBatch], None]
    """The loop."""
    share: float = 1.0
    """Of the rows that are asked for."""
    server: Callable[[str], float] | None = None
    """The CPU-seconds that its server has had, where those count."""


def rows(count: int) -> pa.RecordBatch:
    """So many rows of sixty windows of one hour."""
    first = datetime(2026, 1, 1, 12, tzinfo=UTC)
    starts = [first + timedelta(minutes=number % 60) for number in range(count)]
    ends = [start + timedelta(minutes=1) for start in starts]
    numbers = range(count)
    return pa.RecordBatch.from_pydict(
        {
            "tag_city": [f"city {number % 500}" for number in numbers],
            "vehicle": ["bike" if number % 3 else "car" for number in numbers],
            "n": list(numbers),
            "fare": [number * 0.25 for number in numbers],
            "order_number": [f"O-{number:012d}" for number in numbers],
            TIME: starts,
            "__window_start": starts,
            "__window_end": ends,
            "__key_0": [f"{number}" for number in numbers],
        },
        schema=SCHEMA,
    )


def text(value: Any) -> str:
    """JSON as small as it gets."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def instant(time: datetime) -> str:
    """A whole second of UTC."""
    return f"{time.isoformat()[:19]}Z"


def seen(row: dict[str, Any]) -> dict[str, Any]:
    """What a sink is given of a row, ready for JSON."""
    return {name: row[name] if name != TIME else instant(row[TIME]) for name in NAMES}


def key(row: dict[str, Any]) -> str:
    """What tells a row from all others."""
    return text([instant(row["__window_start"]), instant(row["__window_end"]), row["__key_0"]])


def digest(source: str, told: str) -> str:
    """The id of what is sent for a row, or for several."""
    return hashlib.blake2b(f"{source}/{told}".encode(), digest_size=16).hexdigest()


@contextmanager
def apart(name: str) -> Iterator[str]:
    """The server of a module here that has `serve`, in a process of its own: where it is."""
    bench = Path(__file__).parent.parent / "sinks.py"
    with Popen([sys.executable, str(bench), "--serve", name], stdout=PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def module(name: str) -> Any:
    """A module here."""
    return importlib.import_module(f"{__name__}.{name}")


def trials() -> dict[str, Trial]:
    """Every trial by the name that is printed of it."""
    found = (module(info.name) for info in pkgutil.iter_modules(__path__))
    return {name: trial for loop in found for name, trial in getattr(loop, "TRIALS", {}).items()}
