"""Where rows go. This folder is the registry: `sinks/influx.py` is the sink `influx`.

A sink is a module whose docstring states its guarantee and that has two functions:

    check(target) -> None       in the driver, before the query starts: raises `JobError` for what cannot work
    open(target) -> Writer      in a Python worker, for one partition of one batch; clients are kept

It may have four more. Who tries a sink calls the first two, the driver the others:

    ask(target) -> str                      what it answers to a question, in a sentence; raises `JobError`
    rehearse(target, row) -> str            what a batch would do there, taken back, in a sentence; raises
                                            `JobError` for what no row can pass. `row` is made up, or None
    probe(target) -> None                   while it takes no rows: raises `JobError` as long as that is so
    commit(target, batch, receipts) -> None when every partition of a batch has finished, what they staged
                                            becomes valid; asked twice, the second time changes nothing

What fails is one of three, and nothing else. Rows that can never be written are refused, and set aside. A
`TemporaryError` says that the sink takes none just now, any other `JobError` (EXTERNAL, retryable) that
somebody has to act: who may write, where, into what. Both wait; what is not retryable ends the job.

A sink whose rows can be read back has two more:

    READ_RANK                       the sink of the least is read when nobody says: what keeps every row first
    read(source, wanted) -> [Row]   the rows that a Selection wants, newest first; raises `JobError`
    watch(source, limit)            yields the newest again and again; only where that reads less than `read`

What is newest the sink says: by the time of the row, if its store knows that, else by when it was written.

Only the module that a job names is imported.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Protocol

import pyarrow as pa
from daggers.v1 import spec_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from runtime.encode.rows import Layout, Refusal
from runtime.errors import user


@dataclass(frozen=True, slots=True)
class BatchRef:
    """Which batch: its number alone begins again with every checkpoint, which an edit makes new."""

    checkpoint: str
    """Its checkpoint: the fingerprint of what the query computes, and the id that it got when it was made."""
    batch_id: int
    generation: int
    """The launch that writes it; a later one may write the same batch again."""


@dataclass(frozen=True, slots=True)
class Part:
    """One partition of a batch. It has the same rows in every attempt, if in another order."""

    batch: BatchRef
    number: int


@dataclass(frozen=True, slots=True)
class Target:
    """One sink of one launch: what a worker needs to write there. Picklable."""

    dagger: str
    sink: bytes
    """A serialised `ResolvedSink`."""
    layout: Layout
    schema: pa.Schema
    """The Arrow schema of the rows, visible and hidden columns."""
    descriptors: bytes
    """A serialised `FileDescriptorSet`: every message the sinks name."""
    updates: bool
    """Whether rows come again and again while their window is open (`emit: early`)."""
    part: Part | None = None
    """What a worker writes there now; None in the driver."""
    is_replay: bool = False
    """Whether its rows were set aside before: they belong to no batch, and none that was written since has
    them."""
    corrects: str = ""
    """The replay that computes again what its rows are; empty: none was there before."""
    may_refuse: bool = False
    """Whether all of its rows may be refused, because somebody has said so."""
    condition: str = ""
    """The column that says which rows of a batch it gets; empty: all."""

    @property
    def no_rows(self) -> pa.RecordBatch:
        """A batch of this schema without rows: what encodes it can encode its types."""
        return pa.RecordBatch.from_pylist([], schema=self.schema)

    @property
    def resolved(self) -> spec_pb2.ResolvedSink:
        """The sink with its address."""
        return spec_pb2.ResolvedSink.FromString(self.sink)

    @property
    def name(self) -> str:
        """What it is called in its dagger: never by its place, which an edit may change."""
        return self.resolved.sink.name or self.kind

    @property
    def writes(self) -> Part:
        """What a worker writes there now. Raises: ValueError in the driver, which writes nothing."""
        if self.part is None:
            raise ValueError("nothing is written")
        return self.part

    @property
    def may_refuse_all(self) -> bool:
        """Whether rows are refused of which none passes: so it was allowed, or they were set aside before."""
        return self.may_refuse or self.is_replay

    @property
    def max_refused(self) -> float | None:
        """The share of rows that it may refuse; None where all of them may be set aside."""
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
    """One sink of one launch, to be read back."""

    dagger: str
    resolved: spec_pb2.ResolvedSink
    descriptors: FileDescriptorSet
    """Every message the sinks name."""
    run_dir: Path


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of rows."""

    refused: Sequence[Refusal] = ()
    """Rows of `rows` that can never be written."""
    rows: pa.RecordBatch | None = None
    """What `refused` counts in, where that is not the batch that was given."""
    printed: Sequence[str] = ()
    """Lines for the driver's log."""
    receipt: bytes = b""
    """What `commit` is to be told of this partition."""


