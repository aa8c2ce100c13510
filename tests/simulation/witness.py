"""What must hold after every record, judged by somebody who has read them all and trusts no service.

The rules are told here once more, in other words than the code under test: where a service's own rule is
removed, the witness still knows it.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from daggers.v1 import alerts_pb2, events_pb2, gateway_pb2, spec_pb2

from daggerspec.priority import is_critical
from eventlog import Record
from fleet import Dagger, Fleet
from fleet.alerts.ledger import Ledger
from fleet.fold.facts import FACTS, About

_CORDONS: Final = (events_pb2.HostCordoned, events_pb2.HostDrainRequested, events_pb2.HostUncordoned)
_LATE: Final = timedelta(seconds=60)
"""Time for which a scheduler may act on what it read before it stood still."""
_SUSPICION: Final = timedelta(minutes=10)
"""Time within which two deaths of its process while it was computing set a dagger alone."""
_START: Final = timedelta(seconds=90)
"""Time for which a start takes a core at most."""


class Violation(AssertionError):  # noqa: N818 - reads as what happened
    """An invariant does not hold."""


class ControlWitness:
    """Folds the control topic as it grows, and objects."""

    def __init__(self) -> None:
        self.fleet = Fleet()
        self.intents: dict[int, tuple[str, str, str]] = {}
        """Of every launch the fold accepted: its dagger, who intended it, and the host; by generation."""
        self._agents: dict[str, list[tuple[int, str]]] = {}
        """The registrations of each host, the newest last: sequence, and whose."""
        self._launched: dict[int, str] = {}
        """Who starts each launch."""
        self.attempts: dict[int, tuple[str, str, str]] = {}
        """The same of every attempt of a replay, by number."""
        self.skipped: dict[str, tuple[int, int]] = {}
        """The newest outage whose replay is known to be outstanding, by dagger: launch and number."""
        self.given_up: dict[str, tuple[int, int]] = {}
        """The newest outage whose replay was given up, and all that it left open is so, by dagger."""
        self._made_good: set[tuple[str, str, int, int]] = set()
        self._replays: dict[str, tuple[int, int]] = {}
        """The outages that replays are to make good, by replay."""
        self._epoch = -1
        self._effective: dict[str, int] = {}
        self._versions: dict[tuple[str, str], int] = {}
        """The newest version of each stream and cluster there ever was."""
        self._claims: set[str] = set()
        self._cordons: dict[str, tuple[datetime, bool]] = {}
        """Of each host that is cordoned: since when, and whether it is drained."""
        self._ends: dict[str, datetime] = {}
        """When the last drain of each host was ended, by whatever was asked for then."""
        self._full: dict[str, datetime] = {}
        """Of each host that has no memory left: since when."""
        self._replaced: dict[str, tuple[int, datetime]] = {}
        """Of each dagger that was stopped to be started anew: the launch, and when."""
        self._stops: dict[str, datetime] = {}
        """When each dagger was last asked to stop."""
        self._priorities: dict[str, datetime] = {}
        """When each dagger last became critical, or stopped being so."""
        self._deaths: dict[str, list[datetime]] = {}
        """Of each dagger since its last edit: when processes died while it was computing."""
        self._movers: dict[str, tuple[str, int]] = {}
        """The newest dagger that each host's drain moves, with the launch, while it is on its way."""

    def sees(self, record: Record) -> None:
        """Take in the next record. Raises: Violation."""
        message: Any = record.message
        before = self.fleet.daggers.get(record.subject)
        if isinstance(message, events_pb2.SchedulerStarted) and record.id not in self._claims:
            self._claims.add(record.id)
            self._epoch = record.sequence
        applied = self.fleet.apply(record)
        if not applied.changed:
            return
        if record.id in self._effective:
            first = self._effective[record.id]
            raise Violation(f"{record.type} at {record.sequence} counts again, as it did at {first}")
        self._effective[record.id] = record.sequence
        self._registered(record, message)
        self._of_host(record, message)
        if isinstance(message, events_pb2.QuarantineReplayRequested) and message.HasField("outage"):
            self._outstanding(record, message)
        if isinstance(message, events_pb2.DaggerRequested) and before and message.spec != before.spec:
            self._deaths.pop(record.subject, None)
            if is_critical(message.spec) != is_critical(before.spec):
                self._priorities[record.subject] = record.time
        if isinstance(message, events_pb2.StopRequested):
            self._stops[record.subject] = record.time
            self._settle_movers()  # the leader may go on with the next before a start comes behind it
        if not isinstance(getattr(message, "meta", None), events_pb2.FactMeta):
            return
        if message.meta.epoch != self._epoch:
            epoch = message.meta.epoch
            raise Violation(
                f"{record.type} at {record.sequence} of the stale epoch {epoch} changed {record.subject}"
            )
        if message.meta.host_epoch and before is not None:
            self._of_newest_agent(record, message, before)
        self._fact(record, message, before)
        if before is not None:
            self._check_attempt(record, message, before)
            self._move(record, message, before)

    def note_room(self, host: str, time: datetime, *, is_full: bool) -> None:
        """Take in that a host has no memory left, or has some again."""
        if is_full:
            self._full[host] = time
        else:
            self._full.pop(host, None)

    def note_return(self, time: datetime) -> None:
        """Take in that Kafka is back: until now nobody could hear which hosts have no memory left."""
        self._full = dict.fromkeys(self._full, time)

    def _of_host(self, record: Record, message: Any) -> None:
        """Take in what is said of a host. Raises: Violation."""
        if isinstance(message, events_pb2.HostRegistered):
            self._agents.setdefault(message.host, []).append((record.sequence, record.source))
        if isinstance(message, events_pb2.HostGone):
            self._check_loss(record, message)
        if isinstance(message, _CORDONS):
            self._note_cordon(record, message)

    def _note_cordon(self, record: Record, message: Any) -> None:
        """Take in what is asked of a host."""
        is_drained = isinstance(message, events_pb2.HostDrainRequested)
        if self._cordons.pop(message.host, (record.time, False))[1] and not is_drained:
            self._ends[message.host] = record.time
        if not isinstance(message, events_pb2.HostUncordoned):
            self._cordons[message.host] = record.time, is_drained
        if is_drained:
            self._ends.pop(message.host, None)
            self._movers.pop(message.host, None)

    def _check_place(self, record: Record, message: events_pb2.LaunchIntended, before: Dagger) -> None:
        """Check that a host takes no new launch while it is cordoned or full, and no more starts than it has
        cores; a critical dagger waits for critical ones alone.

        Raises: Violation.
        """
        since, _ = self._cordons.get(message.host, (record.time, False))
        if record.time - since > _LATE and before.ran_on != message.host:
            raise Violation(f"{record.subject} is placed at {record.sequence} on the cordoned {message.host}")
        if record.time - self._full.get(message.host, record.time) > _LATE:
            raise Violation(f"{record.subject} is placed at {record.sequence} on the full {message.host}")
        registered = self.fleet.standing(message.host).registered
        starts = [
            other.name
            for other in self.fleet.occupied_on(message.host)
            if self._holds_back(other, before, record.time)
            and other.phase == gateway_pb2.STARTING
            and record.time - other.phase_time < _START
        ]
        if registered is not None and 0 < registered.cores <= len(starts):
            raise Violation(
                f"{record.subject} starts at {record.sequence} on {message.host} beside {starts}:"
                f" it has {registered.cores} cores"
            )

    def _check_replacement(self, record: Record, before: Dagger) -> None:
        """Check that what runs is stopped to be started anew when a core of its host is free for that.

        Raises: Violation.
        """
        host = before.driver.host if before.driver is not None else before.host
        registered = self.fleet.standing(host).registered
        busy = [
            other.name
            for other in self.fleet.occupied_on(host)
            if self._holds_back(other, before, record.time) and self._takes_core(other, record.time)
        ]
        is_first = self._replaced.get(before.name, (0, record.time))[0] != before.generation
        is_idle = not self._takes_core(before, record.time)
        stop_time = self._stops.get(before.name)
        is_asked = stop_time is not None and record.time - stop_time < _LATE  # and was taken back since
        cores = registered.cores if registered is not None else 0
        if is_first and is_idle and not is_asked and 0 < cores <= len(busy):
            raise Violation(
                f"{record.subject} is stopped at {record.sequence} to be started anew on {host}"
                f" beside {busy}: it has {cores} cores"
            )
        self._replaced[before.name] = before.generation, record.time

    def _holds_back(self, other: Dagger, dagger: Dagger, now: datetime) -> bool:
        """Tell whether the start of another dagger counts for a dagger: for a critical one that of critical
        ones alone, as far as whoever leads must have read that.
        """
        is_critical_start = is_critical(other.spec) and self._knows_priority(other, now)
        waits_for_all = not is_critical(dagger.spec) and self._knows_priority(dagger, now)
        return other.name != dagger.name and (is_critical_start or waits_for_all)

    def _knows_priority(self, dagger: Dagger, now: datetime) -> bool:
        """Tell whether whoever leads must have read how critical a dagger is."""
        return dagger.name not in self._priorities or now - self._priorities[dagger.name] > _LATE

    def _takes_core(self, dagger: Dagger, now: datetime) -> bool:
        """Tell whether a dagger starts, or was stopped for that and is still asked to run."""
        generation, since = self._replaced.get(dagger.name, (0, now))
        is_replaced = (
            dagger.phase == gateway_pb2.STOPPING
            and generation == dagger.generation
            and dagger.desired == gateway_pb2.DESIRED_RUNNING
        )
        is_started = dagger.phase == gateway_pb2.STARTING
        return (is_started and now - dagger.phase_time < _START) or (is_replaced and now - since < _START)

    def _check_move(self, record: Record, before: Dagger) -> None:
        """Check that a drain goes on, and moves one dagger after another. Raises: Violation."""
        host = before.driver.host if before.driver is not None else before.host
        since, drained = self._cordons.get(host, (record.time, False))
        if not drained and record.time - self._ends.get(host, since) > _LATE:
            raise Violation(f"{record.subject} leaves {host} at {record.sequence}, which nobody drains")
        self._settle_movers()  # one that somebody has stopped or deleted since is not wanted any more
        mover = self._movers.get(host)
        if mover is not None and mover[0] != before.name:
            raise Violation(
                f"{record.subject} leaves {host} at {record.sequence}, and {mover[0]} is on its way"
            )
        self._movers[host] = before.name, before.generation

    def _move(self, record: Record, message: Any, before: Dagger) -> None:
        """Check where a dagger is launched, and whether a drain may stop it. Raises: Violation."""
        if isinstance(message, events_pb2.LaunchIntended) and not before.unanswered:
            self._check_place(record, message, before)
        if isinstance(message, events_pb2.StopIssued) and message.move:
            self._check_move(record, before)
        elif (
            isinstance(message, events_pb2.StopIssued)
            and before.desired == gateway_pb2.DESIRED_RUNNING
            and before.shadow is None  # else its successor runs already
        ):
            self._check_replacement(record, before)
        self._settle_movers()

    def _settle_movers(self) -> None:
        """Forget daggers that have arrived, failed, or are not wanted any more."""
        for host, (name, generation) in list(self._movers.items()):
            dagger = self.fleet.daggers[name]
            arrived = dagger.generation > generation and dagger.ran
            wanted = dagger.desired == gateway_pb2.DESIRED_RUNNING
            if arrived or not wanted or dagger.phase == gateway_pb2.FAILED:
                del self._movers[host]

    def _of_newest_agent(self, record: Record, message: Any, before: Dagger) -> None:
        """Check that a fact of an agent is the newest agent's of the launch's host. Raises: Violation."""
        host = before.driver.host if before.driver is not None else before.host
        if FACTS[type(message)].about is About.REPLAY and before.replay is not None:
            host = before.replay.process.host if before.replay.process is not None else ""
        newest = self._agents.get(host, [(0, "")])[-1]
        if newest != (message.meta.host_epoch, record.source):
            raise Violation(
                f"{record.type} at {record.sequence} of {record.source}, epoch {message.meta.host_epoch},"
                f" changed {record.subject} on {host}, whose agent is {newest}"
            )

    def _check_loss(self, record: Record, message: events_pb2.HostGone) -> None:
        """Check that nobody but the newest leader finds a host silent. Raises: Violation."""
        if message.cause == events_pb2.HOST_GONE_CAUSE_SILENCE and message.leader_epoch != self._epoch:
            epoch = message.leader_epoch
            raise Violation(f"{message.host} is gone at {record.sequence} by the stale epoch {epoch}")

    def _registered(self, record: Record, message: Any) -> None:
        """Versions are counted once for each name, and what something names stays."""
        for kind, entries in (("stream", self.fleet.streams), ("cluster", self.fleet.clusters)):
            for name, entry in entries.items():
                if entry.sequence == record.sequence:
                    newest = self._versions.get((kind, name), 0)
                    if entry.version != newest + 1:
                        raise Violation(f"{kind} {name} is at version {entry.version} after {newest}")
                    self._versions[kind, name] = entry.version
        if isinstance(message, events_pb2.ClusterRemoved):
            raise Violation(f"cluster {message.name} is removed at {record.sequence}, and a stream names it")

    def _outstanding(self, record: Record, request: events_pb2.QuarantineReplayRequested) -> None:
        """An outage is made good once, and is known before. Raises: Violation."""
        of = request.outage
        outage = request.name, of.sink, of.generation, of.number
        if outage in self._made_good:
            raise Violation(f"a second replay of one outage is asked for at {record.sequence}: {outage}")
        if self.skipped.get(request.name) != (of.generation, of.number):
            raise Violation(f"the replay at {record.sequence} makes no outage good: {outage}")
        self._made_good.add(outage)
        self._replays[request.replay_id] = of.generation, of.number

    def _fact(self, record: Record, message: Any, before: Dagger | None) -> None:
        if isinstance(message, events_pb2.SinkSkipped):
            self.skipped[record.subject] = message.outage.generation, message.outage.number
        if isinstance(message, events_pb2.ReplayFinished) and message.replay_id in self._replays:
            if message.HasField("error"):
                self.given_up[record.subject] = self._replays[message.replay_id]
            else:
                self.given_up.pop(record.subject, None)
        if isinstance(message, events_pb2.ReplayStarted) and not message.process.pid:
            self.attempts[record.sequence] = record.subject, record.source, message.process.host
        about = FACTS[type(message)].about
        if about in (About.NEW, About.BESIDE):
            host = message.host if isinstance(message, events_pb2.LaunchIntended) else ""
            if about is About.BESIDE and before is not None and before.driver is not None:
                host = before.driver.host
            self.intents[record.sequence] = record.subject, record.source, host
        elif about is About.REPLAY or before is None:
            return
        elif message.meta.generation != _spoken_of(before, about):
            raise Violation(
                f"{record.type} at {record.sequence} of the stale generation {message.meta.generation}"
                f" changed {record.subject}"
            )

    def launches(self, name: str, generation: int, source: str, host: str, zone: str = "") -> None:
        """Check who starts a driver on a host: who intended it, or who was the agent of the host that the
        intent names; and that the host has what the dagger needs. Raises: Violation.
        """
        dagger = self.fleet.daggers.get(name)
        wanted = dagger.spec.needs.get("zone", zone) if dagger is not None and dagger.current else zone
        if wanted != zone:
            raise Violation(f"{name} is launched on {host} of zone {zone}, and needs zone {wanted}")
        self._starts(self.intents.get(generation, ("", "", "")), name, generation, source, host)

    def joins(self, name: str, others: list[str]) -> None:
        """Check that a dagger which joins the process of others may. Raises: Violation."""
        dagger = self.fleet.daggers.get(name)
        if dagger is None or not dagger.current:
            return
        if dagger.spec.isolation != spec_pb2.ISOLATION_SHARED:
            raise Violation(f"{name} has a process of its own, and joins {others}")
        deaths = self._deaths.get(name, [])
        if len(deaths) > 1 and deaths[-1] - deaths[-2] <= _SUSPICION:
            raise Violation(f"{name} was computing at two deaths, and joins {others}")

    def _check_attempt(self, record: Record, message: Any, before: Dagger) -> None:
        """Take in deaths of processes, and check that those of others are no attempts. Raises: Violation."""
        if isinstance(message, events_pb2.Exited) and message.suspect:
            self._deaths.setdefault(before.name, []).append(record.time)
        is_lost = before.last_error is not None and before.last_error.reason == "PROCESS_LOST" and before.ran
        if isinstance(message, events_pb2.RelaunchScheduled) and is_lost and message.attempt > before.attempt:
            raise Violation(f"{record.subject} counts a death of others at {record.sequence}")

    def replays(self, name: str, number: int, source: str, host: str) -> None:
        """Check who starts an attempt of a replay, as `launches`. Raises: Violation."""
        self._starts(self.attempts.get(number, ("", "", "")), name, number, source, host)

    def _starts(
        self, intent: tuple[str, str, str], name: str, generation: int, source: str, host: str
    ) -> None:
        subject, intender, named = intent
        if subject != name:
            raise Violation(f"{source} starts generation {generation} of {name}, which no fold accepted")
        then = [who for epoch, who in self._agents.get(named, []) if epoch < generation]
        agent = then[-1] if then else ""
        if named not in ("", host) or source not in (intender, agent):
            raise Violation(
                f"{source} on {host} starts generation {generation} of {name}, which {intender} intended for"
                f" {agent} on {named}"
            )
        if self._launched.setdefault(generation, source) != source:
            raise Violation(f"{source} starts generation {generation} of {name} a second time")


