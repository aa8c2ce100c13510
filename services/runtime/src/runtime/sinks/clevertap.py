"""The sink `clevertap`: each row is an event of a user in CleverTap, or properties of a profile.

Guarantee: at least once. Nothing tells CleverTap that an event came again after a crash. A row that it does
not process is quarantined and the others are written; while it is away, or has too many requests under way,
the batch waits.

It answers 200 whatever became of the records: those that were not processed stand in the answer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import pyarrow as pa
from daggers.v1 import spec_pb2

from daggerspec.sinks.clevertap import CAPABILITIES, LONGEST_VALUE, MOST_IN_FLIGHT
from runtime.clients.bisection import RefusalCause, Rows
from runtime.clients.http import posting
from runtime.clients.http.connection import HttpAnswer, Request, Server
from runtime.clients.http.posting import PostBatches
from runtime.clients.sending import Verdict, parts
from runtime.encode import json_text, user_events
from runtime.encode.rows import Refusal
from runtime.errors import TemporaryError
from runtime.sinks import RowWriter, Target, Writer

_SERVER_ERROR: Final = 555
"""The one code of a record that is worth another try."""
_SUCCESS: Final = "success"
_JUDGED: Final = frozenset({_SUCCESS, "partial", "fail"})
"""Values of `status` in an answer that has judged the records of a request."""


def check(target: Target) -> None:
    """Raise `JobError` for rows without a text, a secret that is not there, an address that is refused."""
    server = server_of(target.resolved)
    Uploads(target, server, target.no_rows)
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
    encode = partial(Uploads, target, server)
    return RowWriter(PostBatches(server, encode, may_refuse=target.may_refuse_all).send)


def server_of(resolved: spec_pb2.ResolvedSink) -> Server:
    """Return the server that records go to."""
    sink = resolved.sink.clevertap
    passcode = spec_pb2.HttpAuth.Header(name="X-CleverTap-Passcode", value=sink.passcode)
    auth = spec_pb2.HttpAuth(header=passcode)
    return Server.of(resolved, "CleverTap", sink.url, auth, most=MOST_IN_FLIGHT)


class Uploads:
    """Rows of a batch as records, and the requests that carry them."""

    def __init__(self, target: Target, server: Server, rows: pa.RecordBatch) -> None:
        self._server, self._sink = server, target.resolved.sink.clevertap
        events = user_events.of(
            target.layout, rows, self._sink.event, self._sink.identity, longest=LONGEST_VALUE
        )
        self.refusals = events.refusals()
        self.parts = parts(rows.num_rows, self.refusals, CAPABILITIES.max_rows or 1)
        kind, data = ("profile", "profileData") if self._sink.profile else ("event", "evtData")
        self._records = []
        quote = json_text.quote
        each_row = zip(events.identities, events.times, events.names, events.properties, strict=True)
        for identity, time, name, members in each_row:
            when = "" if time is None else f',"ts":{time // 1_000_000}'
            named = "" if self._sink.profile else f',"evtName":{quote(str(name))}'
            whose = f'"type":"{kind}","identity":{quote(str(identity))}'
            self._records.append(f'{{{whose}{when}{named},"{data}":{{{members}}}}}')

    def request(self, rows: Rows) -> Request:
        """Build the request that carries these rows."""
        headers = {
            "Content-Type": "application/json; charset=utf-8",
            "X-CleverTap-Account-Id": self._sink.account,
        }
        body = f'{{"d":[{",".join(self._records[row] for row in rows)}]}}'
        url = f"{self._server.url.removesuffix('/')}/1/upload"
        return Request("POST", url, headers, body.encode(errors="replace"))

    def judge(self, rows: Rows, answer: HttpAnswer) -> Verdict:
        """Interpret an answer: its status first, then each record. Raises: JobError."""
        failed = find_unprocessed(answer)
        if not failed:
            return posting.interpret(self._server, rows, answer, is_taken=failed is not None)
        return self._each(rows, failed)

    def _each(self, rows: Rows, failed: Sequence[Any]) -> Verdict:
        """Match unprocessed records by their content: CleverTap gives them back."""
        left: dict[str, list[int]] = {}
        for row in rows:
            left.setdefault(_known_by(json.loads(self._records[row])), []).append(row)
        refused, again, unknown = list[Refusal](), list[int](), 0
        for failure in failed:
            code, record = _failure(failure)
            same = left.get(record)
            if not same:
                unknown += 1
            elif code == _SERVER_ERROR:
                again.append(same.pop())
            else:
                refused.append(Refusal(same.pop(), "SINK_REFUSED", self._refusal_text(code)))
        if unknown:  # the records are not known: all of them once more, by themselves
            return self._divide(rows, failed)
        if not again:
            return Verdict(refused=refused)
        why = TemporaryError(
            "SINK_UNAVAILABLE", f"{self._server.name} does not take {len(again)} records now."
        )
        return Verdict(refused=refused, again=[again], why=why)

    def _divide(self, rows: Rows, failed: Sequence[Any]) -> Verdict:
        codes = [_failure(record)[0] for record in failed]
        if _SERVER_ERROR in codes:
            return Verdict(again=[rows], why=self._away())
        return Verdict(whole=RefusalCause("SINK_REFUSED", self._refusal_text(codes[0])))

    def _refusal_text(self, code: int) -> str:
        return f"{self._server.name} does not process the record (code {code})."

    def _away(self) -> TemporaryError:
        return TemporaryError("SINK_UNAVAILABLE", f"{self._server.name} does not take records now.")


def find_unprocessed(answer: HttpAnswer) -> Sequence[Any] | None:
    """Return the records that CleverTap did not process; None without the proof that it judged them.

    The proof is 200, and JSON with a `status` that is its own, and the list where not all went well.
    """
    body = posting.json_object(answer) if answer.status == 200 else {}
    status, failed = body.get("status"), body.get("unprocessed", [])
    if status not in _JUDGED or not isinstance(failed, list):
        return None
    return None if status != _SUCCESS and not failed else failed


def _failure(entry: Any) -> tuple[int, str]:
    """Return code and content of a record that was not processed."""
    if not isinstance(entry, Mapping):
        return 0, ""
    code = entry.get("code")
    return (code if isinstance(code, int) else 0), _known_by(entry.get("record"))


def _known_by(record: Any) -> str:
    return json.dumps(record, sort_keys=True)
