"""The sink `mixpanel`: each row is an event of a user in Mixpanel.

Guarantee: effectively once, in reports. An event has an `$insert_id`, which is made of the row's key: one
that comes again after a crash is shown once. A row that Mixpanel does not import is quarantined and the
others are imported; while it is away, or asks for patience, the batch waits.

400 means that the records that it names were not imported, and the others were.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import pyarrow as pa
from daggers.v1 import spec_pb2

from daggerspec.sinks.mixpanel import CAPABILITIES
from runtime.clients.bisection import Rows, sized_parts
from runtime.clients.http import posting
from runtime.clients.http.connection import HttpAnswer, Request, Server
from runtime.clients.http.posting import PostBatches
from runtime.clients.sending import Verdict
from runtime.encode import json_text, user_events
from runtime.encode.rows import Refusal, event_id, keys
from runtime.sinks import RowWriter, Target, Writer

_PARTIAL: Final = 400
_OWN: Final = ("time", "distinct_id", "$insert_id")
"""Properties that each event has itself: no column takes their place."""


def check(target: Target) -> None:
    """Raise `JobError` for rows without a text, a secret that is not there, an address that is refused."""
    server = server_of(target.resolved)
    Imports(target, server, target.no_rows)
    posting.reach(server)


def probe(target: Target) -> None:
    """Raise TemporaryError while a question that changes nothing gets no answer."""
    posting.probe(server_of(target.resolved))


def ask(target: Target) -> str:
    """Describe the answer to a request that changes nothing. Raises: JobError."""
    return posting.describe(server_of(target.resolved))


def open(target: Target) -> Writer:  # noqa: A001 - the name every sink has
    """Open a writer for one partition of one batch."""
    server = server_of(target.resolved)
    encode = partial(Imports, target, server)
    return RowWriter(PostBatches(server, encode, may_refuse=target.may_refuse_all).send)


def server_of(resolved: spec_pb2.ResolvedSink) -> Server:
    """Return the server that events go to."""
    sink = resolved.sink.mixpanel
    basic = spec_pb2.HttpAuth.Basic(user=sink.user, password=sink.secret)
    return Server.of(resolved, "Mixpanel", sink.url, spec_pb2.HttpAuth(basic=basic), timeout_s=30.0)


class Imports:
    """Rows of a batch as events, and the requests that carry them."""

    def __init__(self, target: Target, server: Server, rows: pa.RecordBatch) -> None:
        self._server, self._sink = server, target.resolved.sink.mixpanel
        events = user_events.of(target.layout, rows, self._sink.event, self._sink.identity, without=_OWN)
        self.refusals = events.refusals()
        source = f"{target.dagger}/{target.name}"
        ids = [event_id(source, key, None) for key in keys(target.layout, rows)]
        self._events = []
        quote = json_text.quote
        each_row = zip(ids, events.identities, events.times, events.names, events.properties, strict=True)
        for row_id, identity, time, name, members in each_row:
            own = (
                f'"time":{(time or 0) // 1_000},"distinct_id":{quote(str(identity))},"$insert_id":"{row_id}"'
            )
            event = f'{{"event":{quote(str(name))},"properties":{{{own}{"," if members else ""}{members}}}}}'
            self._events.append(event.encode(errors="replace"))
        most_rows, most_bytes = CAPABILITIES.max_rows or 1, CAPABILITIES.max_bytes or 1
        self.parts = sized_parts(self._events, self.refusals, most_rows, most_bytes)

    def request(self, rows: Rows) -> Request:
        """Build the request that carries these rows."""
        url = f"{self._server.url.removesuffix('/')}/import?strict=1&project_id={self._sink.project}"
        body = b"[%b]" % b",".join(self._events[row] for row in rows)
        return Request("POST", url, {"Content-Type": "application/json"}, body)

    def judge(self, rows: Rows, answer: HttpAnswer) -> Verdict:
        """Interpret an answer. Raises: JobError."""
        failed = posting.json_object(answer).get("failed_records") if answer.status == _PARTIAL else None
        if not isinstance(failed, list) or not failed:
            return posting.interpret(self._server, rows, answer, is_taken=is_taken(answer))
        refused = {}
        for failure in failed:
            index, place = _failure(failure)
            if not 0 <= index < len(rows):
                return posting.interpret(self._server, rows, answer, is_taken=False)
            detail = f"{self._server.name} does not import the event{place}."
            refused[index] = Refusal(rows[index], "SINK_REFUSED", detail)
        return Verdict(refused=[*refused.values()])


def is_taken(answer: HttpAnswer) -> bool:
    """Check the proof that Mixpanel imported all events: 200, and JSON whose `code` is 200, too."""
    return answer.status == 200 and posting.json_object(answer).get("code") == 200


def _failure(entry: Any) -> tuple[int, str]:
    """Return the index in the request of an event that was not imported, and the property at fault."""
    if not isinstance(entry, Mapping) or not isinstance(entry.get("index"), int):
        return -1, ""
    name = str(entry.get("field") or "")
    return entry["index"], f" for {name}" if name.removeprefix("properties.").isidentifier() else ""
