"""`python -m runtime.readrows --run-dir DIR`: reads back the rows of a launch, in a process of its own.

It resolves the secrets of the sink; neither its arguments nor what it says has one. What it finds goes to its
standard output, in frames: one byte that says what it is, four of length, and a serialised message.

    R  ReadRowsResponse    rows, newest first; with --watch oldest first, and one frame at least for each look
    E  DaggerError         why there are no more
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

from daggers.v1 import events_pb2, gateway_pb2, spec_pb2

from daggerspec.rundir import SPEC
from runtime import sinks
from runtime.encode.readback import Row
from runtime.errors import explain, user
from runtime.sinks import Source

ROWS, ERROR = b"R", b"E"
STEP_ROWS: Final = 10_000
STEP_BYTES: Final = 1024 * 1024
WATCHED_ROWS: Final = 1000
WATCH_S: Final = 1.0
_MEMORY: Final = 4 * 1024**3  # of address space, of which libraries reserve much and use little
Read = Callable[[int], list[Row]]


def main() -> int:
    """Read and write frames; 0 when all is said."""
    parser = argparse.ArgumentParser(prog="python -m runtime.readrows")
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--sink", default="")
    parser.add_argument("--limit", type=int, default=WATCHED_ROWS)
    parser.add_argument("--watch", action="store_true")
    told = parser.parse_args()
    # What a library prints must not come between the frames.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    _stand_back()
    try:
        with suppress(BrokenPipeError):  # nobody reads any more
            _answer(out, told.run_dir, told.sink, told.limit, watched=told.watch)
    except Exception as error:  # noqa: BLE001 - the last place before the process ends
        with suppress(BrokenPipeError):
            frame(out, ERROR, _said(error).SerializeToString())
    return 0


def reader(run_dir: Path, wanted: str) -> Read:
    """Reads the newest rows of a launch, at most as many as it is told. Raises: JobError."""
    job = spec_pb2.JobSpec.FromString((run_dir / SPEC).read_bytes())
    has = {str(each.sink.WhichOneof("kind")): each for each in reversed(job.sinks)}
    listed = ", ".join(sorted(has)) or "none"
    if wanted and wanted not in has:
        raise user("NO_SUCH_SINK", f"{job.dagger} has no sink {wanted}; it has {listed}.")
    kinds = {kind: sinks.load(kind) for kind in has if wanted in ("", kind)}
    readable = [kind for kind, module in kinds.items() if hasattr(module, "read")]
    if not readable:
        raise user("SINK_NOT_READABLE", f"Rows cannot be read back from {wanted or listed}.")
    kind = min(readable, key=lambda each: (kinds[each].READ_RANK, each))
    source = Source(job.dagger, has[kind], job.descriptors, run_dir)
    return lambda limit: list(kinds[kind].read(source, limit))


def news(read: Read, pause: Callable[[float], None] = time.sleep) -> Iterator[list[Row]]:
    """After each look the rows that have appeared, or changed while their window is open; oldest first."""
    seen: set[bytes] = set()
    while True:
        found = [(row, row.to_proto().SerializeToString(deterministic=True)) for row in read(WATCHED_ROWS)]
        yield [row for row, whole in reversed(found) if whole not in seen]
        seen = {whole for _, whole in found}
        pause(WATCH_S)


def steps(rows: Iterable[Row]) -> Iterator[gateway_pb2.ReadRowsResponse]:
    """The rows in messages that a client takes."""
    step, size = gateway_pb2.ReadRowsResponse(), 0
    for row in rows:
        told = row.to_proto()
        if step.rows and (size + told.ByteSize() > STEP_BYTES or len(step.rows) == STEP_ROWS):
            yield step
            step, size = gateway_pb2.ReadRowsResponse(), 0
        step.rows.append(told)
        size += told.ByteSize()
    if step.rows:
        yield step


def frame(out: BinaryIO, kind: bytes, message: bytes) -> None:
    """Write one frame. Raises: BrokenPipeError."""
    out.write(kind + len(message).to_bytes(4, "big") + message)
    out.flush()


def _answer(out: BinaryIO, run_dir: Path, sink: str, limit: int, *, watched: bool) -> None:
    read = reader(run_dir, sink)
    looks: Iterable[Sequence[Row]] = news(read) if watched else [read(limit)]
    for rows in looks:
        for step in steps(rows):
            frame(out, ROWS, step.SerializeToString())
        if watched and not rows:
            frame(out, ROWS, b"")  # so that who watches knows, and we that somebody does


def _said(error: Exception) -> events_pb2.DaggerError:
    if isinstance(error, MemoryError):
        return user("TOO_MANY_ROWS", "The rows do not fit into memory: ask for fewer.").error
    said = explain(error)
    if said.reason == "UNEXPECTED":
        said.detail = f"The rows could not be read ({type(error).__name__})."
    return said


def _stand_back() -> None:
    """Take less of everything than what runs beside us, and be the first to go when memory is short."""
    os.nice(10)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


if __name__ == "__main__":
    sys.exit(main())
