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
from urllib.parse import quote

import pyarrow as pa
from daggers.v1 import spec_pb2

from daggerspec import template as templates
from daggerspec.sinks import elasticsearch as kind
from daggerspec.sinks.elasticsearch import CAPABILITIES
from runtime.clients.bisection import Refused, Rows, sized_parts
from runtime.clients.http import client, posting
from runtime.clients.http.connection import Answer, Request, Server, in_tls
from runtime.clients.http.posting import Posting
from runtime.clients.sending import DENIED, Verdict
from runtime.encode import json_text, template
from runtime.encode.rows import Refusal, event_id, keys
from runtime.errors import JobError, TemporaryError, external, user
from runtime.sinks import BatchRef, RowWriter, Target, Writer

_SINK: Final = spec_pb2.ElasticsearchSink
_OLDEST: Final = 7
"""The first Elasticsearch whose `_bulk` knows no types; each OpenSearch is younger."""
_WANTED: Final = "errors,items.*.status,items.*.error.type,items.*.error.reason"
_JSON: Final = {"Content-Type": "application/json"}
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
"""Of a server, with statuses that are of requests: it is blocked, or no shard is left for an index."""
_STRICT: Final = "strict_dynamic_mapping_exception"
_NO_INDEX: Final = frozenset({"index_not_found_exception", "index_closed_exception"})
_NO_WRITE_INDEX: Final = "no write index is defined"
"""In the words about an alias of several indices."""
_FORBIDDEN: Final = frozenset({"security_exception", "forbidden"})
_UNTOLD: Final = frozenset({403, 405})
"""What a server answers to who may write, and not ask."""


def check(target: Target) -> None:
    """Make the index, if it may; raise `JobError` for a server or an index that cannot take the rows.

    Silence is none.
    """
    server = server_of(target.resolved)
    Documents(target, server, target.no_rows)
    try:
        _check_version(server)
        if not templates.references(target.resolved.sink.elasticsearch.index):
            _check_index(server, target)
    except TemporaryError:
        return


def probe(target: Target) -> None:
    """Raise `JobError` while the server does not say what it is."""
    posting.probe(server_of(target.resolved))


def open(target: Target) -> Writer:  # noqa: A001 - the name every sink has
    """A writer for one partition of one batch."""
    server = server_of(target.resolved)
    encode = partial(Documents, target, server)
    return RowWriter(Posting(server, encode, may_refuse=target.may_refuse_all).sent)


def server_of(resolved: spec_pb2.ResolvedSink) -> Server:
    """Where the documents of a sink go."""
    sink = resolved.sink.elasticsearch
    timeout_s = sink.timeout.ToTimedelta().total_seconds()
    return Server.of(resolved, "Elasticsearch", sink.url, sink.auth, **in_tls(sink), timeout_s=timeout_s)


def _base(server: Server) -> str:
    return server.url.removesuffix("/")


def _said(server: Server, request: Request) -> Answer:
    """An answer that is about what was asked. Raises: JobError where it is about the server."""
    answer = client.ask(server, request)
    if answer.status == 404 or answer.status in _UNTOLD:
        return answer
    is_own = 200 <= answer.status < 300 and not posting.is_page(answer)
    if (why := posting.meaning(server, (), answer, is_taken=is_own).why) is not None:
        raise why
    return answer


def _check_version(server: Server) -> None:
    answer = _said(server, Request("GET", f"{_base(server)}/"))
    if answer.status in _UNTOLD:
        return
    number, distribution = _version(answer)
    if not number:
        raise user("SINK_SCHEMA", f"{server.name} does not say that it is Elasticsearch or OpenSearch.")
    if distribution != "opensearch" and int(number.partition(".")[0]) < _OLDEST:
        raise user("SINK_SCHEMA", f"{server.name} is {number}, and older than Elasticsearch {_OLDEST}.")


def _version(answer: Answer) -> tuple[str, str]:
    """What a server says that it is: its version, and `opensearch` where it is one."""
    said = posting.json_object(answer)
    version = said.get("version") if answer.status == 200 else {}
    if not isinstance(version, Mapping):
        return "", ""
    number = str(version.get("number", ""))
    return (number if re.match(r"\d+\.", number) else ""), str(version.get("distribution", ""))


