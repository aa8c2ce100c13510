"""The protocol of a log, and its errors: one topic of one partition, appended to, and read in order.

LogError
├── LogUnavailable   temporary: Kafka does not answer; try again
├── LogDamaged       the topic is not what was read before: it is shorter, lost records, or is another
│   │                cluster's. Never go on as if it were empty: refuse writes and call a person
│   └── LogReplaced  it holds other records where it was read before: show nothing that was made of it
└── RecordTooLarge   the record is beyond what the topic takes; nothing was written
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Final, Protocol

from eventlog.record import Draft, Record

_REMEDY: Final = (
    "Until a person has looked, nothing is written or launched, and running drivers are left alone:"
    ' docs/operations.md says under "When the log is damaged" how it is restored'
)


class LogError(Exception):
    """Operation that the log could not do. The message is a sentence for a person."""


class LogUnavailable(LogError):  # noqa: N818 - reads as what happened
    """Kafka does not answer now. The operation may have happened: repeat it under the same id."""


class LogRefused(LogUnavailable):
    """Kafka refuses these settings, or they cannot be used. Waiting does not help."""


class LogDamaged(LogError):  # noqa: N818 - reads as what happened
    """The topic is not the one that was read before, or lost records. A restart does not help.

    problem: a clause without a full stop that names the topic and what is wrong; the remedy is added.
    """

    def __init__(self, problem: str) -> None:
        super().__init__(f"{problem}. {_REMEDY}")


class LogReplaced(LogDamaged):
    """The topic holds other records where it was read before: any state made from it is of another log."""


class RecordTooLarge(LogError):  # noqa: N818 - reads as what happened
    """The record is larger than the topic accepts. Nothing was written."""


class Log(Protocol):
    """Append-only records in one order. `KafkaLog` and `MemoryLog` pass the same `testing.LogContract`.

    Wrap `replay` and `follow` in `contextlib.aclosing` if reading may stop early: it closes the connection.
    """

    async def append(self, draft: Draft) -> None:
        """Append a record, and return when it is acknowledged.

        The record may stand in the log twice after a failure, always under the same id: find it by its id.

        Raises: LogUnavailable (it may stand in the log or not), LogDamaged, RecordTooLarge.
        """

    def replay(self, since: int = -1) -> AsyncGenerator[Record, None]:
        """Yield the records with sequence > since, in order, up to the end at the time of the call.

        Raises: LogUnavailable; LogDamaged when the log ends before `since`, or no longer holds since + 1.
        """

    def follow(self, since: int = -1) -> AsyncGenerator[Record, None]:
        """Yield the records with sequence > since, in order, then new ones for ever.

        Waits through outages of the broker once it has begun. Raises: LogUnavailable at the start; LogDamaged
        when the log ends before `since`, or loses or replaces records.
        """

    async def read(self, sequences: Sequence[int]) -> list[Record]:
        """Read again the records at these sequences, in this order.

        Raises: LogUnavailable; LogDamaged when the log does not hold one of them.
        """

    async def end(self) -> int:
        """Return the sequence of the last record; -1 for an empty log. Raises: LogUnavailable, LogDamaged."""
