"""Scenarios of alerts in a few seconds, and the notifications of our own routing on a simulated clock.

Each scenario is a team's: its routes, and what happens when. `play` tells all of them to one ledger; what an
Alertmanager is told beside it, `test_alertmanager` does at the same times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from daggers.v1 import alerts_pb2
from google.protobuf.message import Message

from eventlog import Draft, read_record
from fleet.alerts.alert import PLATFORM, Alert
from fleet.alerts.ledger import Ledger
from health_monitor.alerts import routing
from health_monitor.alerts.alert import Policy, conclude
from health_monitor.receivers import Success

NOON: Final = datetime(2026, 1, 1, 12, tzinfo=UTC)
TICK: Final = timedelta(milliseconds=250)
"""Time between two looks of a monitor at what is due."""
LENGTH_S: Final = 16.0
RECEIVERS: Final = ("slack", "pagerduty")
_CONDITIONS: Final = {
    "failed": (alerts_pb2.ALERT_CONDITION_FAILED, alerts_pb2.ALERT_SEVERITY_CRITICAL),
    "late_rows": (alerts_pb2.ALERT_CONDITION_LATE_ROWS, alerts_pb2.ALERT_SEVERITY_WARNING),
    "unreachable": (alerts_pb2.ALERT_CONDITION_UNREACHABLE, alerts_pb2.ALERT_SEVERITY_CRITICAL),
    "kafka_away": (alerts_pb2.ALERT_CONDITION_KAFKA_AWAY, alerts_pb2.ALERT_SEVERITY_CRITICAL),
}

Kind: TypeAlias = Literal["fires", "ends", "silence", "unsilence"]


class Step(NamedTuple):
    """Something that happens."""

    second: float
    kind: Kind
    dagger: str
    condition: str = "failed"


@dataclass(frozen=True)
class Scenario:
    """Routes of a team, and what happens to its alerts."""

    routes: Mapping[str, Any]
    """Root of the tree: `group_by`, times in seconds, `receivers`, `match` as label and value, `routes`."""
    steps: Sequence[Step]


class Notification(NamedTuple):
    """Notification: to whom, of which daggers that fire and that are over."""

    receiver: str
    """TEAM/KIND."""
    firing: tuple[str, ...]
    resolved: tuple[str, ...]


_TIMES: Final = {"group_wait": 1, "group_interval": 2, "repeat_interval": 3_600}
SCENARIOS: Final[Mapping[str, Scenario]] = {
    "grouping": Scenario(
        {**_TIMES, "group_by": ["condition"], "receivers": ["slack"]},
        [
            Step(0, "fires", "a"),
            Step(0.5, "fires", "b"),
            Step(0.5, "fires", "c", "late_rows"),
            Step(2, "fires", "d"),
            Step(4, "ends", "a"),
            Step(6, "ends", "b"),
            Step(6, "ends", "d"),
            Step(6, "ends", "c", "late_rows"),
        ],
    ),
    "no-groups": Scenario(
        {**_TIMES, "group_by": ["dagger"], "receivers": ["slack"]},
        [
            Step(0, "fires", "a"),
            Step(0, "fires", "b"),
            Step(2, "ends", "a"),
            Step(8, "fires", "a"),
            Step(10, "ends", "a"),
            Step(10, "ends", "b"),
        ],
    ),
    "repeat": Scenario(
        {**_TIMES, "repeat_interval": 3, "group_by": ["condition"], "receivers": ["slack"]},
        [Step(0, "fires", "a"), Step(10, "ends", "a")],
    ),
    "tree": Scenario(
        {
            **_TIMES,
            "group_by": ["dagger"],
            "receivers": ["slack"],
            "routes": [
                {"match": ("severity", "critical"), "receivers": ["pagerduty"], "continue": True},
                {"match": ("condition", "failed"), "receivers": ["slack"], "group_wait": 3},
            ],
        },
        [
            Step(0, "fires", "a"),
            Step(0, "fires", "b", "late_rows"),
            Step(6, "ends", "a"),
            Step(6, "ends", "b", "late_rows"),
        ],
    ),
    "silence": Scenario(
        {**_TIMES, "group_by": ["condition"], "receivers": ["slack"]},
        [
            Step(0, "silence", "b"),
            Step(0.2, "fires", "a"),
            Step(0.2, "fires", "b"),
            Step(6, "unsilence", "b"),
            Step(10, "ends", "a"),
            Step(10, "ends", "b"),
        ],
    ),
    "flapping": Scenario(
        {**_TIMES, "group_wait": 2, "group_interval": 4, "group_by": ["dagger"], "receivers": ["slack"]},
        [
            Step(0, "fires", "a"),
            Step(3, "ends", "a"),
            Step(4, "fires", "a"),
            Step(8, "ends", "a"),
        ],
    ),
    "cause": Scenario(
        {**_TIMES, "group_by": ["condition"], "receivers": ["slack"]},
        [
            Step(0, "fires", PLATFORM, "kafka_away"),
            Step(0.3, "fires", "a", "unreachable"),
            Step(0.3, "fires", "b"),
            Step(6, "ends", PLATFORM, "kafka_away"),
            Step(10, "ends", "a", "unreachable"),
            Step(10, "ends", "b"),
        ],
    ),
}
"""By team."""


@dataclass
class Night:
    """Our own fold and decisions, at the times of the scenarios."""

    ledger: Ledger = field(default_factory=Ledger)
    now: datetime = NOON
    notifications: list[tuple[float, Notification]] = field(default_factory=list)

    def play(self) -> list[tuple[float, Notification]]:
        """Let everything happen; return who was told what, and at which second."""
        self.begin()
        left = list_steps()
        while self.now <= NOON + timedelta(seconds=LENGTH_S):
            second = (self.now - NOON).total_seconds()
            while left and left[0][0].second <= second:
                self.happen(*left.pop(0))
            self._deliver(second)
            self.now += TICK
        return self.notifications

    def begin(self) -> None:
        """Give the teams their routes."""
        self._write(alerts_pb2.MonitorStarted(monitor_id="one"))
        for team, scenario in SCENARIOS.items():
            self._write(alerts_pb2.RoutesChanged(team=team, routes=build_routes(scenario.routes)))

    def happen(self, step: Step, team: str) -> Alert | None:
        """Write what happens; return the alert that it is about."""
        name = f"{team}/{step.dagger}"
        match step.kind:
            case "silence":
                silence = alerts_pb2.AlertSilence(
                    id=name,
                    team=team,
                    matchers=[f"dagger={_name_dagger(step.dagger, team)}"],
                    author="ann",
                    reason="work",
                )
                silence.begin.FromDatetime(self.now)
                silence.end.FromDatetime(self.now + timedelta(hours=1))
                self._write(alerts_pb2.SilenceCreated(silence=silence))
                return None
            case "unsilence":
                self._write(alerts_pb2.SilenceExpired(silence_id=name, actor="ann"))
                return None
            case _:
                self._turn(step, team)
                condition, _ = _CONDITIONS[step.condition]
                return self.ledger.alert(_name_dagger(step.dagger, team), condition)

    def _turn(self, step: Step, team: str) -> None:
        condition, severity = _CONDITIONS[step.condition]
        before = self.ledger.alert(_name_dagger(step.dagger, team), condition)
        if step.kind == "ends":
            over = alerts_pb2.AlertResolved(meta=before.meta(), summary="it is well")
            over.meta.epoch = self.ledger.epoch
            over.until.FromDatetime(self.now)
            self._write(over)
            return
        meta = before.meta(incident=before.incident + 1)
        meta.epoch = self.ledger.epoch
        own = [f"{team}/{kind}" for kind in RECEIVERS]
        of_team = "" if step.dagger == PLATFORM else team
        fired = alerts_pb2.AlertFired(
            meta=meta, severity=severity, summary="it is not well", team=of_team, receivers=["platform/slack"]
        )
        fired.since.FromDatetime(self.now)
        routing.route(fired, self.ledger, own=own, fallback=())
        self._write(fired)

    def _write(self, message: Message) -> None:
        sequence = self.ledger.sequence + 1
        draft = Draft(f"r{sequence}", "/test", "s", self.now, message)
        self.ledger.apply(read_record(sequence, draft.headers(), message.SerializeToString()))

    def _deliver(self, second: float) -> None:
        for receiver in [f"{team}/{kind}" for team in SCENARIOS for kind in RECEIVERS]:
            while due := self.ledger.next_notification(receiver, pace=timedelta(), now=self.now):
                assert due.group is not None
                names = [
                    tuple(sorted(f"{alert.dagger}" for alert in alerts))
                    for alerts in (due.group.firing, due.group.resolved)
                ]
                self.notifications.append((second, Notification(receiver, *names)))
                event = conclude(due, Success(), now=self.now, policy=Policy())
                assert isinstance(event, alerts_pb2.GroupNotificationSent)
                event.notice.epoch = self.ledger.epoch
                self._write(event)


def list_steps() -> list[tuple[Step, str]]:
    """List all that happens, with the team of each, in its order."""
    named = [(each, team) for team, scenario in SCENARIOS.items() for each in scenario.steps]
    return sorted(named, key=lambda pair: pair[0].second)


def _name_dagger(dagger: str, team: str) -> str:
    return dagger if dagger == PLATFORM else f"{team}_{dagger}"


def build_routes(routes: Mapping[str, Any]) -> alerts_pb2.AlertRoute:
    """Build the message of a scenario's routes."""
    label, value = routes.get("match", ("", ""))
    message = alerts_pb2.AlertRoute(
        match=[f"{label}={value}"] if label else (),
        receivers=routes["receivers"],
        continues=routes.get("continue", False),
        routes=map(build_routes, routes.get("routes", ())),
    )
    if "group_by" in routes:
        message.group_by.names.extend(routes["group_by"])
    for name in ("group_wait", "group_interval", "repeat_interval"):
        if name in routes:
            getattr(message, name).FromSeconds(routes[name])
    return message