class Writer(Protocol):
    """Writes the rows of one partition of one batch."""

    def write(self, batch: pa.RecordBatch, batch_id: int) -> Outcome:
        """Take every row; it may keep some until `finish`.

        Raises `JobError`, as above. After a `TemporaryError` it is asked for the same again, here or in
        another attempt: rows that were written are written again.
        """

    def finish(self) -> Outcome:
        """End the partition: all rows that are not refused are durable, or staged for `commit`.

        Raises as `write`, and is asked again as well.
        """


class RowWriter:
    """Sends rows as they come, and keeps none."""

    def __init__(self, sent: Callable[[pa.RecordBatch], Sequence[Refusal]]) -> None:
        """`sent` returns the rows that are refused when all others were taken. It raises as `write`."""
        self._sent = sent

    def write(self, batch: pa.RecordBatch, batch_id: int) -> Outcome:
        """Send a batch; the rows that the server refused. Asked again, it goes on with what is open."""
        del batch_id
        return Outcome(refused=self._sent(batch))

    def finish(self) -> Outcome:
        """Nothing is kept: what was sent was taken."""
        return Outcome()


@cache
def names() -> tuple[str, ...]:
    """The sinks there are."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


def load(name: str) -> ModuleType:
    """The module of a sink. Raises `JobError` (USER) that lists what exists."""
    if name not in names():
        raise user("UNKNOWN_SINK", f"There is no sink {name!r}; choose one of {', '.join(names())}.")
    return importlib.import_module(f"{__name__}.{name}")


def open_writer(target: Target) -> Writer:
    """A writer of the target's sink."""
    writer: Writer = load(target.kind).open(target)
    return writer


TAKES_ROWS = "It takes rows, as far as a question can tell."
"""What is said of a sink that answers, and says no more."""


def check(target: Target) -> None:
    """Raise `JobError` for a sink that cannot work, in the driver and before anything is read."""
    load(target.kind).check(target)


def is_probed(target: Target) -> bool:
    """Whether it can be asked if it takes rows again, at less cost than to write."""
    return hasattr(load(target.kind), "probe")


def probe(target: Target) -> None:
    """Return if the sink may take rows again, as far as one question can tell. Raises: JobError."""
    if is_probed(target):
        load(target.kind).probe(target)


def ask(target: Target) -> str:
    """What a sink says of itself, in a sentence; empty where it says nothing. Raises: JobError."""
    module = load(target.kind)
    if hasattr(module, "ask"):
        return str(module.ask(target))
    probe(target)
    return TAKES_ROWS if is_probed(target) else ""


def rehearse(target: Target, row: pa.RecordBatch | None) -> str:
    """What a batch of these rows would do, in a sentence; empty where a sink has no way to take it back.

    Raises: JobError for what no row can pass.
    """
    module = load(target.kind)
    return str(module.rehearse(target, row)) if hasattr(module, "rehearse") else ""


def commit(target: Target, batch: BatchRef, receipts: Sequence[bytes]) -> None:
    """Make valid what the partitions of a batch have staged. Twice is as once. Raises: JobError."""
    if receipts:
        load(target.kind).commit(target, batch, receipts)
