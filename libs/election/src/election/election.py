"""Who leads a log: standing by until the leader is known to be dead or its beat is missing.

A claim is a record; its sequence is the epoch, and the newest epoch leads. So two claims at once do no harm:
one of the two is older, and stands by.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

from google.protobuf.message import Message

from election.identity import proven_dead
from eventlog import Draft, LogUnavailable, Record
from eventlog.follower import Follower

# How long the very first candidate of a log waits, in case another one starts with it.
FIRST_WAIT: Final = timedelta(milliseconds=500)
# Beats in the time after which a leader is given up.
_BEATS: Final = 5


class Deposed(Exception):  # noqa: N818 - reads as what happened
    """Another one leads: stand by."""


class Beats(Protocol):
    """The topic of beats."""

    async def append(self, draft: Draft) -> None:
        """Send one. Raises: LogUnavailable."""

    def follow(self) -> AsyncIterator[Record]:
        """What comes, for ever."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who made the newest claim."""

    epoch: int
    """Sequence of the claim."""
    id: str


@dataclass(frozen=True, slots=True)
class Office:
    """What is held, in the words of its topics."""

    name: str
    """Subject of claims and beats, and the first part of their source."""
    claim: Callable[[str, str], Message]
    """Of a candidate's identity and host."""
    beat: Callable[[int, str], Message]
    """Of an epoch and its holder's identity."""
    holder: Callable[[], Holder | None]
    """By the newest claim that is folded; None before the first."""


class Election:
    """One candidate's claim to an office, and what it knows of the holder's life while it stands by.

    The service tells it what it hears: `claimed` at every claim that is folded, `heard` at every beat.
    """

    def __init__(
        self,
        office: Office,
        follower: Follower[Any],
        beats: Beats,
        *,
        id: str,  # noqa: A002 - what it is
        host: str,
        patience: timedelta,
        clock: Callable[[], datetime],
        dead: Callable[[str], bool] = proven_dead,
    ) -> None:
        """`patience`: how long a missing beat is borne. `dead`: whether a candidate's death is proven."""
        self.id = id
        self.epoch = -1
        """Our newest claim; -1 while we stand by."""
        self._office, self._follower, self._beats = office, follower, beats
        self._host, self._patience, self._clock, self._dead = host, patience, clock, dead
        self._since = self._heard = clock()
        self._beaten: datetime | None = None

    @property
    def source(self) -> str:
        """ce_source of what this candidate writes."""
        return f"/{self._office.name}/{self.id}"

    @property
    def leads(self) -> bool:
        """Whether our claim is the newest, as far as the log is folded."""
        holder = self._office.holder()
        return holder is not None and holder.epoch == self.epoch

    # ---- Standing by ---------------------------------------------------------------------------------------

    def heard(self, epoch: int) -> None:
        """A beat came. One of an older epoch is the beat of a leader that was replaced."""
        holder = self._office.holder()
        if holder is None or epoch >= holder.epoch:
            self._heard = self._clock()

    def claimed(self) -> None:
        """Somebody claimed: the claim is its first beat, or two candidates would claim in turns."""
        self._heard = self._clock()

    def may_claim(self) -> bool:
        """Whether nobody leads any more."""
        holder = self._office.holder()
        if holder is None:
            return self._clock() - self._since >= FIRST_WAIT
        return self._clock() - self._heard >= self._patience or self._dead(holder.id)

    async def claim(self) -> None:
        """Append a claim and read it back.

        Raises: Deposed when another one came before or after it; LogUnavailable as the follower does.
        """
        await self._follower.catch_up()
        if not self.may_claim():  # somebody was faster
            raise Deposed
        now = self._heard = self._clock()  # one claim, then patience again
        claim = self._office.claim(self.id, self._host)
        id_ = f"{claim.DESCRIPTOR.name}/{self.id}/{self._follower.sequence}"
        step = await self._follower.append(Draft(id_, self.source, self._office.name, now, claim))
        self.epoch, self._beaten = step.record.sequence, None
        await self._follower.catch_up()
        self.still()

    # ---- Leading -------------------------------------------------------------------------------------------

    def still(self) -> None:
        """Raises: Deposed when ours is not the newest epoch."""
        if not self.leads:
            raise Deposed

    def resign(self) -> None:
        """Stand by from now on."""
        self.epoch = -1
        self._heard = self._clock()

    async def beat(self) -> bool:
        """Say that the leader lives, when that is due; whether it was. Raises: LogUnavailable."""
        now = self._clock()
        if self._beaten is not None and now - self._beaten < self._patience / _BEATS:
            return False
        self._beaten = now
        beat = self._office.beat(self.epoch, self.id)
        id_ = f"{self.id}/{now.timestamp():.6f}"
        await self._beats.append(Draft(id_, self.source, self._office.name, now, beat))
        return True

    async def keep_beating(self) -> None:
        """Say it for ever. A beat that cannot be sent is missing: a standby takes over, as it should."""
        while True:
            with suppress(LogUnavailable):
                await self.beat()
            await asyncio.sleep((self._patience / _BEATS / 2).total_seconds())