def _check_index(server: Server, target: Target) -> None:
    """Make or extend the index, if it may. Raises: JobError where it takes none of the rows."""
    sink = target.resolved.sink.elasticsearch
    url = f"{_base(server)}/{quote(sink.index, safe='')}"
    answer = _said(server, Request("HEAD", url))
    if answer.status == 404 and sink.create_index:
        fields = {"mappings": {"dynamic": "strict", "properties": kind.mapping(target.layout)}}
        answer = _said(server, Request("PUT", url, _JSON, json.dumps(fields).encode()))
        if answer.status == 400 and b"already_exists" not in answer.body:  # another driver was faster
            raise user("SINK_SCHEMA", f"{server.name} makes no index {sink.index!r} for these columns.")
    if answer.status == 404:
        raise user(
            "SINK_MISSING", f"{server.name} has no index {sink.index!r}: set create_index, or make it."
        )
    if answer.status in _UNTOLD:
        return
    lacks, wrong = _misfits(server, target)
    if wrong:
        raise user("SINK_SCHEMA", f"{server.name} takes none of these rows: {wrong}.")
    if not lacks:
        return
    statement = json.dumps({"properties": lacks})
    if sink.create_index:
        answer = _said(server, Request("PUT", f"{url}/_mapping", _JSON, statement.encode()))
    if not sink.create_index or answer.status >= 400:
        told = f"{server.name} has no field {', '.join(lacks)} in {sink.index!r}, whose mapping is strict"
        raise user("SINK_SCHEMA", f"{told}: PUT /{sink.index}/_mapping {statement}")


def rehearse(target: Target, row: pa.RecordBatch | None) -> str:
    """What a batch would find there; nothing is written. Raises: JobError for what no row can pass."""
    del row
    server, sink = server_of(target.resolved), target.resolved.sink.elasticsearch
    Documents(target, server, target.no_rows)
    _check_version(server)
    if templates.references(sink.index):
        return "Its indices are made by the server, when their first row comes."
    if _said(server, Request("HEAD", f"{_base(server)}/{quote(sink.index, safe='')}")).status == 404:
        if sink.create_index:
            return f"The index {sink.index} is not there yet; it is made when the dagger starts."
        raise user(
            "SINK_MISSING", f"{server.name} has no index {sink.index!r}: set create_index, or make it."
        )
    lacks, wrong = _misfits(server, target)
    if wrong or (lacks and not sink.create_index):
        _check_index(server, target)
    added = f"; {', '.join(lacks)} is added when the dagger starts" if lacks else ""
    return f"The index {sink.index} has fields for these rows{added}."


def _misfits(server: Server, target: Target) -> tuple[dict[str, dict[str, object]], str]:
    """The fields that a strict mapping lacks, and what is wrong with those that no value fits; nothing where
    the server does not tell what its mapping is.
    """
    sink, wanted = target.resolved.sink.elasticsearch, kind.mapping(target.layout)
    answer = _said(server, Request("GET", f"{_base(server)}/{quote(sink.index, safe='')}/_mapping"))
    lacks: dict[str, dict[str, object]] = {}
    wrong: list[str] = []
    for name, held in posting.json_object(answer).items() if answer.status == 200 else ():
        mapping = held.get("mappings") if isinstance(held, Mapping) else None
        if not isinstance(mapping, Mapping):
            continue
        fields = mapping.get("properties") or {}
        for column, field in wanted.items():
            known = fields.get(column)
            if known is None:
                lacks |= {column: field} if str(mapping.get("dynamic")).lower() == "strict" else {}
            elif not kind.holds(field, known):
                told = f"{column} is {known.get('type', 'object')} in {name}, which no {field['type']} fits"
                wrong.append(f"{told}: name another index")
    return lacks, "; ".join(wrong)


