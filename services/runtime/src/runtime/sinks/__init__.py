"""Where rows go. This folder is the registry: `sinks/influx.py` is the sink `influx`.

A sink is a module whose docstring states its guarantee and that has two functions:

    check(target) -> None       in the driver, before the query starts: raises `JobError` for what cannot work
    open(target) -> Writer      in a Python worker, for one partition of one batch; clients are kept

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
from collections.abc import Sequence
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
    """What became of one Arrow batch: every row that is not refused is durable."""

    refused: Sequence[Refusal] = ()
    printed: Sequence[str] = ()
    """Lines for the driver's log."""


class Writer(Protocol):
    """Writes the rows of one partition of one batch."""

    def write(self, batch: pa.RecordBatch, batch_id: int) -> Outcome:
        """Write every row, and return when they are durable.

        Raises `TemporaryError` when trying again can help (rows already written are written again: every sink
        is idempotent by the row's key), and `JobError` when it cannot.
        """


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
    writer: Writer = load(target.name).open(target)
    return writer


def check(target: Target) -> None:
    """Raise `JobError` for a sink that cannot work, in the driver and before anything is read."""
    load(target.name).check(target)
