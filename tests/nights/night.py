"""One night: what happens by chance, and what must hold whatever does.

No firing is lost, none is sent twice except across a crash or a lost answer, no end comes without its begin,
everything that fired is over or still true in the morning, and what silences and causes hold back is sent to
nobody, and told if it outlives them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Final

from daggers.v1 import alerts_pb2, events_pb2, gateway_pb2, rules_pb2, spec_pb2
from google.protobuf.message import Message
from tests.nights.drivers import CALM, HIGH, HIGHER, SLIDE, Death, SimulatedDriver, build_rule, read_limit
from tests.nights.monitors import PACE, SimulatedMonitor, Wait
from tests.nights.receivers import (
    RETRY_AFTER,
    Incident,
    SimulatedReceiver,
    incident_of,
    list_firing,
    list_resolved,
    name_notice,
)

from daggerspec.alertrules import digest
from daggerspec.receivers import takes_announcements
from daggersql.rules.incidents import MOST_INCIDENTS
from eventlog import Draft, Record, read_record
from fleet import Dagger, Fleet
from fleet.alerts.alert import CLUSTER, HOST, PLATFORM, STORE, Alert, Notify, subject
from fleet.alerts.ledger import Ledger
from fleet.alerts.routed_groups import Name, name_of
from fleet.alerts.routing import inhibition
from fleet.alerts.routing.grouping import PART
from fleet.alerts.routing.labels import Labels, list_labels
from fleet.alerts.routing.silences import ENDS_SOON, find_freed, list_ending
from fleet.conditions.finding import Finding
from fleet.fold.phases import RUNNING, STOPPED
from health_monitor.receivers import Outcome, Success, Temporary

NOON: Final = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
BUSY, CALM_TIME = 15 * MINUTE, 25 * MINUTE
"""Time in which things happen, and time behind it in which nothing does and all receivers take messages."""
CALM_STEP_S: Final = 30
LONG_SILENCES: Final = 7 * MINUTE
"""Time up to which silences begin that end by themselves while nothing happens."""
PATIENCE: Final = 45 * SECOND
"""Time without a leader's turn after which the other monitor claims."""
SOON: Final = 60 * SECOND
"""Time within which a living leader makes an incident of what fires."""
ANNOUNCED: Final = 9 * MINUTE
"""Time within which a receiver without trouble is sent what fires: the longest wait and interval of a group,
and the longest delay behind attempts that failed."""
CONDITION: Final = alerts_pb2.ALERT_CONDITION_RULE
FAILED, STALL = alerts_pb2.ALERT_CONDITION_FAILED, alerts_pb2.ALERT_CONDITION_NO_PROGRESS
LOST = alerts_pb2.ALERT_CONDITION_UNREACHABLE
CONDITIONS: Final = (FAILED, STALL, LOST)
CAUSES: Final = {
    PLATFORM: alerts_pb2.ALERT_CONDITION_KAFKA_AWAY,
    f"{HOST}h0": alerts_pb2.ALERT_CONDITION_HOST_AWAY,
    f"{CLUSTER}blue": alerts_pb2.ALERT_CONDITION_SPARK_AWAY,
    f"{STORE}influx:8086": alerts_pb2.ALERT_CONDITION_STORE_AWAY,
}
TEAM: Final = "pricing"
OF_TEAM: Final = (f"{TEAM}/slack", f"{TEAM}/pagerduty", f"{TEAM}/email")
OF_PLATFORM: Final = ("platform/slack",)
ESCALATE_AFTER: Final = 4 * MINUTE
DAGGERS: Final = tuple(f"dagger_{number}" for number in range(4))
KEYS: Final = ("a", "b", "c")
FLOODED: Final = 100
"""One night of so many has a rule that is true of more keys than have an incident each."""
FLOOD_KEYS: Final = MOST_INCIDENTS + 37
FLOOD_ENDS: Final = 10
"""Keys of those of which it is not true any more after some minutes."""
_FIRES: Final = (rules_pb2.RULE_STATE_FIRED, rules_pb2.RULE_STATE_CHANGED)


