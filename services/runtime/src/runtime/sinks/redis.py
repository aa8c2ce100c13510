"""The sink `redis`: each row is the value of a key of Redis, a string of JSON or a hash.

Guarantee: effectively once. A row is identified by its key; a batch that is repeated after a crash puts the
same values in their places. A row that the server refuses (its key holds a value of another type) is
quarantined and the others are written; while the server is away, is a replica or has no memory left, the
batch waits.

Commands go many at once, and their replies are read then. They are no transaction: somebody who reads may see
one row of a batch and not yet the next, and a hash whose time to live is not set yet.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

import pyarrow as pa
from daggers.v1 import spec_pb2

from daggerspec.sinks.redis import CAPABILITIES, MAX_KEY
from runtime.clients import bisection, pace, redis
from runtime.clients.bisection import RefusalCause, Rows, sized_parts
from runtime.clients.redis import Command
from runtime.encode import json_text, template
from runtime.encode.rows import Refusal
from runtime.errors import TemporaryError
from runtime.sinks import RowWriter, Target, Writer


def check(target: Target) -> None:
    """Raise `JobError` for a secret that is not there, an address that is refused, a server that is not
    known, or does not let this job in. Silence is no error.
    """
    _Keys(target, target.no_rows)
    with suppress(TemporaryError):
        probe(target)


def probe(target: Target) -> None:
    """Raise `JobError` while the server does not answer. That it takes writes only a write tells: what says
    so is a command that few users may give.
    """
    with redis.open_connection(target.resolved) as connection:
        redis.send_commands(connection, [("PING",)])


def open(target: Target) -> Writer:  # noqa: A001 - the name every sink has
    """Open a writer for one partition of one batch."""
    return RowWriter(lambda rows: _write(target, _Keys(target, rows)))


def _write(target: Target, keys: _Keys) -> list[Refusal]:
    """Write rows, of one key the last; return those that are refused. Raises: JobError."""
    sink_pace = pace.of(target.resolved)
    own = target.resolved.sink.redis

    def attempt(rows: Rows) -> RefusalCause | None:
        """Write these rows; return which of them were refused, and why the first was."""
        sink_pace.wait(len(rows))
        commands = [(row, command) for row in rows for command in keys.commands(row)]
        with redis.open_connection(target.resolved) as connection:
            replies = redis.send_commands(connection, [command for _, command in commands])
        answered = zip(commands, replies, strict=True)
        wrong = {row: reply for (row, _), reply in answered if isinstance(reply, redis.RefusedReply)}
        if not wrong:
            return None
        return redis.refusal_cause(next(iter(wrong.values())), own, rows=sorted(wrong))

    most_rows, most_bytes = sink_pace.max_rows(CAPABILITIES.max_rows or 1), CAPABILITIES.max_bytes or 1
    refused = bisection.divide(
        sized_parts(keys.texts, keys.refusals, most_rows, most_bytes),
        attempt,
        bisection.history_of(target.sink),
        may_refuse=target.may_refuse_all,
    )
    return [*keys.refusals, *refused]


class _Keys:
    """Rows of a batch as keys and their values."""

    def __init__(self, target: Target, rows: pa.RecordBatch) -> None:
        sink = target.resolved.sink.redis
        self._is_hash = sink.type == spec_pb2.RedisSink.TYPE_HASH
        self._ttl = sink.ttl.ToTimedelta() // timedelta(milliseconds=1) if sink.HasField("ttl") else 0
        visible = [(column.name, array) for column, array in target.layout.visible(rows)]
        self._keys = template.texts(sink.key, dict(visible), rows.num_rows)
        self.refusals = _unsendable(self._keys, sink.key, dict(visible))
        if self._is_hash:
            columns = [template.plain(array) for _, array in visible]
            self._names = [name.encode() for name, _ in visible]
            self._values = [
                [None if value is None else value.encode(errors="replace") for value in row]
                for row in zip(*columns, strict=True)
            ]
            self.texts = [b"".join(value for value in row if value is not None) for row in self._values]
        else:
            self.texts = [text.encode(errors="replace") for text in json_text.objects(visible)]

    def commands(self, row: int) -> list[Command]:
        """Build the commands that write a row. Twice is like once."""
        key = str(self._keys[row]).encode(errors="replace")
        if not self._is_hash:
            return [("SET", key, self.texts[row], *(("PX", self._ttl) if self._ttl else ()))]
        fields = list(zip(self._names, self._values[row], strict=True))
        present = [part for name, value in fields if value is not None for part in (name, value)]
        absent = [name for name, value in fields if value is None]
        commands: list[Command] = []
        if absent:
            commands.append(("HDEL", key, *absent))
        if present:
            commands.append(("HSET", key, *present))
        if self._ttl:
            commands.append(("PEXPIRE", key, self._ttl))
        return commands


def _unsendable(keys: list[str | None], key_template: str, columns: template.Columns) -> list[Refusal]:
    """Refuse the rows that have no key."""
    refusals = []
    for row, key in enumerate(keys):
        if key is None:
            refusals.append(Refusal(row, *template.why_missing([key_template], columns, row)))
        elif not 0 < len(key.encode(errors="replace")) <= MAX_KEY:
            detail = f"The key of the row is empty, or longer than {MAX_KEY} bytes."
            refusals.append(Refusal(row, "TOO_LARGE", detail))
    return refusals
