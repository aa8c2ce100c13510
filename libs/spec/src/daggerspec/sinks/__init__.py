"""Kinds of sinks. This folder is the registry: `sinks/influx.py` is all that is known of the sink `influx`
beside how it is written to, which is `runtime/sinks/influx.py`. Nothing else lists kinds.

A kind is a module whose docstring says in its first line what it does, and that has what `Kind` says. Its
message is the member of its name of the oneof `Sink.kind` in spec.proto.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, cast

from daggers.v1 import spec_pb2

from daggerspec.catalogue import Catalogue, Unresolved
from daggerspec.columns import Output
from daggerspec.keys import Key
from daggerspec.violation import Violation


@dataclass(frozen=True, slots=True)
class Asked:
    """What a sink is a part of."""

    dagger: str
    spec: spec_pb2.DaggerSpec
    catalogue: Catalogue
    output: Output | None = None
    """The rows it gets; None where the query gives none."""


class Kind(Protocol):
    """What a module of this folder has. `sink` is its own message."""

    GUARANTEE: str
    """What becomes of rows when something crashes, in a few words."""
    UPSERTS: bool
    """Whether a row that is written again takes the place of the one before: what `emit: early` needs."""
    TIME_SERIES: bool
    """Whether rows become points, whose tags, fields and time the check of a query warns of."""
    KEYS: Sequence[Key]
    """Its keys in a dagger file."""

    def fill(self, sink: Any, dagger: str, spec: spec_pb2.DaggerSpec) -> None:
        """Say its defaults. Twice is as once."""

    def resolve(self, path: str, resolved: spec_pb2.ResolvedSink, asked: Asked) -> Iterator[Violation]:
        """Fill in addresses from clusters, and tell of names that stand for nothing; `path` is its own."""

    def violations(self, path: str, sink: Any, asked: Asked) -> Iterator[Violation]:
        """What else is wrong with it, addresses filled in; `path` is its own."""

    def messages(self, sink: Any) -> Mapping[str, str]:
        """Full names of the Protobuf messages that it writes, by the fields that name them."""


@cache  # a look at the folder takes longer than all other checks of a spec
def names() -> tuple[str, ...]:
    """The kinds there are."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


@cache  # each view of a dagger asks
def load(name: str) -> Kind:
    """A kind that there is."""
    return cast(Kind, importlib.import_module(f"{__name__}.{name}"))


def kinds() -> dict[str, Kind]:
    """All kinds, by name."""
    return {name: load(name) for name in names()}


def about(kind: Kind) -> str:
    """What a kind does, in a sentence."""
    return (getattr(kind, "__doc__", "") or "").partition("\n")[0]


def kind_of(sink: spec_pb2.Sink) -> str | None:
    """The kind of a sink; None when it names none, or none that there is."""
    name = sink.WhichOneof("kind")
    return name if name in names() else None


def fill(sink: spec_pb2.Sink, dagger: str, spec: spec_pb2.DaggerSpec) -> None:
    """Say the defaults of a sink of a dagger."""
    if name := kind_of(sink):
        load(name).fill(getattr(sink, name), dagger, spec)


def resolve(
    path: str, sink: spec_pb2.Sink, asked: Asked
) -> tuple[spec_pb2.ResolvedSink, Sequence[Violation]]:
    """A sink with the empty parts of its address taken from its cluster, and what stands for nothing."""
    resolved = spec_pb2.ResolvedSink(sink=sink)
    name = kind_of(sink)
    if name is None:
        return resolved, [Violation(path, f"must be one of {', '.join(names())}", "REQUIRED")]
    return resolved, list(load(name).resolve(f"{path}.{name}", resolved, asked))


def unresolved(path: str, sink: spec_pb2.Sink, asked: Asked) -> Iterator[Violation]:
    """The names of a sink that stand for nothing."""
    yield from resolve(path, sink, asked)[1]
    yield from _unknown_messages(path, sink, asked)


def violations(path: str, sink: spec_pb2.Sink, asked: Asked) -> Iterator[Violation]:
    """Everything that is wrong with a sink."""
    resolved, wrong = resolve(path, sink, asked)
    yield from wrong
    yield from _unknown_messages(path, sink, asked)
    name = kind_of(sink)
    if name is None:
        return
    kind = load(name)
    yield from kind.violations(f"{path}.{name}", getattr(resolved.sink, name), asked)
    if asked.spec.emit == spec_pb2.EMIT_EARLY and not kind.UPSERTS:
        upserting = " or ".join(other for other, each in kinds().items() if each.UPSERTS)
        what = f"a {name} sink cannot take updates: emit final, or use a sink that can ({upserting})"
        yield Violation(path, what, "NOT_UPSERT")


def _unknown_messages(path: str, sink: spec_pb2.Sink, asked: Asked) -> Iterator[Violation]:
    for field, message in messages(sink).items():
        try:
            asked.catalogue.message(message)
        except Unresolved as error:
            yield Violation(f"{path}.{kind_of(sink)}.{field}", error.detail, error.reason)


def messages(sink: spec_pb2.Sink) -> Mapping[str, str]:
    """Full names of the Protobuf messages that a sink writes, by the fields that name them."""
    name = kind_of(sink)
    return load(name).messages(getattr(sink, name)) if name else {}


def is_time_series(spec: spec_pb2.DaggerSpec) -> bool:
    """Whether rows of a dagger become points of a time-series store."""
    return any(name and load(name).TIME_SERIES for name in map(kind_of, spec.sinks))
