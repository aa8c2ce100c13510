"""Prints rows to the driver's log, one JSON object a line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from daggers.v1 import spec_pb2

from daggerspec.capabilities import Capabilities, Guarantee
from daggerspec.destination import Destination
from daggerspec.keys import Key
from daggerspec.kind import ValidationContext, no_messages
from daggerspec.violation import Violation

CAPABILITIES: Final = Capabilities(
    guarantee=Guarantee.AT_LEAST_ONCE,
    because="for people to look at, a batch that is repeated after a crash is printed again",
    upserts=False,
    repeats_tellable=False,
    records=True,
    keeps_order=True,
)
TIME_SERIES: Final = False
KEYS: Final = (Key("limit", "Rows printed for each batch; without it 100.", least=1, most=1_000_000),)
DEFAULT_LIMIT: Final = 100


def fill(sink: spec_pb2.LogSink, dagger: str, spec: spec_pb2.DaggerSpec) -> None:
    """Say its defaults."""
    del dagger, spec
    sink.limit = sink.limit or DEFAULT_LIMIT


def resolve(path: str, resolved: spec_pb2.ResolvedSink, context: ValidationContext) -> Iterator[Violation]:
    """Yield nothing: it has no address."""
    del path, resolved, context
    yield from ()


def destination(resolved: spec_pb2.ResolvedSink) -> Destination | None:
    """Return None: its rows are in the log of its dagger's driver."""
    del resolved
    return None


def violations(path: str, sink: spec_pb2.LogSink, context: ValidationContext) -> Iterator[Violation]:
    """Yield nothing: any limit is valid."""
    del path, sink, context
    yield from ()


messages = no_messages
