"""Leader election on a log: a candidate stands by until the leader is proven dead or its beats are missing.

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


class LeadershipLost(Exception):  # noqa: N818 - reads as what happened
    """Another candidate leads: stand by."""


class Beats(Protocol):
    """The topic of beats."""

    async def append(self, draft: Draft) -> None:
        """Send one beat. Raises: LogUnavailable."""

    def follow(self) -> AsyncIterator[Record]:
        """Yield the beats of all candidates from now on, for ever."""


@dataclass(frozen=True, slots=True)
class Holder:
    """The candidate that made the newest claim."""

    epoch: int
    """Sequence of the claim."""
    id: str


@dataclass(frozen=True, slots=True)
class ElectionEvents:
    """Events of an election: how claims and beats of its candidates are written to their topics."""

    name: str
    """Subject of claims and beats, and the first part of their source."""
    claim: Callable[[str, str], Message]
    """Builds a claim of a candidate's identity and host."""
    beat: Callable[[int, str], Message]
    """Builds a beat of an epoch and its holder's identity."""
    holder: Callable[[], Holder | None]
    """Reads who made the newest claim that is folded; None before the first."""


class Election:
    """One candidate's claim to lead, and what it knows of the holder's life while it stands by.

    The service calls `note_claim` at every claim that is folded, `note_beat` at every beat.
    """

    def __init__(
        self,
        events: ElectionEvents,
        follower: Follower[Any],
        beats: Beats,
        *,
        id: str,  # noqa: A002 - what it is
        host: str,
        patience: timedelta,
        clock: Callable[[], datetime],
        dead: Callable[[str], bool] = proven_dead,
    ) -> None:
        """Stand by.

        patience: how long beats may be missing before another candidate claims.
        dead: tells of a candidate's identity whether its process is proven dead.
        """
        self.id = id
        self.epoch = -1
        """Sequence of our newest claim; -1 while we stand by."""
        self._events, self._follower, self._beats = events, follower, beats
        self._host, self._patience, self._clock, self._dead = host, patience, clock, dead
        self._since = self._last_sign_of_life = clock()
        self._last_own_beat: datetime | None = None

    @property
    def source(self) -> str:
        """ce_source of what this candidate writes."""
        return f"/{self._events.name}/{self.id}"

    @property
    def leads(self) -> bool:
        """Tell whether our claim is the newest, as far as the log is folded."""
        holder = self._events.holder()
        return holder is not None and holder.epoch == self.epoch

    # ---- Standing by ---------------------------------------------------------------------------------------

    def note_beat(self, epoch: int) -> None:
        """Take a beat as a sign that the leader lives, unless it is of an older epoch."""
        holder = self._events.holder()
        # An older epoch is that of a leader that was replaced and has not learnt of it yet.
        if holder is None or epoch >= holder.epoch:
            self._last_sign_of_life = self._clock()

    def note_claim(self) -> None:
        """Take a claim as the first beat of whoever made it."""
        self._last_sign_of_life = self._clock()  # else two candidates would claim in turns

    def may_claim(self) -> bool:
        """Tell whether nobody leads any more: the leader is proven dead, or silent for too long."""
        holder = self._events.holder()
        if holder is None:
            return self._clock() - self._since >= FIRST_WAIT
        silence = self._clock() - self._last_sign_of_life
        return silence >= self._patience or self._dead(holder.id)

    async def claim(self) -> None:
        """Append a claim and read it back.

        Raises: LeadershipLost when another claim came before or after it; LogUnavailable.
        """
        await self._follower.catch_up()
        if not self.may_claim():  # another candidate was faster
            raise LeadershipLost
        now = self._last_sign_of_life = self._clock()  # one claim, then patience again
        claim = self._events.claim(self.id, self._host)
        id_ = f"{claim.DESCRIPTOR.name}/{self.id}/{self._follower.sequence}"
        step = await self._follower.append(Draft(id_, self.source, self._events.name, now, claim))
        self.epoch, self._last_own_beat = step.record.sequence, None
        await self._follower.catch_up()
        self.ensure_leading()

    # ---- Leading -------------------------------------------------------------------------------------------

    def ensure_leading(self) -> None:
        """Check that our epoch is the newest that is folded. Raises: LeadershipLost."""
        if not self.leads:
            raise LeadershipLost

    def resign(self) -> None:
        """Stand by from now on."""
        self.epoch = -1
        self._last_sign_of_life = self._clock()

    async def beat(self) -> bool:
        """Send a beat if one is due; return whether it was. Raises: LogUnavailable."""
        now = self._clock()
        if self._last_own_beat is not None and now - self._last_own_beat < self._patience / _BEATS:
            return False
        self._last_own_beat = now
        beat = self._events.beat(self.epoch, self.id)
        id_ = f"{self.id}/{now.timestamp():.6f}"
        await self._beats.append(Draft(id_, self.source, self._events.name, now, beat))
        return True

    async def keep_beating(self) -> None:
        """Send every beat that is due, for ever."""
        while True:
            with suppress(LogUnavailable):  # the beat is missing, and a standby takes over, as it should
                await self.beat()
            await asyncio.sleep((self._patience / _BEATS / 2).total_seconds())
