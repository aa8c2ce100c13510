"""For tests: records out of messages for folds, and the contract that every log passes."""

# ruff: noqa: D102 - the name of a test is its sentence

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from typing import Any

from daggers.v1 import events_pb2
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message

from eventlog.log import Log, LogDamaged
from eventlog.record import Draft, Record, read_record
from eventlog.tail import Arrival

START = datetime(2026, 1, 1, tzinfo=UTC)
_DEADLINE_S = 30.0


def record(message: Message, *, sequence: int = 0, id: str | None = None, source: str = "/test") -> Record:  # noqa: A002 - the field's name
    """Build the record of `message` at `sequence`, written that many seconds after START.

    The id is `id-SEQUENCE` unless given; the subject is read from the message.
    """
    draft = Draft(
        id=f"id-{sequence}" if id is None else id,
        source=source,
        subject=subject_of(message),
        time=START + timedelta(seconds=sequence),
        message=message,
    )
    return read_record(sequence, draft.headers(), message.SerializeToString(deterministic=True))


def given(*messages: Message, since: int = -1) -> list[Record]:
    """Build one record for each message, with sequences since + 1, since + 2, …

    It is the "given" of given/when/then: `fold.apply` them, then decide.
    """
    return [record(message, sequence=sequence) for sequence, message in enumerate(messages, start=since + 1)]


def subject_of(event: Any) -> str:
    """Return the name of the dagger, cluster or stream that an event is about; of a schema, its messages."""
    fields = event.DESCRIPTOR.fields_by_name
    for field in ("cluster", "stream", "meta"):
        kind = fields[field].message_type if field in fields else None  # None: a text, such as a name
        if kind is not None and "name" in kind.fields_by_name:
            return str(getattr(event, field).name)
    if "schema" in fields:
        return ",".join(event.schema.messages)
    return str(getattr(event, "name", ""))


class LogTail:
    """Tail of any log, by the records' own time."""

    def __init__(self, log: Log) -> None:
        self._log = log

    async def follow(self, since: datetime) -> AsyncGenerator[Arrival]:
        """Yield the records with a time since then, then new ones for ever."""
        end = await self._log.end()
        async with aclosing(self._log.follow()) as records:
            async for record in records:
                if record.sequence > end or record.time >= since:
                    yield Arrival(record, past=record.sequence <= end)


