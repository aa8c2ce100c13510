"""The sink `http`: each row is sent to an HTTP server as JSON, alone or with others in one request; a record
that is passed on as it was read is a body of its own.

Guarantee: at least once, and repeats can be detected: a request that is sent again, after a crash too, has
the same rows and the same Idempotency-Key, and `row_id` puts an id into each row's object. Rows that the
server refuses are quarantined; while it is away, or asks for patience, the batch waits.

Several rows are a request's only when it is known which the partition has: they are kept until its end, and
sent in the order of their keys; with `ordered`, of their offsets.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
from daggers.v1 import spec_pb2
from yarl import URL

from daggerspec import cloudevents
from daggerspec import template as templates
from daggerspec.sinks import http as kind
from runtime.clients.bisection import RefusalCause, Rows
from runtime.clients.http import posting
from runtime.clients.http.connection import HttpAnswer, Request, Server, in_tls
from runtime.clients.http.posting import PostBatches
from runtime.clients.sending import Verdict, parts
from runtime.encode import json_text, template
from runtime.encode.rows import Refusal, check_texts, event_id, keys, record_values
from runtime.errors import TemporaryError
from runtime.sinks import Outcome, RowWriter, Target, Writer

_ENCODED_AT_ONCE: Final = 10_000
_DOTS: Final = frozenset({".", ".."})
_HEADER: Final = re.compile(r"[\x20-\x7e\x80-\xff]*")
_TYPES: Final = {
    spec_pb2.HttpSink.BODY_OBJECT: "application/json",
    spec_pb2.HttpSink.BODY_ARRAY: "application/json",
    spec_pb2.HttpSink.BODY_NDJSON: "application/x-ndjson",
    spec_pb2.HttpSink.BODY_RAW: cloudevents.PROTOBUF,
}


def check(target: Target) -> None:
    """Raise `JobError` for rows without a text, a secret that is not there, an address that is refused.

    Silence is no error, and what the server answers to a question says nothing about rows.
    """
    server = server_of(target.resolved)
    HttpRows(target, server, target.no_rows)
    posting.reach(server)


def probe(target: Target) -> None:
    """Raise TemporaryError while a question that changes nothing gets no answer, or one that says later."""
    posting.probe(server_of(target.resolved))


def ask(target: Target) -> str:
    """Describe the answer to a request that changes nothing. Raises: JobError."""
    return posting.describe(server_of(target.resolved))


def open(target: Target) -> Writer:  # noqa: A001 - the name every sink has
    """Open a writer for one partition of one batch."""
    server = server_of(target.resolved)
    sink = target.resolved.sink.http
    if sink.rows_per_request == 1:
        encode = partial(HttpRows, target, server)
        posting_ = PostBatches(server, encode, ordered=sink.ordered, may_refuse=target.may_refuse_all)
        return RowWriter(posting_.send)
    return BatchedWriter(target, server)


def server_of(resolved: spec_pb2.ResolvedSink) -> Server:
    """Return the server that requests of a sink go to."""
    sink = resolved.sink.http
    timeout_s = sink.timeout.ToTimedelta().total_seconds()
    return Server.of(resolved, "HTTP", sink.url, sink.auth, **in_tls(sink), timeout_s=timeout_s)


def is_taken(sink: spec_pb2.HttpSink, answer: HttpAnswer) -> bool:
    """Check the proof that a server took rows, without its own protocol.

    That is 2xx without a page of HTML, as login pages and blocking proxies answer; with `success_contains`,
    2xx with this text.
    """
    if not 200 <= answer.status < 300:
        return False
    if sink.success_contains:
        return sink.success_contains.encode() in answer.body
    return not posting.is_page(answer)


class HttpRows:
    """Rows of a batch, and the requests that carry them."""

    def __init__(
        self, target: Target, server: Server, rows: pa.RecordBatch, row_keys: Sequence[str] | None = None
    ) -> None:
        """Encode the rows; `row_keys` are their keys, where the caller has them already."""
        self.sink = sink = target.resolved.sink.http
        self._server = server
        self._retried, self._refused = _statuses(sink.retry_statuses), _statuses(sink.refuse_statuses)
        self._has_one_url = not templates.references(sink.path)
        visible = [(column.name, array) for column, array in target.layout.visible(rows)]
        columns, count = dict(visible), rows.num_rows
        self._source = f"{target.dagger}/{target.name}"
        self._keys = keys(target.layout, rows) if row_keys is None else row_keys
        self._values, valueless = record_values(rows) if target.layout.has_records else ([], [])
        self._objects: Sequence[str | None] = []
        self._strings = [*templates.strings(templates.parse_json(sink.template))] if sink.template else []
        if sink.template:
            self._objects = template.objects(sink.template, columns, count)
        elif not target.layout.has_records:
            self._objects = json_text.objects(visible)
        self._path = template.texts(sink.path, columns, count, lambda value: quote(value, safe=""))
        self._query = {
            name: template.texts(text, columns, count) for name, text in sorted(sink.query.items())
        }
        self._headers = {name: template.texts(text, columns, count) for name, text in sink.headers.items()}
        self._base = str(URL(sink.url))
        self._around = templates.around(sink.wrap) if sink.wrap else ("[", "]")
        self.refusals = [*valueless, *self._unsendable({refusal.row for refusal in valueless}, columns)]
        self.parts = parts(count, self.refusals, sink.rows_per_request)
        self._tries = Counter[int]()

    def _unsendable(self, valueless: set[int], columns: template.Columns) -> list[Refusal]:
        """Refuse further rows, which no request can carry."""
        why: dict[int, tuple[str, str]] = {}
        for name, texts in self._headers.items():
            detail = f"A value of the row cannot stand in the header {name}."
            broken = (row for row, text in enumerate(texts) if text and not _HEADER.fullmatch(text))
            why.update(dict.fromkeys(broken, ("SINK_REFUSED", detail)))
        away = (row for row, text in enumerate(self._path) if text and _DOTS.intersection(text.split("/")))
        why.update(dict.fromkeys(away, ("SINK_REFUSED", "A value of the row leads out of the path.")))
        parts_of_request = [self._objects, self._path, *self._query.values(), *self._headers.values()]
        missing = {row for texts in parts_of_request for row, text in enumerate(texts) if text is None}
        written = [
            *self._strings,
            self.sink.path,
            *self.sink.query.values(),
            *self.sink.headers.values(),
        ]
        why.update({row: template.why_missing(written, columns, row) for row in missing})
        return [Refusal(row, *why[row]) for row in sorted(why.keys() - valueless)]

    def request(self, rows: Rows) -> Request:
        """Build the request that carries these rows."""
        sink, first = self.sink, rows[0]
        headers = {"Content-Type": _TYPES[sink.body], **self._key(rows)}
        headers.update({name: str(texts[first]) for name, texts in self._headers.items()})
        body = self._values[first] if self._values else self._text(rows).encode(errors="replace")
        return Request(sink.method, self._url(first), headers, body or b"")

    def _text(self, rows: Rows) -> str:
        sink = self.sink
        objects = [str(self._objects[row]) for row in rows]
        if sink.row_id:
            ids = (self._id(row) for row in rows)
            objects = [
                json_text.add_member(text, sink.row_id, row_id)
                for text, row_id in zip(objects, ids, strict=True)
            ]
        if sink.body == spec_pb2.HttpSink.BODY_NDJSON:
            return "".join(f"{text}\n" for text in objects)
        if sink.body == spec_pb2.HttpSink.BODY_ARRAY:
            return ",".join(objects).join(self._around)
        return objects[0]

    def judge(self, rows: Rows, answer: HttpAnswer) -> Verdict:
        """Interpret an answer, by the sink's own statuses and text first. Raises: JobError."""
        server = self._server
        if answer.status in self._retried:
            return posting.resend(server, rows, answer)
        if answer.status in self._refused:
            return posting.refuse(server, rows, answer)
        if 200 <= answer.status < 300 and self.sink.success_contains and not self.is_taken(answer):
            return self._without_word(rows, posting.unproven_error(server, answer))
        if answer.status == posting.FAILS:
            return self._failing(rows, answer)
        return posting.interpret(
            server,
            rows,
            answer,
            is_taken=self.is_taken(answer),
            has_one_url=self._has_one_url,
        )

    def is_taken(self, answer: HttpAnswer) -> bool:
        """Check whether rows were taken, by the sink's own text of success if it has one."""
        return is_taken(self.sink, answer)

    def _failing(self, rows: Rows, answer: HttpAnswer) -> Verdict:
        """Wait for a server that fails, or refuse the row it fails at: then it takes others meanwhile."""
        refused = RefusalCause(
            "SINK_REFUSED", f"{self._server.name} answers {posting.FAILS}, and takes other rows."
        )
        return self._of_either(rows, refused, posting.later_error(self._server, answer))

    def _without_word(self, rows: Rows, later: TemporaryError) -> Verdict:
        """Judge a success without its text: the server may be away, or refuse some row in that way."""
        detail = f"{self._server.name} answers a success without the text of success_contains."
        return self._of_either(rows, RefusalCause("SINK_REFUSED", detail), later)

    def _of_either(self, rows: Rows, refused: RefusalCause, later: TemporaryError) -> Verdict:
        self._tries.update(rows)
        return Verdict.of_either(self._tries[rows[0]], rows, refused, later)

    def _id(self, row: int) -> str:
        return event_id(self._source, self._keys[row], None)

    def _key(self, rows: Rows) -> dict[str, str]:
        """Return the headers that stay the same when these rows are sent again."""
        if self.sink.rows_per_request == 1:
            row_id = self._id(rows[0])
            return {"Idempotency-Key": row_id, "ce-id": row_id}
        return {"Idempotency-Key": event_id(self._source, "\n".join(self._keys[row] for row in rows), None)}

    def _url(self, row: int) -> str:
        path, base = self._path[row], self._base
        pairs = [
            f"{quote(name, safe='')}={quote(str(texts[row]), safe='')}" for name, texts in self._query.items()
        ]
        return f"{base.removesuffix('/') if path else base}{path}{'?' if pairs else ''}{'&'.join(pairs)}"


