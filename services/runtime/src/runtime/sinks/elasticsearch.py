"""The sink `elasticsearch`: each row is one document of Elasticsearch (7 or later) or OpenSearch.

Guarantee: effectively once. A document is identified by its `_id`, which is made of the row's key: a batch
that is repeated after a crash puts the same documents in their own places. A row that the server refuses (a
field of another type, out of range) is quarantined and the others are written; while it is away, or asks for
patience, the batch waits. With `emit: early` a document has a version, so that an older one changes nothing.

Many documents are one `_bulk` request, whose answer says for each what became of it, with status 200.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import pyarrow as pa
from daggers.v1 import spec_pb2

from daggerspec import template as templates
from daggerspec.sinks import elasticsearch as kind
from daggerspec.sinks.elasticsearch import CAPABILITIES
from runtime.clients import indexneeds
from runtime.clients.bisection import RefusalCause, Rows, sized_parts
from runtime.clients.client_pool import DENIED
from runtime.clients.http import posting
from runtime.clients.http.connection import HttpAnswer, Request, Server, in_tls
from runtime.clients.http.posting import PostBatches
from runtime.clients.indexneeds import Index
from runtime.clients.sending import Verdict
from runtime.encode import json_text, template
from runtime.encode.rows import Refusal, event_id, keys
from runtime.errors import JobError, TemporaryError, external
from runtime.sinks import BatchRef, RowWriter, Target, Writer

_SINK: Final = spec_pb2.ElasticsearchSink
_WANTED: Final = "errors,items.*.status,items.*.error.type,items.*.error.reason"
_NDJSON: Final = {"Content-Type": "application/x-ndjson"}
_ACTIONS: Final = {
    _SINK.OPERATION_INDEX: "index",
    _SINK.OPERATION_UPDATE: "update",
    _SINK.OPERATION_CREATE: "create",
}
_MAX_ID: Final = 512
_CONFLICT: Final = 409
_FIELD: Final = re.compile(r"field(?: \[|=\")([^\]\"]+)")
_STATES: Final = frozenset({"cluster_block_exception", "validation_exception"})
"""Error types of a server that waits: it is blocked, or no shard is left for an index."""
_STRICT: Final = "strict_dynamic_mapping_exception"
_NO_INDEX: Final = frozenset({"index_not_found_exception", "index_closed_exception"})
_NO_WRITE_INDEX: Final = "no write index is defined"
"""In the words about an alias of several indices."""
_FORBIDDEN: Final = frozenset({"security_exception", "forbidden"})


def check(target: Target) -> None:
    """Make the index, if it may; raise `JobError` for a server or an index that cannot take the rows.

    Silence is none.
    """
    server = server_of(target.resolved)
    Documents(target, server, target.no_rows)
    try:
        indexneeds.check_version(server)
        if (index := _index(server, target)) is not None:
            index.prepare()
    except TemporaryError:
        return


def rehearse(target: Target, row: pa.RecordBatch | None) -> str:
    """Describe what a batch would find there; nothing is written. Raises: JobError for what no row passes."""
    del row
    server = server_of(target.resolved)
    Documents(target, server, target.no_rows)
    indexneeds.check_version(server)
    index = _index(server, target)
    return index.describe() if index else "Its indices are made by the server, when their first row comes."


def _index(server: Server, target: Target) -> Index | None:
    """Return the one index that all rows go to; None where their values choose it."""
    sink = target.resolved.sink.elasticsearch
    return None if templates.references(sink.index) else Index(server, sink, kind.mapping(target.layout))


def probe(target: Target) -> None:
    """Raise `JobError` while the server does not say what it is."""
    posting.probe(server_of(target.resolved))


def open(target: Target) -> Writer:  # noqa: A001 - the name every sink has
    """Open a writer for one partition of one batch."""
    server = server_of(target.resolved)
    encode = partial(Documents, target, server)
    return RowWriter(PostBatches(server, encode, may_refuse=target.may_refuse_all).send)


def server_of(resolved: spec_pb2.ResolvedSink) -> Server:
    """Return the server that the documents of a sink go to."""
    sink = resolved.sink.elasticsearch
    timeout_s = sink.timeout.ToTimedelta().total_seconds()
    return Server.of(resolved, "Elasticsearch", sink.url, sink.auth, **in_tls(sink), timeout_s=timeout_s)


class Documents:
    """Rows of a batch as documents, and the requests that carry them."""

    def __init__(self, target: Target, server: Server, rows: pa.RecordBatch) -> None:
        sink = target.resolved.sink.elasticsearch
        self._server, self._action = server, _ACTIONS[sink.operation]
        self._column_names = {column.name for column in target.layout.columns}
        self._is_one_index = not templates.references(sink.index)
        visible = [(column.name, array) for column, array in target.layout.visible(rows)]
        columns, count = dict(visible), rows.num_rows
        ids: Sequence[str | None] = [event_id(target.dagger, key, None) for key in keys(target.layout, rows)]
        if sink.id:
            ids = template.texts(sink.id, columns, count)
        index = template.texts(sink.index, columns, count)
        places = {"_index": index, "_id": ids}
        if sink.routing:
            places["routing"] = template.texts(sink.routing, columns, count)
        self.refusals = _unsendable(places, [sink.id, sink.index, sink.routing], columns)
        version = ""
        if target.updates:
            batch = target.writes.batch if target.part else BatchRef("", 0, 0)
            number = (batch.generation << 32) + batch.batch_id
            version = f',"version":{number},"version_type":"external_gte"'
        quoted = [(name, [json.dumps(text) for text in texts]) for name, texts in places.items()]
        heads = [f'{{"{self._action}":{head[:-1]}{version}}}}}' for head in json_text.join_members(quoted)]
        objects = json_text.objects(visible)
        if sink.operation == _SINK.OPERATION_UPDATE:
            objects = [f'{{"doc":{text},"doc_as_upsert":true}}' for text in objects]
        lines = zip(heads, objects, strict=True)
        self._lines = [f"{head}\n{text}\n".encode(errors="replace") for head, text in lines]
        most_rows, most_bytes = CAPABILITIES.max_rows or 1, CAPABILITIES.max_bytes or 1
        self.parts = sized_parts(self._lines, self.refusals, most_rows, most_bytes)

    def request(self, rows: Rows) -> Request:
        """Build the request that carries these rows."""
        url = f"{indexneeds.base_url(self._server)}/_bulk?filter_path={_WANTED}"
        return Request("POST", url, _NDJSON, b"".join(self._lines[row] for row in rows))

    def judge(self, rows: Rows, answer: HttpAnswer) -> Verdict:
        """Interpret an answer: about all rows first, then about each document. Raises: JobError."""
        items = posting.json_object(answer).get("items") if answer.status == 200 else None
        if is_taken(answer) or not isinstance(items, list) or len(items) != len(rows):
            return posting.interpret(self._server, rows, answer, is_taken=is_taken(answer))
        return self._each(rows, [_result(item) for item in items])

    def _each(self, rows: Rows, results: Sequence[tuple[int, str, str]]) -> Verdict:
        alone: list[tuple[int, RefusalCause]] = []
        again: list[int] = []
        is_throttled = False
        name = self._server.name
        for row, (status, error, reason) in zip(rows, results, strict=True):
            if 200 <= status < 300 or (status == _CONFLICT and self._action != "update"):
                continue  # a conflict: what is there is as new, or newer
            if error in _NO_INDEX or _NO_WRITE_INDEX in reason:
                kind = error if error in _NO_INDEX else "no write index"
                detail = f"{name} has no open index for the rows ({kind}): make it, or say which it is."
                missing = external("SINK_MISSING", detail, retryable=True)
                if self._is_one_index:
                    raise missing
                alone.append(
                    (row, RefusalCause("SINK_REFUSED", f"{name} has no index for the row.", missing))
                )
                continue
            if error in _FORBIDDEN:
                detail = f"{name} does not let this job write ({error}): check the secret, and its rights."
                raise external(DENIED, detail, retryable=True)
            if _is_state(status, error) or status == _CONFLICT:
                again.append(row)
                is_throttled = is_throttled or status == posting.THROTTLES
                continue
            fields = [word for word in _FIELD.findall(reason) if word in self._column_names]
            place = f" for the field {fields[0]}" if fields else ""
            detail = f"{name} refuses the document{place} ({error or status})."
            alone.append((row, RefusalCause("SINK_REFUSED", detail, self._outgrown(error))))
        if not again:
            return Verdict(alone=alone)
        why = TemporaryError("SINK_UNAVAILABLE", f"{name} does not take {len(again)} documents now.")
        return Verdict(alone=alone, again=[again], why=why, is_throttled=is_throttled)

    def _outgrown(self, error: str) -> JobError | None:
        """Return the error to raise where no document passes: the mapping has no such field."""
        if error != _STRICT:
            return None
        problem = f"{self._server.name} has no field for a column, and its mapping is strict"
        return external("SINK_SCHEMA", f"{problem}: add the field, or name another index.", retryable=True)


def _is_state(status: int, error: str) -> bool:
    """Tell whether a document waits for its server: busy, with a full disk, or without room for an index."""
    return status in posting.LATER or status >= 500 or error in _STATES


def is_taken(answer: HttpAnswer) -> bool:
    """Check the proof that all documents were taken: 200, and JSON with `"errors": false`."""
    return answer.status == 200 and posting.json_object(answer).get("errors") is False


def _unsendable(
    places: Mapping[str, Sequence[str | None]], templates: Sequence[str], columns: template.Columns
) -> list[Refusal]:
    """Refuse the rows whose document has no place."""
    why: dict[int, tuple[str, str]] = {}
    for row, text in enumerate(places["_id"]):
        if text is not None and not 0 < len(text.encode(errors="replace")) <= _MAX_ID:
            why[row] = ("TOO_LARGE", f"The _id of the row is empty, or longer than {_MAX_ID} bytes.")
    missing = {row for texts in places.values() for row, text in enumerate(texts) if text is None}
    why.update({row: template.why_missing(templates, columns, row) for row in missing})
    return [Refusal(row, *why[row]) for row in sorted(why)]


def _result(item: Any) -> tuple[int, str, str]:
    """Return the status of one document, and the type and the words of its error."""
    [result] = item.values() if isinstance(item, Mapping) and len(item) == 1 else ({},)
    error = result.get("error") or {}
    if isinstance(error, str):  # of old
        return int(result.get("status", 500)), error, ""
    return int(result.get("status", 500)), str(error.get("type", "")), str(error.get("reason", ""))
