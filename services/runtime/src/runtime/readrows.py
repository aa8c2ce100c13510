"""Read rows of a launch back in a process of its own: `python -m runtime.readrows --run-dir DIR`.

It resolves the secrets of the sink; neither its arguments nor its output has one. Its standard input is a
ReadHostRowsRequest. Frames on standard output:

    R  ReadRowsResponse    rows, in the requested order
    E  DaggerError         why there are no more

With --watch there is no request: it reads again and again, until its standard input ends. Rows come
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

from daggerspec import late
from daggerspec.columns import from_proto
from daggerspec.limits import WATCH_S, WATCHED_ROWS
from daggerspec.row import Row
from daggerspec.rundir import SPEC
from daggerspec.selection import Selection, from_request
from daggerspec.sinks import display_names
from runtime import framed, sinks
from runtime.errors import user
from runtime.framed import frame
from runtime.sinks import Source

ROWS, SNAPSHOT = b"R", b"S"
STEP_ROWS: Final = 10_000
STEP_BYTES: Final = 1024 * 1024
Step = TypeVar("Step", gateway_pb2.ReadRowsResponse, gateway_pb2.WatchRowsResponse)


def main() -> int:
    """Read and write frames; return 0."""
    parser = argparse.ArgumentParser(prog="python -m runtime.readrows")
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--sink", default="")
    parser.add_argument("--watch", action="store_true")
    arguments = parser.parse_args()
    return framed.answer(
        "rows", lambda out: _answer(out, arguments.run_dir, arguments.sink, watched=arguments.watch)
    )


class RowReader:
    """Reads the rows of a launch back from one of its sinks."""

    def __init__(self, run_dir: Path, wanted: str) -> None:
        """Choose the sink. `wanted` names it, or its kind; empty: the one that keeps rows best. Raises:
        JobError.
        """
        job = spec_pb2.JobSpec.FromString((run_dir / SPEC).read_bytes())
        named = zip(display_names([sink.sink for sink in job.sinks]), job.sinks, strict=True)
        has = {name: sink for name, sink in named if not late.takes_late(job.spec, sink.sink)}
        if wanted and wanted == job.spec.late.keep:
            raise user(
                "SINK_NOT_READABLE", f"{wanted} of {job.dagger} takes late records, which are no rows."
            )
        kinds = {name: str(sink.sink.WhichOneof("kind")) for name, sink in has.items()}
        listed = ", ".join(sorted(has)) or "none"
        candidates = [wanted] if wanted in has else [name for name in has if wanted in ("", kinds[name])]
        if not candidates and wanted:
            raise user("NO_SUCH_SINK", f"{job.dagger} has no sink {wanted}; it has {listed}.")
        modules = {name: sinks.load(kinds[name]) for name in candidates}
        readable = [name for name, module in modules.items() if hasattr(module, "read")]
        if not readable:
            raise user("SINK_NOT_READABLE", f"Rows cannot be read back from {wanted or listed}.")
        best = min(  # a sink with only some of the rows comes last
            readable, key=lambda name: (bool(has[name].sink.when), modules[name].READ_RANK, kinds[name], name)
        )
        self._sink = modules[best]
        self._source = Source(job.dagger, has[best], job.descriptors, run_dir)

    def read(self, wanted: Selection) -> list[Row]:
        """Read the rows that a selection names. Raises: JobError."""
        return list(self._sink.read(self._source, wanted))

    def looks(self, limit: int) -> Iterator[list[Row]]:
        """Yield the newest rows again and again; only the new ones where a sink can. Raises: JobError."""
        if hasattr(self._sink, "watch"):
            yield from self._sink.watch(self._source, limit)
        while True:
            yield self.read(Selection(limit))


@dataclass(frozen=True)
class News:
    """Result of a look, oldest first."""

    new: Sequence[Row]
    """Rows that appeared, or changed while their window is open, since the look before; none in the first."""
    missed: bool
    """True if there may be more new rows than a look gives."""
    rows: Sequence[Row]
    """All rows of the look."""
    more: bool
    """True if there are older rows."""


def news(looks: Iterable[Sequence[Row]]) -> Iterator[News]:
    """Compare looks: each has the newest rows, newest first, and one more than are sent."""
    before: set[bytes] | None = None
    for look in looks:
        more, newest = len(look) > WATCHED_ROWS, look[:WATCHED_ROWS]
        serialised = [(row, row.to_proto().SerializeToString(deterministic=True)) for row in reversed(newest)]
        new = [row for row, whole in serialised if before is not None and whole not in before]
        yield News(new, more and len(new) == WATCHED_ROWS, [row for row, _ in serialised], more)
        before = {whole for _, whole in serialised}


def steps(rows: Iterable[Row], begin: Callable[[], Step]) -> Iterator[Step]:
    """Yield the rows in messages that a client takes."""
    step, size = begin(), 0
    for row in rows:
        message = row.to_proto()
        if step.rows and (size + message.ByteSize() > STEP_BYTES or len(step.rows) == STEP_ROWS):
            yield step
            step, size = begin(), 0
        step.rows.append(message)
        size += message.ByteSize()
    yield step


def wait_for_byte(seconds: float, source: int = 0) -> bool | None:
    """Wait for a byte of a descriptor; tell whether one came, None when it has ended."""
    if not select.select([source], [], [], seconds)[0]:
        return False
    return True if os.read(source, 4096) else None


def _answer(out: BinaryIO, run_dir: Path, sink: str, *, watched: bool) -> None:
    if watched:
        _watch(out, RowReader(run_dir, sink))
        return
    request = host_pb2.ReadHostRowsRequest.FromString(sys.stdin.buffer.read())
    wanted = from_request(request.request, [from_proto(column) for column in request.columns])
    selected = partial(gateway_pb2.ReadRowsResponse, selected=True)
    for step in steps(RowReader(run_dir, sink).read(wanted), selected):
        frame(out, ROWS, step.SerializeToString())


def _watch(out: BinaryIO, reader: RowReader) -> None:
    looks = news(reader.looks(WATCHED_ROWS + 1))
    while (wants_snapshot := wait_for_byte(WATCH_S)) is not None:
        look = next(looks)
        for step in steps(look.new, partial(gateway_pb2.WatchRowsResponse, truncated=look.missed)):
            frame(out, ROWS, step.SerializeToString())
        if wants_snapshot:
            snapshot = partial(gateway_pb2.WatchRowsResponse, snapshot=True, truncated=look.more)
            for step in steps(look.rows, snapshot):
                frame(out, SNAPSHOT, step.SerializeToString())


if __name__ == "__main__":
    sys.exit(main())