@dataclass(frozen=True, slots=True)
class _Slice:
    """Rows of a partition that are sent together, in the order of their keys."""

    start: int
    rows: pa.RecordBatch
    keys: Sequence[str]


class BatchedWriter:
    """Collects the rows of a partition, and sends them by their keys, several in a request."""

    def __init__(self, target: Target, server: Server) -> None:
        self._layout = target.layout
        sink = target.resolved.sink.http
        self._at_once, self._ordered = sink.rows_per_request, sink.ordered
        self._posting = PostBatches(
            server,
            lambda rows: HttpRows(target, server, rows, self._open[0].keys),
            ordered=sink.ordered,
            may_refuse=target.may_refuse_all,
        )
        self._batches: list[pa.RecordBatch] = []
        self._whole: pa.RecordBatch | None = None
        self._open: deque[_Slice] = deque()
        self._refused: list[Refusal] = []

    def write(self, batch: pa.RecordBatch, batch_id: int) -> Outcome:
        """Collect a batch."""
        del batch_id
        check_texts(batch)
        if batch.num_rows:
            self._batches.append(batch)
        return Outcome()

    def finish(self) -> Outcome:
        """Send all of them; return the rows that the server refused. Called again, it goes on with what is
        open.
        """
        if not self._batches:
            return Outcome()
        if self._whole is None:
            [whole] = pa.Table.from_batches(self._batches).combine_chunks().to_batches()
            row_keys = keys(self._layout, whole)
            order = self._order(whole, row_keys)
            self._whole = whole.take(pa.array(order))
            cut = max(_ENCODED_AT_ONCE // self._at_once, 1) * self._at_once
            for start in range(0, len(order), cut):
                slice_keys = [row_keys[row] for row in order[start : start + cut]]
                self._open.append(_Slice(start, self._whole.slice(start, cut), slice_keys))
        while self._open:
            part = self._open[0]
            refused = self._posting.send(part.rows)
            self._refused += [replace(refusal, row=part.start + refusal.row) for refusal in refused]
            self._open.popleft()
        return Outcome(refused=self._refused, rows=self._whole)

    def _order(self, rows: pa.RecordBatch, row_keys: Sequence[str]) -> list[int]:
        """Return an order that is the same in every attempt: that of offsets, or by the texts of the keys."""
        if not self._ordered:
            return sorted(range(len(row_keys)), key=row_keys.__getitem__)
        by = [(name, "ascending") for name in self._layout.key_columns]
        order: list[int] = pc.sort_indices(rows, sort_keys=by).to_pylist()
        return order


def _statuses(texts: Sequence[str]) -> frozenset[int]:
    return frozenset(status for text in texts for status in kind.statuses(text) or ())