class Documents:
    """The rows of a batch as documents, and the requests that carry them."""

    def __init__(self, target: Target, server: Server, rows: pa.RecordBatch) -> None:
        sink = target.resolved.sink.elasticsearch
        self._server, self._action = server, _ACTIONS[sink.operation]
        self._known = {column.name for column in target.layout.columns}
        self._is_one_index = not templates.references(sink.index)
        visible = [(column.name, array) for column, array in target.layout.visible(rows)]
        columns, count = dict(visible), rows.num_rows
        ids: Sequence[str | None] = [event_id(target.dagger, key, None) for key in keys(target.layout, rows)]
        if sink.id:
            ids = template.texts(sink.id, columns, count)
        index = template.texts(sink.index, columns, count)
        said = {"_index": index, "_id": ids}
        if sink.routing:
            said["routing"] = template.texts(sink.routing, columns, count)
        self.refusals = _unsendable(said, [sink.id, sink.index, sink.routing], columns)
        version = ""
        if target.updates:
            batch = target.writes.batch if target.part else BatchRef("", 0, 0)
            number = (batch.generation << 32) + batch.batch_id
            version = f',"version":{number},"version_type":"external_gte"'
        quoted = [(name, [json.dumps(text) for text in texts]) for name, texts in said.items()]
        heads = [f'{{"{self._action}":{head[:-1]}{version}}}}}' for head in json_text.named(quoted)]
        objects = json_text.objects(visible)
        if sink.operation == _SINK.OPERATION_UPDATE:
            objects = [f'{{"doc":{text},"doc_as_upsert":true}}' for text in objects]
        lines = zip(heads, objects, strict=True)
        self._lines = [f"{head}\n{text}\n".encode(errors="replace") for head, text in lines]
        most_rows, most_bytes = CAPABILITIES.max_rows or 1, CAPABILITIES.max_bytes or 1
        self.parts = sized_parts(self._lines, self.refusals, most_rows, most_bytes)

    def request(self, rows: Rows) -> Request:
        """The request that carries these rows."""
        url = f"{_base(self._server)}/_bulk?filter_path={_WANTED}"
        return Request("POST", url, _NDJSON, b"".join(self._lines[row] for row in rows))

    def judge(self, rows: Rows, answer: Answer) -> Verdict:
        """What an answer means: of all of them first, then of each document. Raises: JobError."""
        items = posting.json_object(answer).get("items") if answer.status == 200 else None
        if is_taken(answer) or not isinstance(items, list) or len(items) != len(rows):
            return posting.meaning(self._server, rows, answer, is_taken=is_taken(answer))
        return self._each(rows, [_result(item) for item in items])

    def _each(self, rows: Rows, results: Sequence[tuple[int, str, str]]) -> Verdict:
        alone: list[tuple[int, Refused]] = []
        again: list[int] = []
        is_throttled = False
        name = self._server.name
        for row, (status, error, reason) in zip(rows, results, strict=True):
            if 200 <= status < 300 or (status == _CONFLICT and self._action != "update"):
                continue  # a conflict: what is there is as new, or newer
            if error in _NO_INDEX or _NO_WRITE_INDEX in reason:
                detail = f"{name} has no open index for the rows ({error}): make it, or say which it is."
                missing = external("SINK_MISSING", detail, retryable=True)
                if self._is_one_index:
                    raise missing
                alone.append((row, Refused("SINK_REFUSED", f"{name} has no index for the row.", missing)))
                continue
            if error in _FORBIDDEN:
                detail = f"{name} does not let this job write ({error}): check the secret, and its rights."
                raise external(DENIED, detail, retryable=True)
            if _is_state(status, error) or status == _CONFLICT:
                again.append(row)
                is_throttled = is_throttled or status == posting.THROTTLES
                continue
            fields = [word for word in _FIELD.findall(reason) if word in self._known]
            place = f" for the field {fields[0]}" if fields else ""
            detail = f"{name} refuses the document{place} ({error or status})."
            alone.append((row, Refused("SINK_REFUSED", detail, self._outgrown(error))))
        if not again:
            return Verdict(alone=alone)
        why = TemporaryError("SINK_UNAVAILABLE", f"{name} does not take {len(again)} documents now.")
        return Verdict(alone=alone, again=[again], why=why, is_throttled=is_throttled)

    def _outgrown(self, error: str) -> JobError | None:
        """What it is where no document passes: its mapping has no such field."""
        if error != _STRICT:
            return None
        what = f"{self._server.name} has no field for a column, and its mapping is strict"
        return external("SINK_SCHEMA", f"{what}: add the field, or name another index.", retryable=True)


def _is_state(status: int, error: str) -> bool:
    """Whether a document waits for its server: busy, blocked by a full disk, without room for an index."""
    return status in posting.LATER or status >= 500 or error in _STATES


def is_taken(answer: Answer) -> bool:
    """The proof that all documents of a request were taken: 200, and JSON that says `"errors": false`."""
    return answer.status == 200 and posting.json_object(answer).get("errors") is False


def _unsendable(
    said: Mapping[str, Sequence[str | None]], templates: Sequence[str], columns: template.Columns
) -> list[Refusal]:
    """The rows whose document has no place."""
    why: dict[int, tuple[str, str]] = {}
    for row, text in enumerate(said["_id"]):
        if text is not None and not 0 < len(text.encode(errors="replace")) <= _MAX_ID:
            why[row] = ("TOO_LARGE", f"The _id of the row is empty, or longer than {_MAX_ID} bytes.")
    missing = {row for texts in said.values() for row, text in enumerate(texts) if text is None}
    why.update({row: template.why_missing(templates, columns, row) for row in missing})
    return [Refusal(row, *why[row]) for row in sorted(why)]


def _result(item: Any) -> tuple[int, str, str]:
    """Of one document: the status, and the type and the words of its error."""
    [said] = item.values() if isinstance(item, Mapping) and len(item) == 1 else ({},)
    error = said.get("error") or {}
    if isinstance(error, str):  # of old
        return int(said.get("status", 500)), error, ""
    return int(said.get("status", 500)), str(error.get("type", "")), str(error.get("reason", ""))
