"""The sink `grpc`: each row is a unary call of a method, its columns the fields of the request by name; a
record that is passed on as it was read is the request.

Guarantee: at least once, and repeats can be detected: a call that is made again, after a crash too, has the
same request and the same idempotency-key. Rows that the server refuses are quarantined; while it is away, or
asks for patience, the batch waits.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Final

import pyarrow as pa
from daggers.v1 import spec_pb2
from google.protobuf.message import DecodeError
from grpc import StatusCode

from daggerspec import success
from runtime.clients import calls
from runtime.clients.bisection import RefusalCause, Rows, history_of
from runtime.clients.calls import CallAnswer, CallBatches, Request, Server
from runtime.clients.client_pool import DENIED
from runtime.clients.sending import FEW_TRIES, Verdict, parts
from runtime.encode import protobuf, template
from runtime.encode.rows import Refusal, event_id, keys, record_values
from runtime.errors import TemporaryError, external
from runtime.recent import cache_in_use
from runtime.sinks import RowWriter, Target, Writer

_OF_SIZE: Final = re.compile(
    r"\b(?:message|payload|body|request)\b.*\b(?:size|length|larger|exceeds)\b|\btoo (?:large|big|long)\b",
    re.I,
)
"""Words of servers about a message's size. A server with other words is understood by comparison alone."""
_TOO_LARGE: Final = "TOO_LARGE"
_TAKEN: Final = frozenset({StatusCode.OK, StatusCode.ALREADY_EXISTS})
_LATER: Final = frozenset(
    {StatusCode.UNAVAILABLE, StatusCode.ABORTED, StatusCode.CANCELLED, StatusCode.DEADLINE_EXCEEDED}
)
_CROWDED: Final = frozenset(
    {StatusCode.RESOURCE_EXHAUSTED, StatusCode.UNAVAILABLE, StatusCode.DEADLINE_EXCEEDED}
)
"""Statuses of a server that has too many calls under way."""
_DENIED: Final = frozenset({StatusCode.UNAUTHENTICATED, StatusCode.PERMISSION_DENIED})
_UNCLEAR: Final = frozenset({StatusCode.INTERNAL, StatusCode.UNKNOWN})
_VALUE: Final = re.compile(r"[\x20-\x7e]*")


def check(target: Target) -> None:
    """Raise `JobError` for rows that do not fit the request, a secret that is not there, an address that is
    refused, a server that others certify. Silence is no error.
    """
    server = server_of(target.resolved)
    CalledRows(target, server, target.no_rows)
    with suppress(TemporaryError):
        calls.ask(server)


def probe(target: Target) -> None:
    """Raise TemporaryError while the server does not answer, or says by gRPC's protocol of health that it
    does not serve; most do not have that protocol.
    """
    server = server_of(target.resolved)
    answer = calls.ask(server)
    if answer.message == calls.NOT_SERVING:
        raise TemporaryError("SINK_UNAVAILABLE", f"{server.name} says that it is not serving.")
    if answer.status in _CROWDED:
        raise _later(server, answer)


def open(target: Target) -> Writer:  # noqa: A001 - the name every sink has
    """Open a writer for one partition of one batch."""
    server = server_of(target.resolved)
    ordered = target.resolved.sink.grpc.ordered
    encode = partial(CalledRows, target, server)
    return RowWriter(CallBatches(server, encode, ordered=ordered, may_refuse=target.may_refuse_all).send)


def server_of(resolved: spec_pb2.ResolvedSink) -> Server:
    """Return the server that calls of a sink go to."""
    sink = resolved.sink.grpc
    return Server(
        sink.target,
        sink.method,
        auth=sink.auth.SerializeToString(deterministic=True),
        ca_file=sink.tls.ca_file,
        client_tls=sink.client_tls.SerializeToString(deterministic=True),
        is_plain=sink.plaintext,
        egress=resolved.egress.SerializeToString(deterministic=True) if resolved.HasField("egress") else None,
        deadline_s=sink.deadline.ToTimedelta().total_seconds(),
        share=resolved.share.SerializeToString(deterministic=True),
    )


