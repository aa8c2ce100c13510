"""What a log is folded into, and what a follower hands on of it. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from eventlog.log import LogDamaged, LogReplaced
from eventlog.record import LogPosition, Record

A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)

# A subscriber that falls further behind reads on from the log.
BACKLOG: Final = 1_000


class Fold(Protocol[A_co]):
    """A state made of records, one after the other."""

    @property
    def position(self) -> LogPosition:
        """How far the log is folded, and which log it is."""

    def apply(self, record: Record) -> A_co:
        """Fold one record in; what it did. Never raises for any record that can stand in a topic."""


@dataclass(frozen=True, slots=True)
class Step(Generic[A]):
    """A record as the fold took it."""

    record: Record
    applied: A


class Subscription(Generic[A]):
    """The newest steps, for one subscriber, in order. Overflows rather than slow the fold down."""

    def __init__(self) -> None:
        self.steps: deque[Step[A]] = deque()
        self.overflowed = False

    def take(self, step: Step[A]) -> None:
        """One step more."""
        if len(self.steps) < BACKLOG:
            self.steps.append(step)
        else:
            self.overflowed = True


@dataclass(frozen=True, slots=True)
class Seen:
    """What log was read before this process began, and how far: a shorter or another one is damage."""

    position: LogPosition = LogPosition()  # noqa: RUF009 - a constant
    anew: str = ""
    """How a person makes the service forget that, in a sentence."""

    def check_end(self, end: int) -> None:
        """Raises: LogDamaged when the log ends, at the sequence `end`, before what was read."""
        if end < self.position.sequence:
            raise LogDamaged(
                f"the log ends at sequence {end}, but {self.position.sequence} was read before: it lost"
                f" records, or is another one{self._advice}"
            )

    def check(self, position: LogPosition) -> None:
        """Raises: LogReplaced when the log, folded as far as it was read before, is not that one."""
        if position.sequence == self.position.sequence and position != self.position:
            raise LogReplaced(
                f"the log was read up to sequence {position.sequence} before, and holds other records there"
                f" now: it was made anew, or is another one{self._advice}"
            )

    @property
    def _advice(self) -> str:
        return f". If it is meant, {self.anew}" if self.anew else ""
