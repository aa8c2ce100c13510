"""`python -m runtime.readrows --run-dir DIR`: reads back the rows of a launch, in a process of its own.

It resolves the secrets of the sink; neither its arguments nor what it says has one. Its standard input is a
ReadHostRowsRequest. What it finds goes to its standard output, in frames: one byte that says what it is, four
of length, and a serialised message.

    R  ReadRowsResponse    rows, in the order that was asked for
    E  DaggerError         why there are no more

With --watch it is asked nothing, and looks again and again, until its standard input ends. Rows are told
oldest first, in WatchRowsResponses: after each look one R at least, with what is new, and, if a byte came
from the standard input, one S at least, with all rows there are.
"""

from __future__ import annotations

import argparse
import os
import select
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final, TypeVar

from daggers.v1 import gateway_pb2, host_pb2, spec_pb2

from daggerspec.columns import from_proto
from daggerspec.limits import WATCH_S, WATCHED_ROWS
from daggerspec.row import Row
from daggerspec.rundir import SPEC
from daggerspec.selection import Selection, asked
from daggerspec.sinks import called
from runtime import framed, sinks
from runtime.errors import user
from runtime.framed import frame
from runtime.sinks import Source

ROWS, SNAPSHOT = b"R", b"S"
STEP_ROWS: Final = 10_000
STEP_BYTES: Final = 1024 * 1024
Step = TypeVar("Step", gateway_pb2.ReadRowsResponse, gateway_pb2.WatchRowsResponse)


def main() -> int:
    """Read and write frames; 0 when all is said."""
    parser = argparse.ArgumentParser(prog="python -m runtime.readrows")
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--sink", default="")
    parser.add_argument("--watch", action="store_true")
    told = parser.parse_args()
    return framed.answer("rows", lambda out: _answer(out, told.run_dir, told.sink, watched=told.watch))


class Reader:
    """Reads the rows of a launch back from one of its sinks."""

    def __init__(self, run_dir: Path, wanted: str) -> None:
        """`wanted` names a sink, or its kind; empty: the one that keeps rows best. Raises: JobError."""
        job = spec_pb2.JobSpec.FromString((run_dir / SPEC).read_bytes())
        has = dict(zip(called([sink.sink for sink in job.sinks]), job.sinks, strict=True))
        kinds = {name: str(sink.sink.WhichOneof("kind")) for name, sink in has.items()}
        listed = ", ".join(sorted(has)) or "none"
        meant = [wanted] if wanted in has else [name for name in has if wanted in ("", kinds[name])]
        if not meant and wanted:
            raise user("NO_SUCH_SINK", f"{job.dagger} has no sink {wanted}; it has {listed}.")
        modules = {name: sinks.load(kinds[name]) for name in meant}
        readable = [name for name, module in modules.items() if hasattr(module, "read")]
        if not readable:
            raise user("SINK_NOT_READABLE", f"Rows cannot be read back from {wanted or listed}.")
        best = min(  # who gets only some of the rows cannot tell of all
            readable, key=lambda name: (bool(has[name].sink.when), modules[name].READ_RANK, kinds[name], name)
        )
        self._sink = modules[best]
        self._source = Source(job.dagger, has[best], job.descriptors, run_dir)

    def read(self, wanted: Selection) -> list[Row]:
        """The rows that are asked for. Raises: JobError."""
        return list(self._sink.read(self._source, wanted))

    def looks(self, limit: int) -> Iterator[list[Row]]:
        """The newest rows again and again; a sink that can read only what is new does. Raises: JobError."""
        if hasattr(self._sink, "watch"):
            yield from self._sink.watch(self._source, limit)
        while True:
            yield self.read(Selection(limit))


@dataclass(frozen=True)
class News:
    """What a look has found, oldest first."""

    new: Sequence[Row]
    """What has appeared, or changed while its window is open, since the look before; nothing in the first."""
    missed: bool
    """Whether there may be more that is new than a look gives."""
    rows: Sequence[Row]
    """All rows that a look gives."""
    more: bool
    """Whether there are older ones."""


def news(looks: Iterable[Sequence[Row]]) -> Iterator[News]:
    """What each look has found; a look has the newest rows, newest first, and one more than are told."""
    seen: set[bytes] | None = None
    for look in looks:
        more, told = len(look) > WATCHED_ROWS, look[:WATCHED_ROWS]
        serialised = [(row, row.to_proto().SerializeToString(deterministic=True)) for row in reversed(told)]
        new = [row for row, whole in serialised if seen is not None and whole not in seen]
        yield News(new, more and len(new) == WATCHED_ROWS, [row for row, _ in serialised], more)
        seen = {whole for _, whole in serialised}


def steps(rows: Iterable[Row], begin: Callable[[], Step]) -> Iterator[Step]:
    """The rows in messages that a client takes."""
    step, size = begin(), 0
    for row in rows:
        told = row.to_proto()
        if step.rows and (size + told.ByteSize() > STEP_BYTES or len(step.rows) == STEP_ROWS):
            yield step
            step, size = begin(), 0
        step.rows.append(told)
        size += told.ByteSize()
    yield step


def waited(seconds: float, source: int = 0) -> bool | None:
    """Wait for a byte of a descriptor: whether one came; None when it has ended."""
    if not select.select([source], [], [], seconds)[0]:
        return False
    return True if os.read(source, 4096) else None


def _answer(out: BinaryIO, run_dir: Path, sink: str, *, watched: bool) -> None:
    if watched:
        _watch(out, Reader(run_dir, sink))
        return
    request = host_pb2.ReadHostRowsRequest.FromString(sys.stdin.buffer.read())
    wanted = asked(request.request, [from_proto(column) for column in request.columns])
    selected = partial(gateway_pb2.ReadRowsResponse, selected=True)
    for step in steps(Reader(run_dir, sink).read(wanted), selected):
        frame(out, ROWS, step.SerializeToString())


def _watch(out: BinaryIO, reader: Reader) -> None:
    looks = news(reader.looks(WATCHED_ROWS + 1))
    while (asked := waited(WATCH_S)) is not None:
        look = next(looks)
        for step in steps(look.new, partial(gateway_pb2.WatchRowsResponse, truncated=look.missed)):
            frame(out, ROWS, step.SerializeToString())
        if asked:
            snapshot = partial(gateway_pb2.WatchRowsResponse, snapshot=True, truncated=look.more)
            for step in steps(look.rows, snapshot):
                frame(out, SNAPSHOT, step.SerializeToString())


if __name__ == "__main__":
    sys.exit(main())
