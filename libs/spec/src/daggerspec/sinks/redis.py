"""Each row is the value of a key of Redis (6 or later), as a string or a hash.

`key` is the key of a row: `${column}` stands for a value, and `${column:%Y-%m-%d}` for a time. Of several
rows with one key the last counts. With `type: string` a key holds the row as JSON. With `type: hash` it has a
field for each column, as text; a column that is NULL has none, and fields of others stay.

With `ttl` a key goes so long after it was written last. Lists and streams are no choice: a row that is sent
again would be there twice. The server is one, or the primary of several; Redis Cluster is not written to.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from daggers.v1 import spec_pb2

from daggerspec import fields, template
from daggerspec.capabilities import Capabilities, Guarantee
from daggerspec.columns import Output
from daggerspec.destination import Destination, from_template, server_at
from daggerspec.httpserver import CA_FILE
from daggerspec.keys import Key
from daggerspec.kind import ValidationContext, no_messages, own_address
from daggerspec.violation import Violation

CAPABILITIES: Final = Capabilities(
    guarantee=Guarantee.EFFECTIVELY_ONCE,
    because="a row is identified by its key, and one that is repeated takes its place",
    upserts=True,
    repeats_tellable=True,
    max_rows=1_000,
    max_bytes=5 * 1024 * 1024,
    limits=("rows_per_second", "requests_per_second", "max_in_flight"),
)
TIME_SERIES: Final = False
KEYS: Final = (
    Key("address", "The server, host:port.", required=True, address=True),
    Key("user", "The user who writes; without it the server's default.", address=True),
    Key(
        "password",
        "Where the user's password is; without it none is sent.",
        address=True,
        sent_to=("address",),
    ),
    Key("database", "Number of the database; without it 0.", address=True),
    CA_FILE,
    Key("plaintext", "Whether nothing is encrypted; without it TLS.", address=True),
    Key("key", "The key of a row, with ${column} in it, for example trips:${tag_city}.", required=True),
    Key("type", "What a key holds: string, the row as JSON, or hash; without it string."),
    Key("ttl", "How long a key stays after it was written last; without it for good."),
)
MAX_KEY: Final = 1024
"""Bytes of a key. Redis takes more; longer ones are a mistake, and slow."""
LONGEST_TTL: Final = timedelta(days=3660)
resolve = own_address
messages = no_messages
_TYPES: Final = (spec_pb2.RedisSink.TYPE_STRING, spec_pb2.RedisSink.TYPE_HASH)


def fill(sink: spec_pb2.RedisSink, dagger: str, spec: spec_pb2.DaggerSpec) -> None:
    """Say its defaults."""
    del dagger, spec
    sink.type = sink.type or spec_pb2.RedisSink.TYPE_STRING


def destination(resolved: spec_pb2.ResolvedSink) -> Destination:
    """Return its keys, in a database."""
    sink = resolved.sink.redis
    return from_template("redis", server_at(sink.address), str(sink.database), sink.key)


def has_own_key(sink: spec_pb2.RedisSink, rows: Output) -> bool:
    """Return whether several rows may have one key: its template is somebody's own."""
    del sink, rows
    return True


def violations(path: str, sink: spec_pb2.RedisSink, context: ValidationContext) -> Iterator[Violation]:
    """Yield the violations of address, credentials, key, type and ttl."""
    if not fields.is_host_port(sink.address):
        yield Violation(f"{path}.address", "must be host:port", "INVALID_ADDRESS")
    yield from _caller(path, sink)
    if not sink.key:
        yield Violation(f"{path}.key", "is required", "REQUIRED")
    elif not template.references(sink.key):
        problem = "must have a ${column}: else each row takes the place of the one before"
        yield Violation(f"{path}.key", problem, "SINK_TEMPLATE")
    if len(template.literal(sink.key).encode()) > MAX_KEY:
        yield Violation(f"{path}.key", f"must not be longer than {MAX_KEY} bytes", "TOO_LONG")
    yield from template.violations(f"{path}.key", sink.key, context.output)
    if sink.type not in _TYPES:
        yield Violation(f"{path}.type", f"{sink.type} is not a type", "UNKNOWN_ENUM_VALUE")
    if sink.HasField("ttl"):
        yield from _ttl(f"{path}.ttl", sink)


def _caller(path: str, sink: spec_pb2.RedisSink) -> Iterator[Violation]:
    """Yield the violations of user, password and TLS."""
    if sink.user and (not sink.user.isprintable() or " " in sink.user):
        yield Violation(f"{path}.user", "must be printable characters, without blanks", "INVALID_CHARACTER")
    if sink.HasField("password"):
        yield from fields.secret(f"{path}.password", sink.password)
    elif sink.user:
        yield Violation(f"{path}.password", "is required with a user", "REQUIRED")
    if sink.tls.ca_file and not sink.tls.ca_file.startswith("/"):
        yield Violation(f"{path}.tls.ca_file", "must be an absolute path", "INVALID_REFERENCE")
    if sink.tls.ca_file and sink.plaintext:
        problem = "says who signs the server's certificates: with plaintext it shows none"
        yield Violation(f"{path}.tls.ca_file", problem, "UNEXPECTED")


def _ttl(path: str, sink: spec_pb2.RedisSink) -> Iterator[Violation]:
    wrong = list(fields.duration(path, sink.ttl, positive=True))
    yield from wrong
    if not wrong and not timedelta(milliseconds=1) <= sink.ttl.ToTimedelta() <= LONGEST_TTL:
        problem = f"must be from 1 ms to {LONGEST_TTL.days} days"
        yield Violation(path, problem, "OUT_OF_RANGE")
