"""Each row is sent to an HTTP server as JSON, alone or with others.

`template` is JSON in whose strings `${column}` stands for a value of the row, and `${column:%Y-%m-%d}` for a
time. A string that is `"${column}"` and nothing else is the value with its type. `path`, `headers` and
`query` may have values as well, where a request has one row.

A request has an `Idempotency-Key`, which is the same when its rows are sent again: a server that remembers it
takes each row once. Of several rows it is the key of all of them, and `row_id` tells each apart.

What the server answers decides: 2xx, the rows are taken, unless its body is a page of HTML, as login pages
and blocking proxies answer; with `success_contains`, 2xx whose body has this text. Other 2xx are no proof,
and the rows are sent again, as after 408, 425, 429 and 5xx, after `Retry-After` if it says one; 401, 403, 407
(SINK_DENIED), 404, 405 (SINK_MISSING) and 3xx (SINK_REDIRECTS), somebody has to act; any other 4xx, the rows
of the request are quarantined. So is a row that five times has no text of `success_contains`, where another
request that was taken is taken again.

A forwarding with `payload: record` sends the value of each record as the body, as it was read, with the
Content-Type application/protobuf unless `headers` say another. `${key}` and `${headers}` are the record's, in
base64 and as JSON. A record without a value (a tombstone) is quarantined.

With `ordered`, the next request of a Kafka partition is sent once the one before it is settled: what is sent
again holds up all behind it; what is quarantined does not. After a crash or an outage a partition goes on
where its batch began: requests come again, in the same order, with the same keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Final
from urllib.parse import urlsplit

from daggers.v1 import spec_pb2

from daggerspec import fields, httpserver, query, template
from daggerspec.capabilities import Capabilities, Guarantee
from daggerspec.destination import Destination, from_template, server_at
from daggerspec.keys import Key
from daggerspec.kind import (
    ORDERED,
    ValidationContext,
    no_messages,
    order_violations,
    own_address,
    records_only,
)
from daggerspec.violation import Violation

CAPABILITIES: Final = Capabilities(
    guarantee=Guarantee.AT_LEAST_ONCE,
    because="repeats can be detected, the Idempotency-Key of a request is the same",
    upserts=False,
    repeats_tellable=True,
    records=True,
    max_rows=1_000,
    limits=("rows_per_second", "requests_per_second", "max_in_flight"),
)
TIME_SERIES: Final = False
DEFAULT_METHOD: Final = "POST"
METHODS: Final = (DEFAULT_METHOD, "PUT", "PATCH", "DELETE")
DEFAULT_TIMEOUT: Final = timedelta(seconds=10)
KEYS: Final = (
    Key("url", "Base URL of the server; its path stands before `path`.", required=True, address=True),
    Key("path", "Path behind the URL, for example /v1/orders/${order_id}; without it none."),
    Key("method", f"{', '.join(METHODS[:-1])} or {METHODS[-1]}; without it {DEFAULT_METHOD}."),
    Key(
        "rows_per_request",
        "The most rows of one request; without it 1.",
        least=1,
        most=CAPABILITIES.max_rows or 1,
    ),
    Key(
        "body",
        "How the rows of a request stand in it: object, of one row, array or ndjson; without it object, and"
        " array for several rows. With `payload: record` it is raw: the value of the record as it was read.",
    ),
    ORDERED,
    Key("template", "JSON of a row, with ${column} in its strings; without it all columns by their names."),
    Key("wrap", 'JSON around the array of rows, for example {"records": "${rows}"}; without it the array.'),
    Key("row_id", "A key that each row's object gets, with an id that repeats with the row."),
    Key("headers", "Further headers; of a request with one row they may have ${column}."),
    Key("query", "Parameters of the URL's query, as the headers."),
    httpserver.AUTH,
    httpserver.CA_FILE,
    httpserver.TLS,
    Key("timeout", f"How long a request may take; without it {DEFAULT_TIMEOUT.seconds}s."),
    Key("retry_statuses", 'Statuses after which rows are sent again, whatever they mean else: "409".'),
    Key("refuse_statuses", 'Statuses after which rows are quarantined: "501", or "500-599".'),
    Key(
        "success_contains",
        'A text in each answer that means rows were taken, beside 2xx: "accepted"; without it any but HTML.',
    ),
    Key(
        "split",
        "Says nothing any more: a refused request of several rows is always halved until it is known which"
        " were meant.",
    ),
)
resolve = own_address
messages = no_messages
_RAW: Final = spec_pb2.HttpSink.BODY_RAW
_BODIES: Final = (
    spec_pb2.HttpSink.BODY_OBJECT,
    spec_pb2.HttpSink.BODY_ARRAY,
    spec_pb2.HttpSink.BODY_NDJSON,
    _RAW,
)
_STATUSES: Final = re.compile(r"([45]\d\d)(?:-([45]\d\d))?")
_PATH: Final = re.compile(r"(?:/[!\"$->@-\[\]-~]*)?")
_VALUE: Final = re.compile(r"[\x20-\x7e]{0,8000}")


def fill(sink: spec_pb2.HttpSink, dagger: str, spec: spec_pb2.DaggerSpec) -> None:
    """Say its defaults."""
    del dagger
    sink.method = sink.method or DEFAULT_METHOD
    sink.rows_per_request = sink.rows_per_request or 1
    one = sink.rows_per_request == 1
    of_rows = spec_pb2.HttpSink.BODY_OBJECT if one else spec_pb2.HttpSink.BODY_ARRAY
    sink.body = sink.body or (_RAW if query.has_records(spec) else of_rows)
    if not sink.HasField("timeout"):
        sink.timeout.FromTimedelta(DEFAULT_TIMEOUT)


def destination(resolved: spec_pb2.ResolvedSink) -> Destination:
    """Return the path that its requests go to."""
    sink = resolved.sink.http
    base = urlsplit(sink.url).path.rstrip("/")
    return from_template("http", server_at(sink.url), "", f"{base}{sink.path}")


def violations(path: str, sink: spec_pb2.HttpSink, context: ValidationContext) -> Iterator[Violation]:
    """Yield the violations of server, method, rows, statuses, body and texts."""
    yield from httpserver.violations(path, sink)
    if sink.method not in METHODS:
        yield Violation(f"{path}.method", f"must be one of {', '.join(METHODS)}", "INVALID_METHOD")
    if not 1 <= sink.rows_per_request <= (CAPABILITIES.max_rows or 1):
        problem = f"must be from 1 to {CAPABILITIES.max_rows}"
        yield Violation(f"{path}.rows_per_request", problem, "OUT_OF_RANGE")
    for field in ("retry_statuses", "refuse_statuses"):
        for number, text in enumerate(getattr(sink, field)):
            if statuses(text) is None:
                problem = 'must be a status such as "409", or some as "500-599", from 400 to 599'
                yield Violation(f"{path}.{field}[{number}]", problem, "INVALID_STATUS")
    if sink.success_contains:
        yield from fields.text(f"{path}.success_contains", sink.success_contains, limit=256)
    yield from _body(path, sink, context)
    yield from records_only(f"{path}.body", "raw", context, is_said=sink.body == _RAW)
    yield from _raw(path, sink)
    yield from order_violations(f"{path}.ordered", context, ordered=sink.ordered)
    yield from _texts(path, sink, context)


def statuses(text: str) -> range | None:
    """Parse a status, or a range of them; None if the text is neither."""
    match = _STATUSES.fullmatch(text)
    if match is None:
        return None
    return range(int(match[1]), int(match[2] or match[1]) + 1) or None


def _body(path: str, sink: spec_pb2.HttpSink, context: ValidationContext) -> Iterator[Violation]:
    if sink.body not in _BODIES:
        yield Violation(f"{path}.body", f"{sink.body} is not a body", "UNKNOWN_ENUM_VALUE")
    elif sink.body == spec_pb2.HttpSink.BODY_OBJECT and sink.rows_per_request > 1:
        problem = "object is one row: say array or ndjson for rows_per_request above 1"
        yield Violation(f"{path}.body", problem, "UNEXPECTED")
    if sink.wrap and sink.body != spec_pb2.HttpSink.BODY_ARRAY:
        yield Violation(f"{path}.wrap", "goes around an array only: say body: array", "UNEXPECTED")
    elif sink.wrap:
        yield from template.wrap_violations(f"{path}.wrap", sink.wrap)
    if sink.template:
        yield from template.json_violations(f"{path}.template", sink.template, context.output)
    if sink.row_id:
        yield from fields.text(f"{path}.row_id", sink.row_id, limit=128)
        columns = [] if context.output is None else [column.name for column in context.output.columns]
        if sink.template and not sink.template.lstrip().startswith("{"):
            yield Violation(f"{path}.row_id", "needs a template that is an object", "UNEXPECTED")
        elif not sink.template and sink.row_id in columns:
            problem = f"{sink.row_id} is a column of the query: say another name"
            yield Violation(f"{path}.row_id", problem, "DUPLICATE_COLUMN")


def _raw(path: str, sink: spec_pb2.HttpSink) -> Iterator[Violation]:
    """Yield the violations of keys that go with objects alone: a record's value is a body as it is."""
    if sink.body != _RAW:
        return
    if sink.rows_per_request > 1:
        problem = "must be 1: the value of a record is a body of its own"
        yield Violation(f"{path}.rows_per_request", problem, "UNEXPECTED")
    for field in ("template", "row_id"):
        if getattr(sink, field):
            yield Violation(f"{path}.{field}", "goes with rows as JSON, not with body: raw", "UNEXPECTED")


