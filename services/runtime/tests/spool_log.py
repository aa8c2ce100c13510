"""The log of a sink in memory, which passes the same tests as that in a topic (test_spool_log.py)."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from runtime.errors import JobError, external
from runtime.spool.log import Log, Record


@dataclass
class MemoryLog:
    """Records of one sink, as long as this process lives."""

    logs: ClassVar[dict[str, MemoryLog]] = {}
    begin: int = 0
    records: list[Record] = field(default_factory=list)
    refusal: JobError | None = None
    """Error that every call raises."""
    takes_nothing: bool = False
    """True if it may be made, read and deleted from, and takes no records."""
    is_there: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def list_sinks(cls) -> frozenset[str]:
        return frozenset(name for name, log in cls.logs.items() if log.is_there)

    def bounds(self) -> tuple[int, int]:
        self._answer()
        with self.lock:
            return self.begin, self.begin + len(self.records)

    def create(self) -> None:
        self._answer()
        self.is_there = True

    def append(self, records: Sequence[Record]) -> int:
        self._answer()
        if self.takes_nothing:
            raise external("SPOOL_REFUSED", "No right to write.", retryable=True)
        with self.lock:
            self.records += records
            return self.begin + len(self.records)

    def read(self, begin: int, end: int) -> Iterator[tuple[int, Record]]:
        self._answer()
        with self.lock:
            records = self.records[max(begin - self.begin, 0) : end - self.begin]
            first = max(begin, self.begin)
        yield from enumerate(records, first)

    def delete_until(self, offset: int) -> None:
        self._answer()
        with self.lock:
            self.records = self.records[max(offset - self.begin, 0) :]
            self.begin = max(offset, self.begin)

    def delete(self) -> None:
        self._answer()
        with self.lock:
            self.begin, self.records, self.is_there = 0, [], False

    def _answer(self) -> None:
        if self.refusal is not None:
            raise self.refusal


@dataclass(frozen=True)
class MemoryAddress:
    """Address of the log of a sink."""

    name: str

    def open(self) -> Log:
        return MemoryLog.logs.setdefault(self.name, MemoryLog())