class LogContract:
    """Tests of what a log promises. Subclasses have an async fixture `log`, a new one, and `write_raw`."""

    async def write_raw(self, log: Any, headers: list[tuple[str, bytes]], value: bytes) -> None:
        """Write a record to the topic of `log` without calling `log`."""
        raise NotImplementedError

    async def test_a_new_log_is_empty(self, log: Log) -> None:
        end = await log.end()

        assert (end, await _read(log.replay(), 0)) == (-1, [])

    async def test_what_is_appended_is_replayed_whole_and_in_order(self, log: Log) -> None:
        for draft in map(_draft, range(5)):
            await log.append(draft)

        replayed = [record async for record in log.replay()]

        assert [(r.sequence, r.id, r.source, r.subject, r.time, r.type, r.message) for r in replayed] == [
            (n, d.id, d.source, d.subject, d.time, "daggers.v1.StopRequested", d.message)
            for n, d in enumerate(map(_draft, range(5)))
        ]

    async def test_sequences_begin_at_0_and_end_is_the_last(self, log: Log) -> None:
        await log.append(_draft(0))
        await log.append(_draft(1))

        end = await log.end()

        assert end == 1

    async def test_replay_begins_behind_since(self, log: Log) -> None:
        for draft in map(_draft, range(4)):
            await log.append(draft)

        replayed = [record.sequence async for record in log.replay(since=1)]

        assert replayed == [2, 3]

    async def test_replay_from_the_end_is_empty(self, log: Log) -> None:
        await log.append(_draft(0))

        replayed = [record async for record in log.replay(since=0)]

        assert replayed == []

    async def test_single_records_are_read_in_the_order_that_is_asked_for(self, log: Log) -> None:
        for draft in map(_draft, range(20)):
            await log.append(draft)

        read = [(record.sequence, record.id) for record in await log.read([17, 3, 3, 0, 19])]

        assert read == [(n, f"id-{n}") for n in (17, 3, 3, 0, 19)]

    async def test_no_records_are_read_of_an_empty_log(self, log: Log) -> None:
        assert await log.read([]) == []

    async def test_a_single_record_behind_the_end_is_damage(self, log: Log) -> None:
        await log.append(_draft(0))

        async def each() -> AsyncIterator[Record]:
            for record in await log.read([0, 1]):
                yield record

        assert await _damage(each())

    async def test_the_same_id_stands_twice_when_appended_twice(self, log: Log) -> None:
        await log.append(_draft(7))
        await log.append(_draft(7))

        replayed = [(record.sequence, record.id) async for record in log.replay()]

        assert replayed == [(0, "id-7"), (1, "id-7")]

    async def test_follow_gives_what_is_there_and_then_what_comes(self, log: Log) -> None:
        await log.append(_draft(0))
        following = log.follow()
        before = await _read(following, 1)
        await log.append(_draft(1))
        await log.append(_draft(2))

        after = await _read(following, 2)

        assert [r.id for r in before + after] == ["id-0", "id-1", "id-2"]

    async def test_two_followers_see_the_same(self, log: Log) -> None:
        one, two = log.follow(), log.follow(since=0)
        for draft in map(_draft, range(3)):
            await log.append(draft)

        seen = await asyncio.gather(_read(one, 3), _read(two, 2))

        assert seen[0][1:] == seen[1]

    async def test_concurrent_appends_all_stand_in_the_log_once(self, log: Log) -> None:
        await asyncio.gather(*(log.append(draft) for draft in map(_draft, range(50))))

        replayed = [record.id async for record in log.replay()]

        assert sorted(replayed) == sorted(f"id-{n}" for n in range(50))

    async def test_a_log_that_ends_before_since_is_damaged(self, log: Log) -> None:
        await log.append(_draft(0))

        refused = [await _damage(log.replay(since=5)), await _damage(log.follow(since=5))]

        assert refused == [True, True]

    async def test_a_type_nobody_knows_is_read_without_its_message(self, log: Log) -> None:
        await log.append(Draft("id-0", "/test", "a", START, Empty()))

        (record,) = await _read(log.replay(), 1)

        assert (record.type, record.id, record.message) == ("google.protobuf.Empty", "id-0", None)

    async def test_a_value_that_does_not_decode_is_read_without_its_message(self, log: Log) -> None:
        await self.write_raw(log, _draft(0).headers(), b"\xff\xff")

        (record,) = await _read(log.replay(), 1)

        assert (record.type, record.message, record.value) == ("daggers.v1.StopRequested", None, b"\xff\xff")

    async def test_a_record_without_headers_is_read_as_nothing_known(self, log: Log) -> None:
        await self.write_raw(log, [], b"by hand")

        (record,) = await _read(log.replay(), 1)

        assert (record.sequence, record.id, record.type, record.message) == (0, "", "", None)

    async def test_reading_goes_on_after_a_damaged_record(self, log: Log) -> None:
        await self.write_raw(log, [("ce_id", b"\xff"), ("ce_time", b"noon")], b"")
        await log.append(_draft(1))

        replayed = await _read(log.replay(), 2)

        assert replayed[1].id == "id-1"


def _draft(number: int) -> Draft:
    message = events_pb2.StopRequested(
        meta=events_pb2.RequestMeta(actor="anyone", expected_version=number),
        name=f"dagger_{number}",
        mode=events_pb2.STOP_MODE_NOW,
    )
    time = START + timedelta(seconds=number, microseconds=123)
    return Draft(f"id-{number}", "/test/ä", f"dagger_{number}", time, message)


async def _read(records: AsyncIterator[Record], count: int) -> list[Record]:
    async with asyncio.timeout(_DEADLINE_S):
        return [await anext(records) for _ in range(count)]


async def _damage(records: AsyncIterator[Record]) -> bool:
    try:
        await _read(records, 1)
    except LogDamaged:
        return True
    return False