class OncallNight:
    """One night, of one seed."""

    def __init__(self, seed: int) -> None:
        self.random, self.now = Random(seed), NOON
        self.violations: list[str] = []
        self.faults = Counter[str]()
        """What went wrong in the night, by kind."""
        self.is_flooded = seed % FLOODED == 0
        self.monitors: list[SimulatedMonitor] = []
        # ---- The topics
        self.records: list[Record] = []
        self.observations: list[rules_pb2.RuleObserved] = []
        self.truth = Ledger()
        """Fold of all that is in the log."""
        self._unfired: dict[str, tuple[datetime, rules_pb2.RuleObserved]] = {}
        """By subject, since when a rule fires without an incident."""
        # ---- The fleet
        self.fleet = Fleet()
        self.bad: dict[tuple[str, int], datetime] = {}
        """Since when a condition of a dagger, or a cause, holds."""
        self.drivers = {name: SimulatedDriver(name, self._draw_keys(name)) for name in DAGGERS[:3]}
        self._pool = {name: self._draw_rules(name) for name in self.drivers}
        for number, name in enumerate(DAGGERS):
            self._put(self._build_dagger(name, number))
        # ---- Who is to be told
        self.receivers = {name: SimulatedReceiver(well_since=NOON) for name in (*OF_TEAM, *OF_PLATFORM)}
        self._free_at: dict[Name, datetime] = {}
        """When an alert was last held back by nothing."""
        self._all_free_at = NOON
        self._captive_at: dict[Name, datetime] = {}
        """When an alert was last held back."""
        self._freed_since: dict[tuple[str, str], datetime] = {}
        """By silence that is about to end, and receiver: since when it holds something back."""
        self._labels: dict[Incident, Labels] = {}
        self._first_sent: dict[Incident, datetime] = {}
        self._standing: dict[str, datetime] = {}
        """Until when a monitor stands still."""
        self._leader_seen_at = NOON
        self._led_since = NOON
        if self.is_flooded or self.random.random() < 0.7:
            self._change_routes()
        self.monitors = [SimulatedMonitor(name, self) for name in ("one", "two")]
        self.monitors[0].claim()

    # ---- The fleet -----------------------------------------------------------------------------------------

    def _draw_keys(self, dagger: str) -> Sequence[str]:
        if self.is_flooded and dagger == DAGGERS[0]:
            return [f"{number:04d}" for number in range(FLOOD_KEYS)]
        return KEYS

    def _draw_rules(self, dagger: str) -> list[rules_pb2.AlertRule]:
        if self.is_flooded and dagger == DAGGERS[0]:
            return [build_rule("flood", 5, 1, keyed=True)]
        return [
            build_rule("errors", 5, self.random.choice((1, 2)), keyed=True),
            build_rule("total", 8, 1, keyed=False),
        ]

    def _build_dagger(self, name: str, number: int) -> Dagger:
        spec = spec_pb2.DaggerSpec(
            team=TEAM, cluster=("blue", "green")[number % 2], alerts=self._pool.get(name, [])
        )
        return Dagger(
            name=name, spec=spec, warnings=(), version=1, desired=gateway_pb2.DESIRED_RUNNING, phase=RUNNING,
            phase_time=NOON, sequence=number, create_sequence=1, create_time=NOON, update_time=NOON,
            generation=1, driver=events_pb2.DriverHandle(host=f"h{number // 2}"),
        )  # fmt: skip

    def _put(self, dagger: Dagger) -> None:
        self.fleet.daggers[dagger.name] = dagger

    # ---- The log -------------------------------------------------------------------------------------------

    def append(self, message: Message) -> bool:
        """Write to the log of alerts; tell whether that changed anything."""
        sequence = self.truth.sequence + 1
        draft = Draft(f"r{sequence}", "/test", "s", self.now, message)
        record = read_record(sequence, draft.headers(), message.SerializeToString())
        epoch = _read_epoch(message)
        if isinstance(message, alerts_pb2.AlertResolved):
            self._check_resolved(message.meta, epoch)
        self.records.append(record)
        changed = self.truth.apply(record)
        if changed and epoch is not None and epoch != self.truth.epoch:
            self._fail(f"a fact of epoch {epoch} counted in epoch {self.truth.epoch}")
        if isinstance(message, alerts_pb2.MonitorStarted):
            self._led_since = self._leader_seen_at = self.now
            for monitor in self.monitors:
                if monitor.unrecorded is not None:
                    self._excuse(monitor.unrecorded)
        if changed and isinstance(message, alerts_pb2.AlertFired):
            name = (subject(message.meta), message.meta.condition)
            self._unfired.pop(name[0], None)
            if any(name in receiver.suspected for receiver in self.receivers.values()):
                self._first_sent[name, message.meta.incident] = self.now  # it goes on where it is shown
        return changed

    def _fail(self, text: str) -> None:
        self.violations.append(f"{self.now:%H:%M:%S} {text}")

    # ---- What monitors see ---------------------------------------------------------------------------------

    def list_receivers(self, team: str) -> Sequence[str]:
        """List who is sent alerts of a team."""
        return OF_TEAM[:2] if team else OF_PLATFORM

    def list_own(self, team: str) -> Sequence[str]:
        """List all receivers of a team."""
        return OF_TEAM if team else ()

    def list_findings(self, open_: Collection[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield names and arguments of `Judge.next_turn`, of daggers of which something is wrong, and those
        of `open_`.
        """
        wrong = {name for name, _ in self.bad}
        for number, name in enumerate(DAGGERS):
            if name not in wrong and name not in open_:
                continue
            dagger = self.fleet.daggers[name]
            ended = dagger.phase == STOPPED
            findings = {
                condition: Finding(not ended, "it is so", self.bad[name, condition], final=ended)
                if (name, condition) in self.bad
                else Finding(False, "it is well", self.now, final=ended)
                for condition in CONDITIONS
            }
            store = "influx:8086" if number < 2 else ""
            yield name, {
                "findings": findings, "of": CONDITIONS, "dagger": dagger, "team": TEAM, "store": store,
            }  # fmt: skip

    def list_causes(self, open_: Collection[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the same of what holds alerts of daggers back."""
        for name, condition in CAUSES.items():
            since = self.bad.get((name, condition))
            if since is None and name not in open_:
                continue
            finding = Finding(since is not None, "it is away" if since else "it is back", since or self.now)
            yield name, {"findings": {condition: finding}, "of": (condition,)}

    # ---- Time ----------------------------------------------------------------------------------------------

    def run(self) -> list[str]:
        """Let the night pass; return what should not have happened."""
        while self.now < NOON + BUSY:
            self._step(2 + self.random.randrange(8), self._happen)
        self._begin_calm()
        while self.now < NOON + BUSY + CALM_TIME:
            self._step(CALM_STEP_S)
        self._check_morning()
        return self.violations

    def _step(self, seconds: int, happen: Any = lambda: None) -> None:
        before, self.now = self.now, self.now + seconds * SECOND
        self._note_free()
        happen()
        if (before - NOON) // SLIDE != (self.now - NOON) // SLIDE:
            self._close_windows(NOON + (self.now - NOON) // SLIDE * SLIDE)
        for monitor in self.random.sample(self.monitors, len(self.monitors)):
            self._advance(monitor)
        self._note_free()
        self._note_ending()
        self._check_unfired()

    def _begin_calm(self) -> None:
        for receiver in self.receivers.values():
            receiver.trouble, receiver.well_since = "", receiver.well_since or self.now
        for silence in list(self.truth.silences.values()):
            if silence.end - silence.begin > ENDS_SOON:
                continue
            self.append(alerts_pb2.SilenceExpired(silence_id=silence.id, actor="ann"))
        for name, condition in CAUSES.items():
            if self.random.random() < 0.8:
                self.bad.pop((name, condition), None)
        self._standing.clear()

    # ---- Monitors ------------------------------------------------------------------------------------------

    def _advance(self, monitor: SimulatedMonitor) -> None:
        """Let a monitor do what is due, or stop anywhere in between."""
        if self.now < self._standing.get(monitor.name, self.now):
            return
        if self.random.random() < 0.5:
            monitor.catch_up()  # whoever stood still goes on with old knowledge, or has read on before
        busy = self.now < NOON + BUSY
        for wait in monitor.waits:
            if wait is Wait.TURN:
                break
            chance = self.random.random() * (20 if self.is_flooded else 1) if busy else 1.0
            if chance < 0.004:
                self.faults[f"monitor stood still before {wait.name.lower()}"] += 1
                self._standing[monitor.name] = self.now + self.random.randrange(2, 150) * SECOND
                return
            if chance < 0.007:
                self._kill(monitor, wait)
                return
        if monitor.leads and self.truth.epoch == monitor.epoch:
            self._leader_seen_at = self.now
        elif self.now - self._leader_seen_at >= PATIENCE:
            self.faults["lead taken over"] += 1
            monitor.claim()

    def _kill(self, monitor: SimulatedMonitor, wait: Wait) -> None:
        self.faults[f"monitor died before {wait.name.lower()}"] += 1
        if monitor.unrecorded is not None:
            self._excuse(monitor.unrecorded)
        monitor.waits.close()
        self.monitors = [
            SimulatedMonitor(f"{monitor.name}'", self) if one is monitor else one for one in self.monitors
        ]
        self._standing[f"{monitor.name}'"] = self.now + self.random.randrange(5, 60) * SECOND

    # ---- Drivers -------------------------------------------------------------------------------------------

    def _close_windows(self, end: datetime) -> None:
        for name, driver in self.drivers.items():
            driver.close_window(end)
            dagger = self.fleet.daggers[name]
            chance = self.random.random() if self.now < NOON + BUSY else 1.0
            if dagger.phase != RUNNING or chance < 0.05:
                continue  # it is stopped, or takes longer: the next batch has several windows
            death = self.random.choice(list(Death)) if chance < 0.15 else None
            if death is not None:
                self.faults[f"driver died before {death.name.lower().replace('_', ' ')}"] += 1
            for observed in driver.run_batch(dagger.spec.alerts, dagger.version, death):
                self._observe(observed)

    def _observe(self, observed: rules_pb2.RuleObserved) -> None:
        self.observations.append(observed)
        meta = alerts_pb2.AlertMeta(dagger=observed.dagger, condition=CONDITION, rule=observed.rule)
        meta.key.update(observed.key)
        name = subject(meta)
        if observed.state not in _FIRES:
            self._unfired.pop(name, None)
        elif not self._is_open((name, CONDITION)) and self._is_in_force(observed):
            self._unfired.setdefault(name, (self.now, observed))

    def _is_in_force(self, observed: rules_pb2.RuleObserved) -> bool:
        """Tell whether a dagger has the rule by which something was observed: a batch that is repeated may be
        older than its removal.
        """
        rules = self.fleet.daggers[observed.dagger].spec.alerts
        return any(rule.name == observed.rule and digest(rule) == observed.digest for rule in rules)

    def _is_open(self, name: Name) -> bool:
        alert = self.truth.alerts.get(name)
        return alert is not None and alert.firing

    # ---- What happens --------------------------------------------------------------------------------------

    def _happen(self) -> None:
        if self.is_flooded:
            self._flood()
        chances = (
            (0.10, self._change_number),
            (0.06, self._turn_condition),
            (0.02, self._turn_cause),
            (0.03, self._silence),
            (0.03, self._acknowledge),
            (0.05, self._turn_receiver),
            (0.02, self._change_rules),
            (0.01, self._turn_dagger),
            (0.003, self._change_routes),
        )
        for _ in range(2):
            chance = self.random.random()
            for share, act in chances:
                if chance < share:
                    act()
                    break
                chance -= share

    def _flood(self) -> None:
        """Let a rule be true of all keys for some minutes, of the last ones not as long as of the others."""
        time, driver = self.now - NOON, self.drivers[DAGGERS[0]]
        for place, key in enumerate(driver.numbers):
            minutes = 12 if place < FLOOD_KEYS - FLOOD_ENDS else 8
            driver.numbers[key] = HIGH if 3 * MINUTE <= time < minutes * MINUTE else CALM

    def _change_number(self) -> None:
        driver = self.drivers[self.random.choice(list(self.drivers))]
        driver.numbers[self.random.choice(list(driver.numbers))] = self.random.choice(
            (CALM, CALM, HIGH, HIGHER)
        )

    def _turn_condition(self) -> None:
        self._turn((self.random.choice(DAGGERS), self.random.choice(CONDITIONS)))

    def _turn_cause(self) -> None:
        if not self.is_flooded:  # it would be looked for beside each of a thousand keys
            self._turn(self.random.choice(list(CAUSES.items())))

    def _turn(self, which: tuple[str, int]) -> None:
        if self.bad.pop(which, None) is None:
            self.bad[which] = self.now

    def _silence(self) -> None:
        if self.is_flooded:
            return
        matchers = [f"dagger={self.random.choice((*DAGGERS, 'dagger_*'))}", "rule=errors", "condition=failed"]
        silence = alerts_pb2.AlertSilence(
            id=f"{TEAM}/{self.truth.sequence:010x}",
            team=TEAM,
            matchers=[self.random.choice(matchers)],
            author="ann",
            reason="work",
        )
        silence.begin.FromDatetime(self.now)
        minutes = self.random.randrange(1, 10)
        if minutes > 7 and self.now < NOON + LONG_SILENCES:
            minutes += 8  # long enough for its end to be announced
        silence.end.FromDatetime(self.now + minutes * MINUTE)
        self.append(alerts_pb2.SilenceCreated(silence=silence))

    def _acknowledge(self) -> None:
        if opened := self.truth.list_open():
            metas = [self.random.choice(opened).meta()]
            if self.random.random() < 0.2:
                self.append(alerts_pb2.AcknowledgementEnded(incidents=metas, actor="bob"))
            else:
                self.append(alerts_pb2.AlertAcknowledged(incidents=metas, actor="ann"))

    def _turn_receiver(self) -> None:
        receiver = self.receivers[self.random.choice(list(self.receivers))]
        receiver.trouble = self.random.choice(("", "", "limits", "away", "late"))
        receiver.well_since = None if receiver.trouble else receiver.well_since or self.now
        if receiver.trouble:
            self.faults[f"receiver {receiver.trouble}"] += 1

    def _change_rules(self) -> None:
        """Change, remove or restore a rule: a new revision of its dagger."""
        name = self.random.choice(list(self.drivers))
        dagger, pool = self.fleet.daggers[name], self._pool[name]
        if self.is_flooded and name == DAGGERS[0]:
            return
        number = self.random.randrange(len(pool))
        if self.random.random() < 0.5:
            limit = self.random.choice((5, 8))
            pool[number] = build_rule(
                pool[number].name, limit, self.random.choice((1, 2)), keyed=bool(pool[number].key)
            )
        present = {rule.name for rule in dagger.spec.alerts} ^ {self.random.choice(pool).name}
        spec = spec_pb2.DaggerSpec(
            team=TEAM, cluster=dagger.spec.cluster, alerts=[rule for rule in pool if rule.name in present]
        )
        self.faults["rules changed"] += 1
        self._put(replace(dagger, spec=spec, version=dagger.version + 1))
        self._forget_unfired(name)

    def _turn_dagger(self) -> None:
        """Stop a dagger, or let one that is stopped go on."""
        dagger = self.fleet.daggers[self.random.choice(DAGGERS)]
        if self.is_flooded and dagger.name == DAGGERS[0]:
            return
        self.faults["dagger stopped or started"] += 1
        self._put(replace(dagger, phase=RUNNING if dagger.phase == STOPPED else STOPPED))
        self._forget_unfired(dagger.name)

    def _forget_unfired(self, dagger: str) -> None:
        self._unfired = {name: item for name, item in self._unfired.items() if item[1].dagger != dagger}

    def _change_routes(self) -> None:
        tree = alerts_pb2.AlertRoute(receivers=["slack"])
        by = [["rule"]] if self.is_flooded else [[], ["dagger"], ["condition"], ["dagger", "rule"]]
        tree.group_by.names.extend(self.random.choice(by))
        tree.group_wait.FromSeconds(self.random.choice((0, 10, 30)))
        tree.group_interval.FromSeconds(self.random.choice((10, 60, 300)))
        tree.repeat_interval.FromSeconds(self.random.choice((0, 900)))
        if self.random.random() < 0.6:
            tree.escalation.after.FromTimedelta(ESCALATE_AFTER)
            tree.escalation.receivers.append("email")
        if not self.is_flooded:
            child = tree.routes.add(match=["condition=failed"], receivers=["slack", "pagerduty"])
            child.continues = self.random.random() < 0.3
            tree.routes.add(match=["rule=*s"], receivers=["pagerduty"])
        newest = self.truth.routes.newest(TEAM)
        after = newest.number if newest else 0
        self.append(alerts_pb2.RoutesChanged(team=TEAM, routes=tree, after_revision=after))

    # ---- Delivery ------------------------------------------------------------------------------------------

    def note_decision(self, notify: Notify) -> None:
        """Check that a message may be sent now: its sender has read all that is in the log."""
        receiver, name = self.receivers[notify.receiver], name_notice(notify)
        if notify.ending is not None:
            self._check_announcement(notify)
        elif notify.group is None:
            if self.truth.find_silence(notify.alert, self.now) is not None:
                self._fail(f"{name}: sent while it is silenced")
            if self._has_cause(notify.alert):
                self._fail(f"{name}: sent while its cause lasts")
        for alert in list_firing(notify):
            incident = incident_of(alert)
            self._first_sent.setdefault(incident, self.now)
            if name_of(alert) in receiver.suspected or alert.fired_at is None:
                continue
            if not self._was_free(alert, alert.fired_at):
                self._fail(f"{name}: {incident} has been held back since it fired")
            if notify.group is not None and notify.receiver not in alert.deliveries:
                self._check_escalation(alert, notify)
        if notify.group is not None:
            self._check_group(notify)
        if receiver.limited_until is not None and self.now < receiver.limited_until:
            self._fail(f"{notify.receiver}: called before {receiver.limited_until}")
        if receiver.attempted_at is not None and self.now < receiver.attempted_at + PACE:
            self._fail(f"{notify.receiver}: called twice within {PACE}")

    def _check_announcement(self, notify: Notify) -> None:
        """Check that a silence is about to end, and holds back all that it is said to."""
        assert notify.ending is not None
        silence = notify.ending.silence
        if not silence.end - ENDS_SOON <= self.now < silence.end:
            self._fail(f"{silence.id}: announced {silence.end - self.now} before its end")
        for alert in notify.ending.alerts:
            if not self._is_open(name_of(alert)) or not silence.matches(self._list_labels(alert)):
                self._fail(f"{silence.id}: it does not hold back {incident_of(alert)}")

    def _note_ending(self) -> None:
        """Note since when silences that are about to end hold something back, and check those that end."""
        silences = self.truth.silences
        causes = self.truth.find_causes()
        alerts = [alert for alert in self.truth.list_open() if name_of(alert) not in causes]
        freed = {
            (silence.id, receiver)
            for silence in list_ending(silences.values(), self.now)
            for number in find_freed(silence, silences.values(), list(map(self._list_labels, alerts)))
            for receiver in (alerts[number].fired.receivers if alerts[number].fired else ())
            if takes_announcements(receiver)
        }
        for name in freed:
            self._freed_since.setdefault(name, self.now)
        for id_, receiver in self._freed_since.keys() - freed:
            since = self._freed_since.pop((id_, receiver))
            if silences[id_].end <= self.now and not silences[id_].ended_by:
                self._check_announced(id_, receiver, since)

    def _check_announced(self, silence: str, name: str, since: datetime) -> None:
        """Check that an end was announced to whoever had no trouble, where there was time for it."""
        receiver, begin = self.receivers[name], self.now - ANNOUNCED
        is_well = receiver.well_since is not None and receiver.well_since <= begin
        is_sent = receiver.accepted["silence", silence] > 0
        if is_well and max(since, self._led_since) <= begin and not is_sent:
            self._fail(f"{name}: {silence} ended, and that was not announced")

    def _check_group(self, notify: Notify) -> None:
        group = notify.group
        assert group is not None
        if len(group.firing) > MOST_INCIDENTS:
            self._fail(f"{group.labels}: {len(group.firing)} incidents in a message")
        for alert in group.firing:
            labels = list_labels(alert)
            if any(labels.get(name, "") != value for name, value in group.labels.items() if name != PART):
                self._fail(f"{group.labels}: {incident_of(alert)} does not belong there")

    def _check_escalation(self, alert: Alert, notify: Notify) -> None:
        """Check that it was sent to others for as long before, and that nobody looks after it."""
        sent = self._first_sent[incident_of(alert)]
        given = self.truth.alert_of(alert.meta()).find_acknowledgement(self.now)
        if self.now < sent + ESCALATE_AFTER:
            self._fail(
                f"{notify.receiver}: {incident_of(alert)} was escalated {self.now - sent} after {sent}"
            )
        if given is not None and given.time < sent + ESCALATE_AFTER:
            self._fail(f"{notify.receiver}: {incident_of(alert)} was escalated, and {given.author} cares")

    def send(self, monitor: SimulatedMonitor, notify: Notify) -> Outcome:
        """Send a message; check what it makes its receiver know."""
        receiver, name = self.receivers[notify.receiver], name_notice(notify)
        outcome, came = receiver.answer()
        receiver.announced.update(map(incident_of, list_firing(notify)))
        receiver.suspected.update(map(name_of, list_firing(notify)))
        receiver.announced_in.update((_name_group(notify), name_of(alert)) for alert in list_firing(notify))
        is_stray = monitor.epoch != self.truth.epoch  # it stood still, and the other leads by now
        if is_stray:
            self._excuse(notify)
            receiver.forgotten.update(map(name_of, (*list_firing(notify), *list_resolved(notify))))
        if came:
            if not isinstance(outcome, Success):
                receiver.excused[name] += 1
            self._take(receiver, notify, is_success=isinstance(outcome, Success))
        if not is_stray:
            receiver.attempted_at = self.now
            is_throttled = isinstance(outcome, Temporary) and outcome.throttled
            receiver.limited_until = self.now + RETRY_AFTER if is_throttled else None
        return outcome

    def note_unrecorded(self, monitor: SimulatedMonitor, notify: Notify) -> None:
        """Note that a message has no record: of a monitor that was replaced, or something is wrong."""
        if monitor.epoch == self.truth.epoch:
            self._fail(f"{notify.receiver}: {name_notice(notify)} was sent, and its outcome is not the next")
        else:
            self._excuse(notify)

    def _excuse(self, notify: Notify) -> None:
        """Let a message come once more; what a group's said is not known."""
        receiver = self.receivers[notify.receiver]
        receiver.excused[name_notice(notify)] += 1
        receiver.limited_until = receiver.attempted_at = None
        receiver.unrecorded.update(map(name_of, list_firing(notify)))
        if notify.group is not None:  # decision 273
            receiver.forgotten.update(map(name_of, (*notify.group.firing, *notify.group.resolved)))

    def _take(self, receiver: SimulatedReceiver, notify: Notify, *, is_success: bool) -> None:
        name = name_notice(notify)
        receiver.accepted[name] += 1
        if receiver.accepted[name] > 1 + receiver.excused[name]:
            self._fail(f"{notify.receiver}: {name} came {receiver.accepted[name]} times")
        if notify.is_acknowledgement and incident_of(notify.alert) not in receiver.open:
            self._fail(f"{name}: acknowledged, and its begin never came")
        receiver.open.update(map(incident_of, list_firing(notify)))
        for alert in list_resolved(notify):
            # Of an alert that is sent by itself its end says all of it.
            is_first = notify.group is not None and receiver.accepted[name] == 1
            if is_first and (_name_group(notify), name_of(alert)) not in receiver.announced_in:
                self._fail(f"{notify.receiver}: {incident_of(alert)} is over, and its begin was never sent")
            receiver.open -= {(name_of(alert), number) for number in range(alert.incident + 1)}
            if is_success:
                receiver.suspected.discard(name_of(alert))
                receiver.unrecorded.discard(name_of(alert))
                receiver.announced_in.discard((_name_group(notify), name_of(alert)))

    # ---- Invariants ----------------------------------------------------------------------------------------

    def _note_free(self) -> None:
        """Note which open alerts nothing holds back now."""
        causes = self.truth.find_causes()
        active = [one for one in self.truth.silences.values() if one.is_active(self.now)]
        if not causes and not active:
            self._all_free_at = self.now
            return
        for alert in self.truth.list_open():
            name = name_of(alert)
            if name in causes or any(one.matches(self._list_labels(alert)) for one in active):
                self._captive_at[name] = self.now
            else:
                self._free_at[name] = self.now

    def _list_labels(self, alert: Alert) -> Labels:
        incident = incident_of(alert)
        if incident not in self._labels:
            self._labels[incident] = list_labels(alert)
        return self._labels[incident]

    def _was_free(self, alert: Alert, since: datetime) -> bool:
        """Tell whether nothing held an alert back at some instant since then."""
        if max(self._free_at.get(name_of(alert), NOON), self._all_free_at) >= since:
            return True
        is_silenced = self.truth.find_silence(alert, self.now) is not None
        return not is_silenced and not self._has_cause(alert)

    def _has_cause(self, alert: Alert) -> bool:
        """Tell whether an open alert is a cause of another one, by all that are open."""
        labels = {name_of(one): self._list_labels(one) for one in self.truth.list_open()}
        return name_of(alert) in inhibition.find_causes(labels, inhibition.CAUSES)

    def _check_unfired(self) -> None:
        """Check that what fires is an incident soon, while there is a leader."""
        if self.now - self._leader_seen_at > 5 * SECOND and self.now < NOON + BUSY:
            self._led_since = self.now
        for name, (since, observed) in list(self._unfired.items()):
            if self.fleet.daggers[observed.dagger].phase != RUNNING:
                continue
            if self.now - max(since, self._led_since) > SOON:
                self._fail(f"{name}: it has fired since {since:%H:%M:%S}, and there is no incident")
                del self._unfired[name]

    def _check_resolved(self, meta: alerts_pb2.AlertMeta, epoch: int | None) -> None:
        """Check that what was open for long was announced to whoever had no trouble."""
        alert = self.truth.alert_of(meta)
        if epoch != self.truth.epoch or not alert.firing or alert.fired_at is None:
            return
        begin = self.now - ANNOUNCED
        if max(alert.fired_at, self._led_since, self._captive_at.get(name_of(alert), NOON)) > begin:
            return
        for name in alert.fired.receivers if alert.fired else ():
            receiver = self.receivers[name]
            is_well = receiver.well_since is not None and receiver.well_since <= begin
            if (
                is_well
                and incident_of(alert) not in receiver.announced
                and not receiver.shows(name_of(alert))
            ):
                self._fail(f"{name}: {incident_of(alert)} was open since {alert.fired_at}, and never sent")

    def _check_morning(self) -> None:
        """Check that what is true is an incident, and nothing else, and that receivers know it."""
        expected = {
            (name, condition)
            for name, condition in self.bad
            if name in CAUSES or self.fleet.daggers[name].phase == RUNNING
        } | {(name, CONDITION) for name in self._list_true()}
        opened = {name_of(alert) for alert in self.truth.list_open()}
        for name in sorted(expected - opened):
            self._fail(f"{name}: it is so, and there is no incident")
        for name in sorted(opened - expected):
            self._fail(f"{name}: it is over, and its incident is open")
        causes = self.truth.find_causes()
        for alert in self.truth.alerts.values():
            for name in self._list_due(alert):
                receiver = self.receivers[name]
                if name_of(alert) in receiver.forgotten:
                    continue
                if alert.firing and not receiver.shows(name_of(alert)) and name_of(alert) not in causes:
                    self._fail(f"{name}: {incident_of(alert)} is open, and it does not know")
                is_unknown = name_of(alert) in receiver.unrecorded  # and held back since, until it was over
                if not alert.firing and receiver.shows(name_of(alert)) and not is_unknown:
                    self._fail(f"{name}: {incident_of(alert)} is over, and it does not know")
        if self.is_flooded:
            self._check_flood()

    def _list_due(self, alert: Alert) -> Iterator[str]:
        """Yield who is to know of an alert."""
        if alert.fired is None:
            return
        yield from alert.fired.receivers
        if alert.firing and alert.find_acknowledgement(self.now) is None:
            for destination in alert.fired.destinations:
                yield from destination.escalate_to

    def _list_true(self) -> Iterator[str]:
        """Yield the subjects of all rules that are true, and in force, of daggers that run."""
        for name, driver in self.drivers.items():
            dagger = self.fleet.daggers[name]
            for rule in dagger.spec.alerts if dagger.phase == RUNNING else ():
                true = [key for key, number in driver.numbers.items() if number > read_limit(rule)]
                for key in true if rule.key else true[:1]:
                    meta = alerts_pb2.AlertMeta(dagger=name, condition=CONDITION, rule=rule.name)
                    if rule.key:
                        meta.key[rule.key[0]] = key
                    yield subject(meta)

    def _check_flood(self) -> None:
        """Check that a thousand keys had an incident each, and one more said how many others there were, and
        how many were left.
        """
        of_flood = [alert for alert in self.truth.alerts.values() if alert.rule == "flood"]
        others = [alert for alert in of_flood if not alert.key]
        first = FLOOD_KEYS - MOST_INCIDENTS
        messages = (record.message for record in self.records)
        summaries = [one.summary for one in messages if isinstance(one, alerts_pb2.AlertFired)]
        is_counted = any(f"{first} further keys" in summary for summary in summaries)
        last = f"{first - FLOOD_ENDS} further keys"
        is_changed = any(alert.fired and last in alert.fired.summary for alert in others)
        if len(of_flood) != MOST_INCIDENTS + 1 or not is_counted or not is_changed:
            self._fail(
                f"{len(of_flood)} incidents of {FLOOD_KEYS} keys, {first} counted in one: {is_counted}, and"
                f" {last} in it later: {is_changed}"
            )


def _name_group(notify: Notify) -> Hashable:
    return name_notice(notify)[:-1] if notify.group is not None else None


def _read_epoch(message: Message) -> int | None:
    """Return the epoch of a fact of a monitor; None of all else."""
    match message:
        case (
            alerts_pb2.AlertFired()
            | alerts_pb2.AlertChanged()
            | alerts_pb2.AlertResolved()
            | alerts_pb2.NotificationSent()
            | alerts_pb2.NotificationFailed()
        ):
            return message.meta.epoch
        case (
            alerts_pb2.GroupNotificationSent()
            | alerts_pb2.GroupNotificationFailed()
            | alerts_pb2.SilenceNotificationSent()
            | alerts_pb2.SilenceNotificationFailed()
        ):
            return message.notice.epoch
    return None
