"""Consequences of a start without the dagger's checkpoint: records that are missed, and rows that are
written again.

Pure. The command tells it before it asks, a driver when it does it, an operator reads it in a warning.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC
from typing import Final

from daggers.v1 import spec_pb2

from daggerspec import sinks

MARKER: Final = ".daggers-checkpoints"
"""The file in the root of all checkpoints that says that it is this."""
MARKED: Final = "The checkpoints of daggers are kept here.\n"
"""The content of MARKER."""
ROOT_MISSING: Final = "CHECKPOINT_ROOT_MISSING"
GONE: Final = "CHECKPOINT_GONE"
DAMAGED: Final = "CHECKPOINT_DAMAGED"
BEGUN: Final = "CHECKPOINT_BEGUN_ANEW"
"""The warning of a driver that began anew by itself, or was asked to."""


def overwrites(spec: spec_pb2.DaggerSpec) -> bool:
    """Return whether every sink puts a recomputed row in the place of the one before."""
    return bool(spec.sinks) and all(sinks.overwrites(sink) for sink in spec.sinks)


def names_a_place(start: spec_pb2.StartPosition) -> bool:
    """Return whether a start names records that have come already: `latest` names none of them."""
    return start.WhichOneof("position") == "at" or start.earliest


def consequences(spec: spec_pb2.DaggerSpec) -> str:
    """Describe what a dagger that begins anew misses and writes twice: one clause for each, by `;`."""
    return "; ".join(_consequences(spec))


def _consequences(spec: spec_pb2.DaggerSpec) -> Iterator[str]:
    missed = [input_.stream for input_ in spec.streams if not names_a_place(input_.start)]
    if missed:
        came = f"what came to {_and(missed)} since it was last read"
        yield f"{came} is in no row, nor are windows that were open"
    for input_ in spec.streams:
        if input_.start.WhichOneof("position") == "at":
            since = input_.start.at.ToDatetime(UTC).isoformat().replace("+00:00", "Z")
            yield f"{input_.stream} is read again from {since} on, as far as Kafka holds that"
        elif input_.start.earliest:
            yield f"{input_.stream} is read again from the oldest record that Kafka holds"
    names = sinks.display_names(spec.sinks)
    again = [name for name, sink in zip(names, spec.sinks, strict=True) if not sinks.overwrites(sink)]
    if again and len(missed) < len(spec.streams):
        yield f"{_and(again)} may get rows again that were written before"
    elif len(missed) < len(spec.streams):
        yield "rows that were written before are written over"


def _and(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
