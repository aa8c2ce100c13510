"""The interface of a kind of sink, and the rules that kinds share. The kinds are the files of `sinks/`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

from daggers.v1 import spec_pb2

from daggerspec import fit, query
from daggerspec.capabilities import Capabilities
from daggerspec.catalogue import Catalogue, UnresolvedName
from daggerspec.columns import QueryOutput, is_of_records
from daggerspec.keys import Key
from daggerspec.violation import Violation


@dataclass(frozen=True, slots=True)
class ValidationContext:
    """The dagger, specification and catalogue that a sink is checked against."""

    dagger: str
    spec: spec_pb2.DaggerSpec
    catalogue: Catalogue
    output: QueryOutput | None = None
    """The rows it gets; None where the query gives none."""


Asked: TypeAlias = ValidationContext
"""The name by which drop-in kinds of sinks import it."""


Resolved: TypeAlias = tuple[spec_pb2.ResolvedSink, Sequence[Violation]]
"""A sink with its address, and which of its names stand for nothing."""


def own_address(
    path: str, resolved: spec_pb2.ResolvedSink, context: ValidationContext
) -> Iterator[Violation]:
    """`Kind.resolve` of a kind whose address is its own: nobody but who wrote it vouches for it."""
    del path, context
    resolved.egress.SetInParent()
    yield from ()


def no_messages(sink: object) -> Mapping[str, str]:
    """`Kind.messages` of a kind that writes none."""
    del sink
    return {}


def records_only(path: str, word: str, context: ValidationContext, *, is_said: bool) -> Iterator[Violation]:
    """Yield the violations of a form of rows that goes with `payload: record`, and of that with the form."""
    if is_said and not query.has_records(context.spec):
        problem = f"{word} goes with payload: record of a forwarding alone"
        yield Violation(path, problem, "RAW_NEEDS_FORWARD")
    elif query.has_records(context.spec) and not is_said:
        yield Violation(path, f"must be {word}, or not be said: payload: record has no other", "UNEXPECTED")


def order_violations(path: str, context: ValidationContext, *, ordered: bool) -> Iterator[Violation]:
    """Yield a violation if order is required of rows that are not made of one record each."""
    if ordered and context.output is not None and not is_of_records(context.output.hidden):
        problem = (
            "goes with rows that are made of one record each: windows and joins have no order of records"
        )
        yield Violation(path, problem, "UNEXPECTED")


ORDERED: Final = Key(
    "ordered",
    "Whether rows of a Kafka partition are sent in its order, one request at a time; without it as many at"
    " once as the server takes.",
)


def message_mismatches(path: str, name: str, context: ValidationContext) -> Iterator[Violation]:
    """Yield a violation for each column without a field in the message. Unknown messages have none."""
    if name and context.output is not None:
        with suppress(UnresolvedName):
            yield from fit.mismatches(path, context.output.columns, context.catalogue.message(name))


class Kind(Protocol):
    """The interface of a module of `sinks/`. `sink` is its own message."""

    CAPABILITIES: Capabilities
    """Guarantee, abilities and limits."""
    TIME_SERIES: bool
    """True if rows become points, whose tags, fields and time the check of a query warns of."""
    KEYS: Sequence[Key]
    """Its keys in a dagger file."""

    def fill(self, sink: Any, dagger: str, spec: spec_pb2.DaggerSpec) -> None:
        """Say its defaults. Twice is as once."""

    def resolve(
        self, path: str, resolved: spec_pb2.ResolvedSink, context: ValidationContext
    ) -> Iterator[Violation]:
        """Fill in addresses from clusters, and tell of names that stand for nothing; `path` is its own.

        An address that no administrator registered is held to rules: `egress` is set, and a launch fills it.
        """

    def violations(self, path: str, sink: Any, context: ValidationContext) -> Iterator[Violation]:
        """Yield the violations of its message, addresses filled in; `path` is the message's."""

    def messages(self, sink: Any) -> Mapping[str, str]:
        """Full names of the Protobuf messages that it writes, by the fields that name them."""
