"""What this gateway has heard of drivers: a watch for each dagger, from the tail of the heartbeats topic.

It is in memory alone, and no larger than the fleet: a gateway that starts hears the last minutes again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from typing import Final

from daggers.v1 import gateway_pb2, telemetry_pb2, vitals_pb2

from api_gateway.state.fold import Fold
from chassis.logging import logger
from eventlog import LogUnavailable
from eventlog.tail import Arrival, Tail
from fleet import Dagger
from fleet.fold import quotas
from fleet.health import advice, vitals, watch
from fleet.health.dagger_warnings import Told
from fleet.health.degradation import SHOWN
from fleet.health.watch import Hearing, Watch

_AGAIN_S: Final = 1.0
_ADDED_UP: Final = timedelta(seconds=1)


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Heard:
    """The drivers of a fleet, as they are heard. For one event loop."""

    def __init__(self, heartbeats: Tail, fold: Fold, clock: Callable[[], datetime] = _utc_now) -> None:
        self._heartbeats, self._fold, self._now = heartbeats, fold, clock
        self._watches: dict[str, tuple[int, Watch]] = {}
        self._hearing = Hearing(gap=SHOWN.silence)
        self._quotas: dict[str, tuple[datetime, Sequence[Told]]] = {}
        self._hosts: dict[str, datetime] = {}
        self._leader: tuple[datetime, telemetry_pb2.SchedulerBeat] | None = None

    async def run(self) -> None:
        """Hear for ever, once the fold knows the daggers there are."""
        since, lost = self._now() - watch.RECALL, False
        while True:
            try:
                async with aclosing(self._heartbeats.follow(since)) as arrivals:
                    async for arrival in arrivals:
                        since, lost = self._now(), False
                        self.take(arrival)
            except LogUnavailable as error:
                if not lost:  # once for each outage
                    logger().warning("heartbeats.follow_failed", detail=str(error))
                lost = True
            await asyncio.sleep(_AGAIN_S)

    def take(self, arrival: Arrival) -> None:
        """Take in a record of the topic; what cannot be read says only that somebody is heard."""
        now, record = self._now(), arrival.record
        time = min(record.time, now) if arrival.past else now
        self._hearing = self._hearing.recalls(time) if arrival.past else self._hearing.hears(now)
        if isinstance(record.message, telemetry_pb2.Heartbeat):
            self._hear_host(record.message.host, time)
            dagger = self._fold.fleet.living(record.message.dagger)
            if dagger is not None and record.message.generation > dagger.create_sequence:
                self._keep(dagger, watch.hear(self._begun(dagger, time), record.message, time))

        elif isinstance(record.message, telemetry_pb2.HostBeat):
            self._hear_host(record.message.host, time)

        elif isinstance(record.message, telemetry_pb2.SchedulerBeat):
            claim = self._fold.fleet.claims.get(record.message.epoch)
            self._hear_host(claim.host if claim is not None else "", time)
            before = self._leader
            if before is None or record.message.epoch >= before[1].epoch:  # else it was replaced
                self._leader = time, record.message

    def host_heard(self, host: str) -> datetime | None:
        """Return when a driver of a host, its agent or the leader there was heard last; None: not lately."""
        return self._hosts.get(host)

    def _hear_host(self, host: str, time: datetime) -> None:
        """Somebody on a host is heard; hosts that the log does not have are none."""
        fleet = self._fold.fleet
        if host in fleet.hosts or host in fleet.standings:
            self._hosts[host] = max(time, self._hosts.get(host, time))

    def room(self) -> int | None:
        """How many more drivers of the usual size have room; None where no leader has said it lately."""
        if self._leader is None or self._now() - self._leader[0] >= SHOWN.silence:
            return None
        beat = self._leader[1]
        return beat.room if beat.HasField("room") else None

    def watch_of(self, dagger: Dagger) -> Watch:
        """What was heard of the newest launch of a dagger; the same until something is."""
        watched = self._begun(dagger, min(dagger.phase_time, self._now()))
        launched = watch.launch(watched, dagger.generation, min(dagger.phase_time, self._now()))
        self._keep(dagger, launched)
        return launched

    def vitals(self, dagger: Dagger) -> vitals_pb2.Vitals:
        """What a dagger does now."""
        now = self._now()
        told = vitals.to_proto(dagger, self.watch_of(dagger), now=now, hearing=self._hearing.begin(now))
        told.warnings.extend(
            warning.to_proto(dagger.name) for warning in self._of_its_team(dagger.spec.team, now)
        )
        return told

    def cost(self, dagger: Dagger) -> gateway_pb2.DaggerCost:
        """What a dagger costs."""
        now = self._now()
        return vitals.cost(dagger, self.watch_of(dagger), now=now, hearing=self._hearing.begin(now))

    def costs(self, team: str) -> list[gateway_pb2.DaggerCost]:
        """What each dagger of a team costs."""
        now = self._now()
        hearing = self._hearing.begin(now)
        return [
            vitals.cost(dagger, self.watch_of(dagger), now=now, hearing=hearing)
            for dagger in quotas.living(self._fold.fleet.daggers, team)
        ]

    def uses(self, team: str) -> dict[str, float]:
        """What a team uses of its quotas."""
        now = self._now()
        hearing = self._hearing.begin(now)

        def rates(dagger: Dagger) -> tuple[float, float]:
            flows = vitals.rates(dagger, self.watch_of(dagger), now=now, hearing=hearing)
            return (flows[0], flows[1] * 60) if flows else (0.0, 0.0)

        return quotas.uses(self._fold.fleet.daggers, team, rates)

    def _of_its_team(self, team: str, now: datetime) -> Sequence[Told]:
        """The quotas of a team that are exceeded; added up at most once in a while, whoever asks."""
        catalogue = self._fold.fleet.catalogue
        if not quotas.warns(catalogue, team):
            self._quotas.pop(team, None)
            return ()
        until, before = self._quotas.get(team, (now, ()))
        if now < until:
            return before
        since = {warning.text: warning.since for warning in before}
        told = [
            Told(quotas.TEAM_QUOTA, text, since.get(text, now), advice.of_team(team))
            for text in quotas.warned(catalogue, team, self.uses(team))
        ]
        self._quotas[team] = now + _ADDED_UP, told
        return told

    def _begun(self, dagger: Dagger, since: datetime) -> Watch:
        life, watched = self._watches.get(dagger.name, (-1, None))
        if watched is None or life != dagger.create_sequence:
            return watch.begin(since, dagger.generation)
        return watched

    def _keep(self, dagger: Dagger, watched: Watch) -> None:
        if dagger.name not in self._watches:  # names come as others go
            fleet = self._fold.fleet
            for name in [name for name in self._watches if fleet.living(name) is None]:
                del self._watches[name]
        self._watches[dagger.name] = dagger.create_sequence, watched