def _texts(path: str, sink: spec_pb2.HttpSink, context: ValidationContext) -> Iterator[Violation]:
    """Yield the violations of path, headers and query: they must be sendable, and hold no secret."""
    if sink.path and not (sink.path.startswith("/") and _PATH.fullmatch(template.literal(sink.path))):
        problem = "must begin with /, and be as URLs have it, without ? and #: parameters go into query"
        yield Violation(f"{path}.path", problem, "INVALID_URL")
    texts = [(f"{path}.path", sink.path)]
    for name, value in sorted(sink.headers.items()):
        where = f"{path}.headers.{name}"
        yield from httpserver.header(where, name)
        if not _VALUE.fullmatch(value):
            yield Violation(where, "must be printable ASCII characters", "INVALID_CHARACTER")
        texts.append((where, value))
    texts += [(f"{path}.query.{name}", value) for name, value in sorted(sink.query.items())]
    for field, name in [(table, name) for table in ("headers", "query") for name in getattr(sink, table)]:
        if httpserver.SECRET.fullmatch(name):
            problem = "would hold a secret, and it be kept in the open: say it by `auth`"
            yield Violation(f"{path}.{field}.{name}", problem, "INLINE_SECRET")
    for where, text in texts:
        wrong = list(template.violations(where, text, context.output))
        yield from wrong
        if not wrong and sink.rows_per_request > 1 and template.references(text):
            problem = "cannot have a value of a row: a request has several (rows_per_request)"
            yield Violation(where, problem, "SINK_TEMPLATE")
