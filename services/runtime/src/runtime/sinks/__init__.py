"""Write rows to sinks. This folder is the registry: `sinks/influx.py` is the sink `influx`.

A sink is a module whose docstring states its guarantee and that has two functions:

    check(target) -> None       in the driver, before the query starts: raises `JobError` for what cannot work
    open(target) -> Writer      in a Python worker, for one partition of one batch; clients are cached

It may have four more. A trial of a sink calls the first two, the driver the others:

    ask(target) -> str                      its answer to a question, in a sentence; raises `JobError`
    rehearse(target, row) -> str            does what a batch would do, takes it back, and says so; raises
                                            `JobError` for what no row can pass. `row` is made up, or None
    probe(target) -> None                   while it takes no rows: raises `JobError` as long as that is so
    commit(target, batch, receipts) -> None when every partition of a batch has finished, makes valid what
                                            they staged; called twice, the second time changes nothing

What fails is one of three, and nothing else. Rows that can never be written are refused, and quarantined. A
`TemporaryError` says that the sink takes none just now, any other `JobError` (EXTERNAL, retryable) that
somebody has to act: who may write, where, into what. Both wait; what is not retryable ends the job.

A sink whose rows can be read back has two more:

    READ_RANK                       the sink of the least is read by default: what keeps every row comes first
    read(source, wanted) -> [Row]   the rows that a Selection wants, newest first; raises `JobError`
    watch(source, limit)            yields the newest again and again; only where that reads less than `read`

What is newest is up to the sink: by the row's time, if its store knows that, else by the time of the write.

Only the module that a job names is imported.
"""

from __future__ import annotations

import importlib
import pkgutil
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Protocol

import pyarrow as pa
from daggers.v1 import spec_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from daggerspec import destinations
from runtime.encode.rows import Layout, Refusal
from runtime.errors import user


@dataclass(frozen=True, slots=True)
class BatchRef:
    """Reference of a batch: its number alone begins again with every checkpoint, which an edit makes new."""

    checkpoint: str
    """Its checkpoint: the fingerprint of what the query computes, and the id that it got when it was made."""
    batch_id: int
    generation: int
    """The launch that writes it; a later one may write the same batch again."""


@dataclass(frozen=True, slots=True)
class Part:
    """Partition of a batch. It has the same rows in every attempt, if in another order."""

    batch: BatchRef
    number: int


@dataclass(frozen=True, slots=True)
class Target:
    """Sink of a launch, with all that a worker needs to write there. Picklable."""

    dagger: str
    sink: bytes
    """A serialised `ResolvedSink`."""
    layout: Layout
    schema: pa.Schema
    """The Arrow schema of the rows, visible and hidden columns."""
    descriptors: bytes
    """A serialised `FileDescriptorSet`: every message the sinks name."""
    updates: bool
    """True if rows come again and again while their window is open (`emit: early`)."""
    part: Part | None = None
    """Partition that a worker writes now; None in the driver."""
    is_replay: bool = False
    """True if its rows were quarantined before: they belong to no batch, and none that was written since has
    them."""
    corrects: str = ""
    """Id of the replay that computes its rows again; empty: none were there before."""
    may_refuse: bool = False
    """True if all of its rows may be refused, because somebody has allowed it."""
    condition: str = ""
    """Column that selects its rows of a batch; empty: all."""

    @property
    def no_rows(self) -> pa.RecordBatch:
        """Batch of this schema without rows: what encodes it can encode its types."""
        return pa.RecordBatch.from_pylist([], schema=self.schema)

    @property
    def resolved(self) -> spec_pb2.ResolvedSink:
        """The sink with its address."""
        return spec_pb2.ResolvedSink.FromString(self.sink)

    @property
    def name(self) -> str:
        """Name in its dagger: never its place, which an edit may change."""
        return self.resolved.sink.name or self.kind

    @property
    def writes(self) -> Part:
        """Partition that a worker writes now. Raises: ValueError in the driver, which writes nothing."""
        if self.part is None:
            raise ValueError("nothing is written")
        return self.part

    @property
    def may_refuse_all(self) -> bool:
        """True if rows may be refused though none passes: it was allowed, or they were quarantined before."""
        return self.may_refuse or self.is_replay

    @property
    def max_refused(self) -> float | None:
        """The share of rows that it may refuse; None where all of them may be quarantined."""
        sink = self.resolved.sink
        return sink.max_refused if sink.HasField("max_refused") else None

    @property
    def kind(self) -> str:
        """Name of the sink's module. Raises: JobError (USER) for a sink without one."""
        kind = self.resolved.sink.WhichOneof("kind")
        if kind is None:
            raise user("UNKNOWN_SINK", f"A sink names no kind; choose one of {', '.join(names())}.")
        return kind


