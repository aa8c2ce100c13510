"""Each row is a unary call of a method of a gRPC server.

`message` is the method's request, of a registered schema: columns go to its fields by name, as those of the
sink `kafka` with `format: protobuf`. Where the service is in that schema, too, it is checked that it has the
method, with this request. What the method returns is read for `success_if` alone: else the status of a call
says all.

A call has the metadata `idempotency-key`, which is the same when its row is sent again: a server that
remembers it takes each row once. Values of `metadata` may have `${column}` in them.

The status decides. OK and ALREADY_EXISTS: the row is taken. UNAVAILABLE, ABORTED, CANCELLED,
DEADLINE_EXCEEDED and RESOURCE_EXHAUSTED: it is sent again, after what `RetryInfo` or
`grpc-retry-pushback-ms` say. UNAUTHENTICATED, PERMISSION_DENIED (SINK_DENIED) and UNIMPLEMENTED
(SINK_MISSING): somebody has to act. INVALID_ARGUMENT, NOT_FOUND, FAILED_PRECONDITION, OUT_OF_RANGE and
DATA_LOSS: the row is quarantined, as is one that is too large. INTERNAL and UNKNOWN may mean either: the row
is sent again, and quarantined after five times if the server takes others meanwhile.

A method that says in its answer whether it took the row has `response`, the message that it returns, and
`success_if`: `response.success == true`, or several such comparisons (`==`, `!=`) with `&&` between them. A
row whose call is OK and whose answer says something else is sent again, and quarantined, as one with
UNKNOWN is.

A forwarding with `payload: record` sends the value of each record as the request, as it was read; `message`
is then the message of the stream. A record without a value (a tombstone) is quarantined.

With `ordered`, the next call of a Kafka partition is made once the one before it is settled: what is made
again holds up all behind it; what is quarantined does not. The first row of a batch that gets INTERNAL or
UNKNOWN waits until the server takes it, as no other is tried. After a crash or an outage a partition goes on
where its batch began: calls come again, in the same order, with the same keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Final

from daggers.v1 import spec_pb2

from daggerspec import fields, httpserver, query, success, template
from daggerspec.capabilities import Capabilities, Guarantee
from daggerspec.catalogue import UnresolvedName
from daggerspec.destination import Destination, server_at
from daggerspec.keys import Key
from daggerspec.kind import ORDERED, ValidationContext, message_mismatches, order_violations, own_address
from daggerspec.nearest import hint, nearest
from daggerspec.violation import Violation

CAPABILITIES: Final = Capabilities(
    guarantee=Guarantee.AT_LEAST_ONCE,
    because="repeats can be detected, the idempotency-key of a call is the same",
    upserts=False,
    repeats_tellable=True,
    records=True,
    max_rows=1,
    limits=("rows_per_second", "requests_per_second", "max_in_flight"),
)
TIME_SERIES: Final = False
DEFAULT_DEADLINE: Final = timedelta(seconds=10)
KEYS: Final = (
    Key("target", "The server, host:port.", required=True, address=True),
    Key("method", "The method, unary, as package.Service/Method.", required=True),
    Key(
        "message", "Full name of its request, a registered message: columns to fields by name.", required=True
    ),
    Key(
        "success_if",
        "What the answer of the method has to say, as response.success == true; without it any is fine.",
    ),
    Key("response", "With success_if: full name of the message that the method returns, a registered one."),
    Key("metadata", "Further metadata, in which ${column} stands for a value of the row."),
    httpserver.auth_keys("Metadata", "target"),
    httpserver.CA_FILE,
    httpserver.tls_keys("target"),
    Key("plaintext", "Whether nothing is encrypted; without it TLS.", address=True),
    ORDERED,
    Key("deadline", f"How long a call may take; without it {DEFAULT_DEADLINE.seconds}s."),
)
resolve = own_address
_METHOD: Final = re.compile(r"(?P<service>[A-Za-z_][\w.]{0,200})/(?P<name>[A-Za-z_]\w{0,100})", re.ASCII)
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_.-]{0,99}")
_OWN: Final = frozenset({"ce-id", "idempotency-key", "content-type", "te", "user-agent", "host"})
"""Metadata that the sink says itself, or that is about the connection."""
_NAMED: Final = "must be the name of metadata: lower case, no grpc-…, and no …-bin, as values are texts"
_VALUE: Final = re.compile(r"[\x20-\x7e]{0,8000}")


def fill(sink: spec_pb2.GrpcSink, dagger: str, spec: spec_pb2.DaggerSpec) -> None:
    """Say its defaults."""
    del dagger, spec
    if not sink.HasField("deadline"):
        sink.deadline.FromTimedelta(DEFAULT_DEADLINE)


def destination(resolved: spec_pb2.ResolvedSink) -> Destination:
    """Return its method, of a service."""
    sink = resolved.sink.grpc
    service, _, method = sink.method.partition("/")
    return Destination("grpc", server_at(sink.target), service, method)


def messages(sink: spec_pb2.GrpcSink) -> Mapping[str, str]:
    """Return the request of its method, and its response if `success_if` reads it."""
    named = {"message": sink.message, "response": sink.response}
    return {field: name for field, name in named.items() if name}


def violations(path: str, sink: spec_pb2.GrpcSink, context: ValidationContext) -> Iterator[Violation]:
    """Yield the violations of address, method, message, condition and metadata."""
    if not fields.is_host_port(sink.target):
        yield Violation(f"{path}.target", "must be host:port", "INVALID_ADDRESS")
    yield from httpserver.caller(path, sink, is_plain=sink.plaintext)
    if sink.auth.HasField("header") and not _is_name(sink.auth.header.name.lower()):
        yield Violation(f"{path}.auth.header.name", _NAMED, "INVALID_NAME")
    if sink.plaintext and sink.tls.ca_file:
        problem = "says who signs the server's certificates: with plaintext it shows none"
        yield Violation(f"{path}.tls.ca_file", problem, "UNEXPECTED")
    yield from httpserver.check_timeout(f"{path}.deadline", sink.deadline)
    if not sink.message:
        yield Violation(f"{path}.message", "is required", "REQUIRED")
    yield from _method(f"{path}.method", sink, context)
    if query.has_records(context.spec):
        yield from _own_message(f"{path}.message", sink.message, context)
    else:
        yield from message_mismatches(f"{path}.message", sink.message, context)
    yield from _success(path, sink, context)
    yield from order_violations(f"{path}.ordered", context, ordered=sink.ordered)
    yield from _metadata(f"{path}.metadata", sink, context)


def _method(path: str, sink: spec_pb2.GrpcSink, context: ValidationContext) -> Iterator[Violation]:
    """Yield the violations of a method's name, and of its messages if the service is registered."""
    match = _METHOD.fullmatch(sink.method)
    if match is None:
        yield Violation(path, "must be a method, as package.Service/Method", "INVALID_NAME")
        return
    if not sink.message:
        return
    with suppress(
        UnresolvedName, KeyError
    ):  # which is told of for every kind; a service need not be registered
        service = context.catalogue.message(sink.message).file.pool.FindServiceByName(match["service"])
        method = service.methods_by_name.get(match["name"])
        if method is None:
            others = hint(nearest(match["name"], service.methods_by_name), "")
            yield Violation(
                path, f"{match['service']} has no method {match['name']}{others}", "UNKNOWN_METHOD"
            )
        elif method.client_streaming or method.server_streaming:
            yield Violation(path, "is a method of streams: only unary ones can be called", "WRONG_KIND")
        elif method.input_type.full_name != sink.message:
            problem = f"takes {method.input_type.full_name}, not {sink.message}"
            yield Violation(path, problem, "TYPE_MISMATCH")
        elif sink.response and method.output_type.full_name != sink.response:
            problem = f"returns {method.output_type.full_name}, not {sink.response}"
            yield Violation(path, problem, "TYPE_MISMATCH")


