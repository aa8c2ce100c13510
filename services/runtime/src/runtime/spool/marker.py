"""Encode the marker behind the rows of a batch in a log: all that is needed to write them later. Pure."""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import pyarrow as pa

from daggerspec.columns import Column, Role
from runtime.encode.rows import Layout
from runtime.sinks import BatchRef, Target


@dataclass(frozen=True, slots=True)
class SpooledPart:
    """Rows of one partition of a batch, as one attempt of a worker has appended them to the log."""

    number: int
    attempt: str
    """Id of the attempt: records of any other are left from one that was repeated."""
    records: int
    rows: int
    size: int
    """Bytes of the records."""

    def encode(self) -> bytes:
        """Encode it for a report row."""
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def decode(content: bytes) -> SpooledPart:
        """Decode what `encode` made."""
        return SpooledPart(**json.loads(content))


@dataclass(frozen=True, slots=True)
class Marker:
    """All that is known of a batch of one sink whose rows stand before it in the log."""

    batch: BatchRef
    parts: tuple[SpooledPart, ...]
    oldest: float | None
    """End of the window of the oldest row, in seconds since 1970; None where no row has an age."""
    target: Target
    """The sink with the columns of these rows."""
    marked: float
    """Time at which the batch was put here, in seconds since 1970."""

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(part.rows for part in self.parts)

    @property
    def size(self) -> int:
        """Bytes of the rows' records."""
        return sum(part.size for part in self.parts)

    def encode(self) -> bytes:
        """Encode it as a record's value."""
        form = {
            "batch": asdict(self.batch),
            "parts": [asdict(part) for part in self.parts],
            "oldest": self.oldest,
            "target": _target_form(self.target),
            "marked": self.marked,
        }
        return zlib.compress(json.dumps(form, default=_value).encode())

    @staticmethod
    def decode(value: bytes) -> Marker:
        """Decode what `encode` made. Raises: ValueError, KeyError, TypeError for anything else."""
        try:
            form = json.loads(zlib.decompress(value))
        except zlib.error as problem:
            raise ValueError(str(problem)) from problem
        return Marker(
            BatchRef(**form["batch"]),
            tuple(SpooledPart(**part) for part in form["parts"]),
            form["oldest"],
            _read_target(form["target"]),
            form["marked"],
        )


def choose_target(recorded: Target, now: Target | None) -> Target:
    """Return the sink to write recorded rows to: as the launch has it, if its columns are those of the rows.

    So a corrected address counts for rows that wait. Where a query changed as well, the sink is as it was.
    """
    if now is None:
        return recorded
    is_same = (recorded.layout, recorded.schema, recorded.kind) == (now.layout, now.schema, now.kind)
    return now if is_same else replace(recorded, may_refuse=now.may_refuse)


def _target_form(target: Target) -> Mapping[str, Any]:
    return {
        "dagger": target.dagger,
        "sink": _text(target.sink),
        "layout": asdict(replace(target.layout, columns=tuple(map(_plain, target.layout.columns)))),
        "schema": _text(target.schema.serialize().to_pybytes()),
        "descriptors": _text(target.descriptors),
        "updates": target.updates,
    }


def _plain(column: Column) -> Column:
    """Return a column without what is only drawn."""
    return replace(column, cell=None)


def _read_target(form: Mapping[str, Any]) -> Target:
    layout = form["layout"]
    columns = [Column(**{**column, "role": Role(column["role"])}) for column in layout["columns"]]
    return Target(
        form["dagger"],
        b64decode(form["sink"]),
        Layout(
            tuple(columns),
            tuple(layout["hidden"]),
            tuple(layout["key"]),
            tuple((message, number) for message, number in layout["fields"]),
            layout["has_records"],
        ),
        pa.ipc.read_schema(pa.BufferReader(b64decode(form["schema"]))),
        b64decode(form["descriptors"]),
        form["updates"],
    )


def _value(role: Role) -> str:
    return role.value


def _text(content: bytes) -> str:
    return b64encode(content).decode("ascii")


def parts_of(contents: Sequence[bytes]) -> tuple[SpooledPart, ...]:
    """Decode the parts that workers reported, in the order of their numbers."""
    return tuple(sorted(map(SpooledPart.decode, contents), key=lambda part: part.number))