@dataclass(frozen=True, slots=True)
class Source:
    """Sink of a launch, to be read back."""

    dagger: str
    resolved: spec_pb2.ResolvedSink
    descriptors: FileDescriptorSet
    """Every message the sinks name."""
    run_dir: Path


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of rows."""

    refused: Sequence[Refusal] = ()
    """Rows of `rows` that can never be written."""
    rows: pa.RecordBatch | None = None
    """Batch that `refused` counts in, where that is not the given one."""
    printed: Sequence[str] = ()
    """Lines for the driver's log."""
    receipt: bytes = b""
    """Message to `commit` about this partition."""


class Writer(Protocol):
    """Writes the rows of one partition of one batch."""

    def write(self, batch: pa.RecordBatch, batch_id: int) -> Outcome:
        """Take every row; a writer may hold some until `finish`.

        Raises `JobError`, as above. After a `TemporaryError` it is called with the same again, here or in
        another attempt: rows that were written are written again.
        """

    def finish(self) -> Outcome:
        """End the partition: all rows that are not refused are durable, or staged for `commit`.

        Raises as `write`, and is called again, too.
        """


class RowWriter:
    """Sends rows as they come, and holds none."""

    def __init__(self, sent: Callable[[pa.RecordBatch], Sequence[Refusal]]) -> None:
        """`sent` returns the rows that are refused when all others were taken. It raises as `write`."""
        self._sent = sent

    def write(self, batch: pa.RecordBatch, batch_id: int) -> Outcome:
        """Send a batch; return the rows that the server refused. Called again, it sends what is left."""
        del batch_id
        return Outcome(refused=self._sent(batch))

    def finish(self) -> Outcome:
        """Return no rows: all that were sent were accepted."""
        return Outcome()


@cache
def names() -> tuple[str, ...]:
    """List the sinks there are."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


def load(name: str) -> ModuleType:
    """Import the module of a sink. Raises `JobError` (USER) that lists what exists."""
    if name not in names():
        raise user("UNKNOWN_SINK", f"There is no sink {name!r}; choose one of {', '.join(names())}.")
    return importlib.import_module(f"{__name__}.{name}")


def open_writer(target: Target) -> Writer:
    """Open a writer of the target's sink."""
    writer: Writer = load(target.kind).open(target)
    return writer


TAKES_ROWS = "It takes rows, as far as a question can tell."
"""Sentence about a sink that answers without one."""


_locks: dict[tuple[str, ...], threading.Lock] = {}


def clients_of(target: Target) -> threading.Lock:
    """Return the lock of the clients that a target uses: in a driver they serve one thread at a time.

    One for all sinks of a kind at one address, however many members write there. Who waits for a server that
    does not answer holds nobody that writes to another.
    """
    return _locks.setdefault(_place(target), threading.Lock())


def _place(target: Target) -> tuple[str, ...]:
    """Return the kind of a sink and where it is: at least what its clients are told apart by."""
    resolved = target.resolved
    below = destinations.written_below(resolved.sink)
    servers = {*destinations.servers(resolved.sink).values(), resolved.kafka.bootstrap_servers}
    return target.kind, *sorted(servers), below[1] if below else ""


def check(target: Target) -> None:
    """Raise `JobError` for a sink that cannot work, in the driver and before anything is read."""
    load(target.kind).check(target)


def is_probed(target: Target) -> bool:
    """Tell whether a sink has a cheaper way than a write to find out if it takes rows again."""
    return hasattr(load(target.kind), "probe")


def probe(target: Target) -> None:
    """Return if the sink may take rows again, as far as one question can tell. Raises: JobError."""
    if is_probed(target):
        load(target.kind).probe(target)


def ask(target: Target) -> str:
    """Return a sink's sentence about itself; empty where it has none. Raises: JobError."""
    module = load(target.kind)
    if hasattr(module, "ask"):
        return str(module.ask(target))
    probe(target)
    return TAKES_ROWS if is_probed(target) else ""


def rehearse(target: Target, row: pa.RecordBatch | None) -> str:
    """Do what a batch of these rows would do, and return a sentence; empty where a sink cannot take it back.

    Raises: JobError for what no row can pass.
    """
    module = load(target.kind)
    return str(module.rehearse(target, row)) if hasattr(module, "rehearse") else ""


def commit(target: Target, batch: BatchRef, receipts: Sequence[bytes]) -> None:
    """Make valid what the partitions of a batch have staged. Twice is like once. Raises: JobError."""
    if receipts:
        load(target.kind).commit(target, batch, receipts)
