"""How a recount reads records: plain Python over Protobuf messages, and no line of the product between."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

Streams: TypeAlias = Mapping[str, Sequence[Message]]
"""All records of each stream, in the order they came."""
Row: TypeAlias = dict[str, Any]
Recount: TypeAlias = Callable[[Streams, datetime], Iterable[Row]]
"""The rows that a query must have given over these records, once event time had come to the moment."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)


def get(record: Message | None, path: str) -> Any:
    """The column `path` of a record, as docs/dialect.md has it: None below a message that is not set."""
    for name in path.split("."):
        if record is None:
            return None
        if record.DESCRIPTOR.full_name == "google.protobuf.Timestamp":
            return getattr(record, name)
        field = record.DESCRIPTOR.fields_by_name[name]
        value = getattr(record, name)
        if field.is_repeated:
            return value
        if field.enum_type is not None:
            return _name(field, value)
        if field.message_type is None:
            return value
        record = value if record.HasField(name) else None
    return record


def _name(field: FieldDescriptor, number: int) -> str:
    value = field.enum_type.values_by_number.get(number)
    return str(number) if value is None else str(value.name)


def at(record: Message) -> datetime:
    """The event time of a record."""
    moment: Message = record.event_timestamp  # type: ignore[attr-defined]
    return EPOCH + timedelta(seconds=moment.seconds, microseconds=moment.nanos // 1000)  # type: ignore[attr-defined]


def ends(moment: datetime, size: timedelta, slide: timedelta | None = None) -> Iterator[datetime]:
    """The ends of all windows that hold a moment; windows begin at multiples of `slide` after the epoch."""
    slide = slide or size
    start = EPOCH + (moment - EPOCH) // slide * slide
    while start + size > moment:
        yield start + size
        start -= slide


def windows(
    items: Iterable[Any],
    time: Callable[[Any], datetime],
    key: Callable[[Any], Hashable],
    until: datetime,
    size: timedelta,
    slide: timedelta | None = None,
) -> Iterator[tuple[datetime, Any, list[Any]]]:
    """End, key and items of each group whose window has closed."""
    groups: dict[tuple[datetime, Hashable], list[Any]] = defaultdict(list)
    for item in items:
        for end in ends(time(item), size, slide):
            groups[end, key(item)].append(item)
    for (end, name), members in groups.items():
        if end <= until:
            yield end, name, members


def sessions(
    items: Iterable[Any],
    time: Callable[[Any], datetime],
    key: Callable[[Any], Hashable],
    until: datetime,
    gap: timedelta,
) -> Iterator[tuple[datetime, datetime, Any, list[Any]]]:
    """Start, end, key and items of each session that has closed: `gap` without an item ends one."""
    groups: dict[Hashable, list[Any]] = defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    for name, members in groups.items():
        members.sort(key=time)
        session = [members[0]]
        for item in [*members[1:], None]:
            if item is not None and time(item) - time(session[-1]) < gap:
                session.append(item)
                continue
            if time(session[-1]) + gap <= until:
                yield time(session[0]), time(session[-1]) + gap, name, session
            if item is not None:
                session = [item]