class CalledRows:
    """Rows of a batch, and the calls that carry them."""

    def __init__(self, target: Target, server: Server, rows: pa.RecordBatch) -> None:
        sink = target.resolved.sink.grpc
        self._server = server
        columns = {column.name: array for column, array in target.layout.visible(rows)}
        if target.layout.has_records:
            self._messages, unfit = record_values(rows)
        else:
            encoder = protobuf.encoder(target.layout, target.schema, target.descriptors, sink.message)
            self._messages, unfit = encoder.encode(rows)
        self._metadata = {
            name: template.texts(text, columns, rows.num_rows) for name, text in sorted(sink.metadata.items())
        }
        self._source, self._keys = f"{target.dagger}/{target.name}", keys(target.layout, rows)
        self.refusals = [
            *unfit,
            *self._unsendable({refusal.row for refusal in unfit}, sink.metadata, columns),
        ]
        self.parts = parts(rows.num_rows, self.refusals, 1)
        self._success = (sink.success_if, sink.response, target.descriptors) if sink.success_if else None
        self._tries = Counter[int]()
        self._history = history_of(server)

    def _unsendable(
        self, unfit: set[int], templates: Mapping[str, str], columns: template.Columns
    ) -> list[Refusal]:
        """Refuse further rows, which no call can carry."""
        why: dict[int, tuple[str, str]] = {}
        for name, texts in self._metadata.items():
            for row, text in enumerate(texts):
                if text is None:
                    why[row] = template.why_missing([templates[name]], columns, row)
                elif not _VALUE.fullmatch(text):
                    why[row] = "SINK_REFUSED", f"A value of the row cannot stand in the metadata {name}."
        return [Refusal(row, *why[row]) for row in sorted(why.keys() - unfit)]

    def request(self, rows: Rows) -> Request:
        """Build the call that carries a row."""
        [row] = rows
        row_id = event_id(self._source, self._keys[row], None)
        own = [(name, str(texts[row])) for name, texts in self._metadata.items()]
        return Request(self._messages[row] or b"", (("idempotency-key", row_id), ("ce-id", row_id), *own))

    def judge(self, rows: Rows, answer: CallAnswer) -> Verdict:
        """Interpret a status. No detail quotes the server's message, which may quote a row.

        Raises: JobError for what somebody has to mend.
        """
        status, server = answer.status, self._server
        if self.is_taken(answer):
            self._history.record_accepted_size(self._size(rows))
            return Verdict()
        if status in _DENIED:
            detail = f"{server.name} answers {status.name}: check the secret that it is shown."
            raise external(DENIED, detail, retryable=True)
        if status == StatusCode.UNIMPLEMENTED:
            detail = f"{server.name} answers {status.name}: it has no method {server.method}."
            raise external("SINK_MISSING", detail, retryable=True)
        if status == StatusCode.RESOURCE_EXHAUSTED:
            return self._judge_exhausted(rows, answer)
        detail, later = f"{server.name} answers {_describe(answer)}.", _later(server, answer)
        if status in _UNCLEAR or status == StatusCode.OK:
            self._tries[rows[0]] += 1
            return Verdict.of_either(self._tries[rows[0]], rows, RefusalCause("SINK_REFUSED", detail), later)
        if status in _LATER:
            return Verdict(again=[rows], why=later, is_throttled=status in _CROWDED)
        return Verdict(whole=RefusalCause("SINK_REFUSED", detail))

    def is_taken(self, answer: CallAnswer) -> bool:
        """Check whether a row was taken, by the sink's own condition of success if it has one."""
        if answer.status == StatusCode.OK and self._success is not None:
            return _succeeds(*self._success, answer.message)
        return answer.status in _TAKEN

    def _judge_exhausted(self, rows: Rows, answer: CallAnswer) -> Verdict:
        """Decide between too many calls and a message that is too large; each library has its own words.

        A row that was taken before tells, or one that was too large. A row that is no larger than another one
        that was taken waits, for there may be quotas of each customer; unless the server speaks of its size:
        it may measure what it makes of a message.
        """
        answers = f"{self._server.name} answers {_describe(answer)}, and takes other rows"
        too_large = RefusalCause(_TOO_LARGE, f"{answers}: its message is too large.")
        size = self._size(rows)
        if self._history.is_too_large(time.monotonic(), size):
            return Verdict(whole=too_large)
        self._tries[rows[0]] += 1
        may_be = self._history.may_be_too_large(size) or _OF_SIZE.search(answer.details) is not None
        doubt = too_large if may_be and self._tries[rows[0]] >= FEW_TRIES else None
        return Verdict(again=[rows], why=_later(self._server, answer), is_throttled=True, doubt=doubt)

    def record_refused(self, rows: Rows, why: RefusalCause) -> None:
        """Remember the size of rows that were refused while others were taken."""
        if why.reason == _TOO_LARGE:
            self._history.record_refused_size(time.monotonic(), self._size(rows))

    def _size(self, rows: Rows) -> int:
        """Return the bytes of the message that carries a row."""
        [row] = rows
        return len(self._messages[row] or b"")


def _describe(answer: CallAnswer) -> str:
    """Describe the answer of a server that has not taken a row."""
    return "OK, and not what success_if says" if answer.status == StatusCode.OK else answer.status.name


@cache_in_use
def _comparisons(text: str) -> tuple[success.Comparison, ...]:
    return success.parse(text)


def _succeeds(text: str, message: str, descriptors: bytes, answer: bytes) -> bool:
    """Evaluate a condition of success on an answer; False for one that is no such message."""
    with suppress(DecodeError):
        return success.holds(
            _comparisons(text), protobuf.message_class(descriptors, message).FromString(answer)
        )
    return False


def _later(server: Server, answer: CallAnswer) -> TemporaryError:
    """Make the error of a server that takes no rows now."""
    reason, problem = "SINK_UNAVAILABLE", "takes no rows"
    if answer.status == StatusCode.RESOURCE_EXHAUSTED:
        reason, problem = "SINK_THROTTLES", "asks for fewer calls"
    detail = f"{server.name} {problem} now (status {_describe(answer)})."
    return TemporaryError(reason, detail, answer.retry_after)
