"""State that is folded from a log, steps for subscribers, and the check against another log. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from eventlog.log import LogDamaged, LogReplaced
from eventlog.record import LogPosition, Record

A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)

# A subscriber that falls further behind reads on from the log.
BACKLOG: Final = 1_000


class Fold(Protocol[A_co]):
    """State that is made from records, one after the other."""

    @property
    def position(self) -> LogPosition:
        """Position of the newest record that was applied; its history identifies the log."""

    def apply(self, record: Record) -> A_co:
        """Fold one record in and return what it did. Never raises, whatever record stands in the topic."""


class Step(NamedTuple, Generic[A]):  # as Record
    """A record, and what the fold made of it."""

    record: Record
    applied: A


class Subscription(Generic[A]):
    """Queue of steps, in order, for one subscriber. It overflows rather than slow the fold down."""

    def __init__(self) -> None:
        self.steps: deque[Step[A]] = deque()
        self.overflowed = False

    def take(self, step: Step[A]) -> None:
        """Queue a step; behind BACKLOG steps set `overflowed` instead."""
        if len(self.steps) < BACKLOG:
            self.steps.append(step)
        else:
            self.overflowed = True


@dataclass(frozen=True, slots=True)
class LogBaseline:
    """Position that was read before this process began: a log that is shorter, or another one, is damaged."""

    position: LogPosition = LogPosition()  # noqa: RUF009 - a constant
    reset_hint: str = ""
    """Clause, without a full stop, that tells a person how to make the service forget the position."""

    def check_end(self, end: int) -> None:
        """Compare with the log's last sequence. Raises: LogDamaged when the log is shorter than it was."""
        if end < self.position.sequence:
            raise LogDamaged(
                f"the log ends at sequence {end}, but {self.position.sequence} was read before: it lost"
                f" records, or is another one{self._advice}"
            )

    def check(self, position: LogPosition) -> None:
        """Compare the histories, once the fold is at the sequence. Raises: LogReplaced when they differ."""
        if position.sequence == self.position.sequence and position != self.position:
            raise LogReplaced(
                f"the log was read up to sequence {position.sequence} before, and holds other records there"
                f" now: it was made anew, or is another one{self._advice}"
            )

    @property
    def _advice(self) -> str:
        return f". If it is meant, {self.reset_hint}" if self.reset_hint else ""