def _success(path: str, sink: spec_pb2.GrpcSink, context: ValidationContext) -> Iterator[Violation]:
    """Yield the violations of the condition that successful answers meet."""
    if sink.response and not sink.success_if:
        yield Violation(f"{path}.response", "goes with success_if alone", "UNEXPECTED")
    if sink.success_if and not sink.response:
        problem = "is required with success_if: the message that the method returns"
        yield Violation(f"{path}.response", problem, "REQUIRED")
    elif sink.success_if:
        with suppress(UnresolvedName):  # which is told of for every kind
            message = context.catalogue.message(sink.response)
            yield from success.violations(f"{path}.success_if", sink.success_if, message)


def _own_message(path: str, message: str, context: ValidationContext) -> Iterator[Violation]:
    """Yield a violation unless the records, as they are, are requests of the method."""
    for input_ in context.spec.streams:
        stream = context.catalogue.stream(input_.stream)
        if message and stream is not None and stream.message != message:
            problem = f"must be {stream.message}: with payload: record a request is a record of {stream.name}"
            yield Violation(path, problem, "TYPE_MISMATCH")


def _is_name(name: str) -> bool:
    return bool(_NAME.fullmatch(name)) and not name.startswith("grpc-") and not name.endswith("-bin")


def _metadata(path: str, sink: spec_pb2.GrpcSink, context: ValidationContext) -> Iterator[Violation]:
    for name, value in sorted(sink.metadata.items()):
        where = f"{path}.{name}"
        if not _is_name(name):
            yield Violation(where, _NAMED, "INVALID_NAME")
        elif name in _OWN:
            yield Violation(where, f"{name} is said by the sink itself", "UNEXPECTED")
        if httpserver.SECRET.fullmatch(name):
            problem = "would hold a secret, and it be kept in the open: say it by `auth`"
            yield Violation(where, problem, "INLINE_SECRET")
        if not _VALUE.fullmatch(value):
            yield Violation(where, "must be printable ASCII characters", "INVALID_CHARACTER")
        yield from template.violations(where, value, context.output)