def _spoken_of(dagger: Dagger, about: About) -> int | None:
    """The launch that a fact may speak of."""
    if about is About.SHADOW:
        return dagger.shadow.generation if dagger.shadow else None
    return dagger.generation


class AlertWitness:
    """Folds the alerts topic as it grows, and objects."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self._outages: dict[int, int] = {}
        """Epoch of the monitor that had the outage of each number without the log, the first of them."""
        self.sent: dict[tuple[str, int, int, int, str], str] = {}
        """What is recorded as sent, and by which record: dagger, condition, incident, notice, receiver."""
        self.claims: dict[int, datetime] = {}
        """When each epoch began."""

    def sees(self, record: Record) -> None:
        """Take in the next record. Raises: Violation."""
        epoch = self.ledger.epoch
        changed = self.ledger.apply(record)
        message: Any = record.message
        if isinstance(message, alerts_pb2.OutageReported):
            self._brought_in(record, message)
            return
        if isinstance(message, alerts_pb2.MonitorStarted):
            self.claims.setdefault(self.ledger.epoch, record.time)
            return
        if changed and message.meta.epoch != epoch:
            raise Violation(f"{record.type} at {record.sequence} of a stale epoch changed an alert")
        if not isinstance(message, alerts_pb2.NotificationSent) or message.meta.epoch != epoch:
            return
        self._sent(record.id, message)

    def _brought_in(self, record: Record, report: alerts_pb2.OutageReported) -> None:
        """What was told without the log is of no epoch, but of Kafka alone. Raises: Violation."""
        if report.fired.meta.condition != alerts_pb2.ALERT_CONDITION_KAFKA_AWAY:
            raise Violation(f"{record.type} at {record.sequence} is not about Kafka")
        epoch = report.fired.meta.epoch
        replaced = min((began for claimed, began in self.claims.items() if claimed > epoch), default=None)
        for attempt in report.attempts:
            # Who stood still in the middle of sending is replaced, and the next one sends it, too.
            stale = replaced is not None and attempt.time.ToDatetime(tzinfo=UTC) > replaced
            # Outages that two monitors had without the log are two, whatever their numbers are.
            is_first = self._outages.setdefault(report.fired.meta.incident, epoch) == epoch
            if attempt.HasField("sent") and not stale and is_first:
                self._sent(f"attempt {attempt.sent.attempt} at {attempt.time}", attempt.sent)

    def _sent(self, by: str, message: alerts_pb2.NotificationSent) -> None:
        meta = message.meta
        what = meta.dagger, meta.condition, meta.incident, message.notice, message.receiver
        if self.sent.setdefault(what, by) != by:
            raise Violation(f"{what} is recorded as sent twice")
