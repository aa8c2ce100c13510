"""Cache what heartbeats say of drivers: a watch for each dagger, from the tail of the heartbeats topic.

It is only in memory, and no larger than the fleet: a gateway that starts reads the last minutes again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from daggers.v1 import gateway_pb2, telemetry_pb2, vitals_pb2

from api_gateway.state.eviction import Eviction
from api_gateway.state.fold import Fold
from eventlog.tail import Arrival
from fleet import Dagger
from fleet.decide import starts
from fleet.fold import quotas
from fleet.health import advice, vitals, watch
from fleet.health.dagger_warnings import HealthIssue
from fleet.health.degradation import SHOWN
from fleet.health.watch import Hearing, Watch

_CACHE_TIME: Final = timedelta(seconds=1)
"""Time for which what is worked out of all daggers serves all callers."""


def _utc_now() -> datetime:
    return datetime.now(UTC)


class HeartbeatCache:
    """The drivers of a fleet by their heartbeats. For one event loop."""

    def __init__(self, fold: Fold, clock: Callable[[], datetime] = _utc_now) -> None:
        self._fold, self._now = fold, clock
        self.since = clock() - watch.RECALL
        """From when on heartbeats are read, or were read last."""
        self._watches: dict[str, tuple[int, Watch]] = {}
        self._eviction = Eviction()
        self._hearing = Hearing(gap=SHOWN.silence)
        self._quota_cache: dict[str, tuple[datetime, Sequence[HealthIssue]]] = {}
        self._turns: tuple[datetime, Mapping[str, str]] | None = None
        self._hosts: dict[str, datetime] = {}
        self._leader: tuple[datetime, telemetry_pb2.SchedulerBeat] | None = None

    def take(self, arrival: Arrival) -> None:
        """Apply a record of the topic; an unreadable one only proves that the topic is read."""
        now, record = self._now(), arrival.record
        self.since = now
        time = min(record.time, now) if arrival.past else now
        self._hearing = self._hearing.recalls(time) if arrival.past else self._hearing.hears(now)
        if isinstance(record.message, telemetry_pb2.Heartbeat):
            self._note_host(record.message.host, time)
            dagger = self._fold.fleet.living(record.message.dagger)
            if dagger is not None and record.message.generation > dagger.create_sequence:
                self._store_watch(dagger, watch.hear(self._find_watch(dagger, time), record.message, time))
        elif isinstance(record.message, telemetry_pb2.HostBeat):
            self._note_host(record.message.host, time)
        elif isinstance(record.message, telemetry_pb2.SchedulerBeat):
            claim = self._fold.fleet.claims.get(record.message.epoch)
            self._note_host(claim.host if claim is not None else "", time)
            before = self._leader
            # a smaller epoch is a leader that was replaced
            if before is None or record.message.epoch >= before[1].epoch:
                self._leader = time, record.message

    def host_heard(self, host: str) -> datetime | None:
        """Return when a driver of a host, its agent or the leader there was heard last; None: not lately."""
        return self._hosts.get(host)

    def _note_host(self, host: str, time: datetime) -> None:
        """Note that a host is alive; ignore hosts that the log does not have."""
        fleet = self._fold.fleet
        if host in fleet.hosts or host in fleet.standings:
            self._hosts[host] = max(time, self._hosts.get(host, time))

    def room(self) -> int | None:
        """Return how many more drivers of the usual size have room; None where no leader has reported it
        lately.
        """
        if self._leader is None or self._now() - self._leader[0] >= SHOWN.silence:
            return None
        beat = self._leader[1]
        return beat.room if beat.HasField("room") else None

    def watch_of(self, dagger: Dagger) -> Watch:
        """Return the watch of a dagger's newest launch; it is stable until a heartbeat changes it."""
        watched = self._find_watch(dagger, min(dagger.phase_time, self._now()))
        launched = watch.launch(watched, dagger.generation, min(dagger.phase_time, self._now()))
        self._store_watch(dagger, launched)
        return launched

    def hearing(self, now: datetime) -> datetime | None:
        """Return since when heartbeats arrive without a gap; None while this gateway hears none."""
        return self._hearing.begin(now)

    def vitals(self, dagger: Dagger) -> vitals_pb2.Vitals:
        """Return the vitals of a dagger: its state, rates and warnings now."""
        now = self._now()
        answer = vitals.to_proto(
            dagger,
            self.watch_of(dagger),
            now=now,
            hearing=self._hearing.begin(now),
            turn=self._find_turn(dagger, now),
        )
        answer.warnings.extend(
            warning.to_proto(dagger.name) for warning in self._quota_warnings(dagger.spec.team, now)
        )
        return answer

    def cost(self, dagger: Dagger) -> gateway_pb2.DaggerCost:
        """Return the cost of a dagger."""
        now = self._now()
        return vitals.cost(dagger, self.watch_of(dagger), now=now, hearing=self._hearing.begin(now))

    def costs(self, team: str) -> list[gateway_pb2.DaggerCost]:
        """Return the cost of each dagger of a team."""
        now = self._now()
        hearing = self._hearing.begin(now)
        return [
            vitals.cost(dagger, self.watch_of(dagger), now=now, hearing=hearing)
            for dagger in self._fold.fleet.list_of_team(team)
        ]

    def uses(self, team: str) -> dict[str, float]:
        """Return a team's use of its quotas, by quota."""
        now = self._now()
        hearing = self._hearing.begin(now)

        def rates(dagger: Dagger) -> tuple[float, float]:
            flows = vitals.rates(dagger, self.watch_of(dagger), now=now, hearing=hearing)
            return (flows[0], flows[1] * 60) if flows else (0.0, 0.0)

        fleet = self._fold.fleet
        return quotas.uses(fleet.catalogue, fleet.list_of_team(team), rates)

    def _find_turn(self, dagger: Dagger, now: datetime) -> str:
        """Return why a dagger's launch waits for its turn; empty where it does not."""
        if not starts.wants_launch(dagger):
            return ""
        if self._turns is None or not self._turns[0] <= now < self._turns[0] + _CACHE_TIME:
            self._turns = now, starts.describe_waits(self._fold.fleet, now)
        return self._turns[1].get(dagger.name, "")

    def _quota_warnings(self, team: str, now: datetime) -> Sequence[HealthIssue]:
        """Return warnings for the exceeded quotas of a team, computed at most once in `_CACHE_TIME` for
        all callers.
        """
        catalogue = self._fold.fleet.catalogue
        if not quotas.has_warning(catalogue, team):
            self._quota_cache.pop(team, None)
            return ()
        until, before = self._quota_cache.get(team, (now, ()))
        if now < until:
            return before
        since = {warning.text: warning.since for warning in before}
        warnings = [
            HealthIssue(quotas.TEAM_QUOTA, text, since.get(text, now), advice.advise_team(team))
            for text in quotas.describe_exceeded(catalogue, team, self.uses(team))
        ]
        self._quota_cache[team] = now + _CACHE_TIME, warnings
        return warnings

    def _find_watch(self, dagger: Dagger, since: datetime) -> Watch:
        life, watched = self._watches.get(dagger.name, (-1, None))
        if watched is None or life != dagger.create_sequence:
            return watch.begin(since, dagger.generation)
        return watched

    def _store_watch(self, dagger: Dagger, watched: Watch) -> None:
        if dagger.name not in self._watches:
            self._eviction.make_room(self._watches, self._fold.fleet)
        self._watches[dagger.name] = dagger.create_sequence, watched
