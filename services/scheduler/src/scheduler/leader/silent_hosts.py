"""Vouches, as the leader, that a host is gone that nobody has heard for long enough (ADR 215).

Only where leases stand in a place that all hosts reach. A lease is never broken: a driver that still lives
there finds a newer generation in it, or cannot read it, and ends itself either way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Final

from daggers.v1 import events_pb2

from chassis.logging import logger
from election import Election
from eventlog import Draft
from eventlog.follower import Follower
from fleet import ApplyResult, Fleet
from fleet.fold.hosts import host_subject
from scheduler.leader.host_watch import GONE_AFTER, HostWatch

_ROOT_ANSWERS_WITHIN_S: Final = 5.0


class SilentHosts:
    """Writes HostGone for hosts that are silent. Not `shared`: for none, ever."""

    def __init__(
        self,
        fleet: Fleet,
        follower: Follower[ApplyResult],
        election: Election,
        watch: HostWatch,
        *,
        host: str,
        shared: bool,
        reaches_root: Callable[[], bool],
        clock: Callable[[], datetime],
    ) -> None:
        """host: this one. shared: whether all hosts have one root, which `reaches_root` looks at."""
        self._fleet, self._follower, self._election, self._watch = fleet, follower, election, watch
        self._host, self._shared, self._reaches_root, self._now = host, shared, reaches_root, clock
        self._reading: asyncio.Task[bool] | None = None

    async def look(self) -> None:
        """Vouch for each host that is silent for too long. Raises: LeadershipLost, LogUnavailable."""
        if not self._shared:
            return
        for host in sorted(self._fleet.standings):
            if self._is_silent(host) and await self._has_root():
                self._election.ensure_leading()
                await self._confirm(host)

    def _is_silent(self, host: str) -> bool:
        standing = self._fleet.standing(host)
        return (
            host != self._host
            and standing.has_agent  # an older one does not beat: it is silent while no driver of it runs
            and standing.shares_checkpoints
            and self._watch.silence(host) >= GONE_AFTER
        )

    async def _has_root(self) -> bool:
        """Tell whether the checkpoint root answers; one that hangs is asked by no second thread."""
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(asyncio.to_thread(self._reaches_root))
        done, _ = await asyncio.wait([self._reading], timeout=_ROOT_ANSWERS_WITHIN_S)
        return bool(done) and self._reading.exception() is None and self._reading.result()

    async def _confirm(self, host: str) -> None:
        epoch, leader = self._fleet.standing(host).epoch, self._election.epoch
        text = f"nothing was heard of it for {GONE_AFTER.total_seconds():.0f} s"
        gone = events_pb2.HostGone(
            meta=events_pb2.RequestMeta(actor="scheduler", message=text),
            host=host,
            epoch=epoch,
            cause=events_pb2.HOST_GONE_CAUSE_SILENCE,
            leader_epoch=leader,
        )
        id_ = f"HostGone/{host}/{epoch}/{leader}"
        await self._follower.append(Draft(id_, self._election.source, host_subject(host), self._now(), gone))
        logger().warning("scheduler.host_gone", host=host, silence_s=GONE_AFTER.total_seconds())
