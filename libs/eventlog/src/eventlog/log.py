"""The log as everybody sees it: one topic of one partition, read in order, appended to.

LogError
├── LogUnavailable   temporary: Kafka does not answer; try again
├── LogDamaged       the topic is not what was read before: it is shorter, lost records, or is another
│   │                cluster's. Never go on as if it were empty: refuse writes and call a person
│   └── LogReplaced  it holds other records where it was read before: nothing that was made of it is shown
└── RecordTooLarge   the record is beyond what the topic takes; nothing was written
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Final, Protocol

from eventlog.record import Draft, Record

_WHAT_TO_DO: Final = (
    "Until a person has looked, nothing is written or launched, and running drivers are left alone:"
    ' docs/operations.md says under "When the log is damaged" how it is restored'
)


class LogError(Exception):
    """Something the log could not do, in one sentence for a person."""


class LogUnavailable(LogError):  # noqa: N818 - reads as what happened
    """Kafka does not answer now. What was asked may or may not have happened: repeat it under the same id."""


class LogRefused(LogUnavailable):
    """Kafka refuses these settings, or they cannot be used: waiting mends nothing."""


class LogDamaged(LogError):  # noqa: N818 - reads as what happened
    """The topic is not the one that was read before, or lost records. A restart does not help.

    what: one clause that says which topic, and what is wrong with it; what to do is added.
    """

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}. {_WHAT_TO_DO}")


class LogReplaced(LogDamaged):
    """The topic holds other records where it was read before: what was made of it is another log's."""


class RecordTooLarge(LogError):  # noqa: N818 - reads as what happened
    """The record is larger than the topic takes. Nothing was written."""


class Log(Protocol):
    """Append-only records in one order. `KafkaLog` and `MemoryLog` pass the same `testing.LogContract`.

    Who stops reading before the end closes the reading (`contextlib.aclosing`), so that its connection ends.
    """

    async def append(self, draft: Draft) -> None:
        """Append a record; return when it is acknowledged.

        The record may stand in the log twice after a failure, always under the same id: find it by its id.

        Raises: LogUnavailable (it may stand in the log or not), LogDamaged, RecordTooLarge.
        """

    def replay(self, since: int = -1) -> AsyncGenerator[Record, None]:
        """The records with sequence > since, in order, up to the end at the time of the call.

        Raises: LogUnavailable; LogDamaged when the log ends before `since`, or no longer holds since + 1.
        """

    def follow(self, since: int = -1) -> AsyncGenerator[Record, None]:
        """The same, and then what comes, for ever. Waits through an outage of the broker once it has begun.

        Raises: as replay.
        """

    async def read(self, sequences: Sequence[int]) -> list[Record]:
        """The records at these sequences, in this order, which were read before.

        Raises: LogUnavailable; LogDamaged when the log does not hold one of them.
        """

    async def end(self) -> int:
        """Sequence of the last record; -1 when there is none. Raises: LogUnavailable, LogDamaged."""
