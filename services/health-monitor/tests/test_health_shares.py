"""Alerts about shares begin after a while, are over well below their limit, and do not come and go at it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from daggers.v1 import alerts_pb2, events_pb2, gateway_pb2, spec_pb2, telemetry_pb2
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.testing import record
from fleet import Dagger
from fleet.alerts.ledger import Ledger
from fleet.conditions.dagger_conditions import OF_DAGGERS, diagnose
from fleet.fold.phases import RUNNING
from fleet.health import watch
from fleet.health.degradation import Limits
from health_monitor.alerts import alert
from health_monitor.alerts.judge import Judge

NOON = datetime(2026, 7, 22, 12, tzinfo=UTC)
BEAT = timedelta(seconds=5)
MINUTE = timedelta(minutes=1)
RATE, LATE = alerts_pb2.ALERT_CONDITION_QUARANTINE_RATE, alerts_pb2.ALERT_CONDITION_LATE_ROWS
DAGGER = Dagger(
    name="bookings", warnings=(), version=1, phase=RUNNING, phase_time=NOON, sequence=5, create_sequence=1,
    create_time=NOON, update_time=NOON, generation=3, desired=gateway_pb2.DESIRED_RUNNING,
    driver=events_pb2.DriverHandle(host="h"), spec=spec_pb2.DaggerSpec(),
)  # fmt: skip


class Night:
    """A dagger that lives on while a monitor looks each second, and the alerts that it writes."""

    def __init__(self) -> None:
        self.now = NOON
        self.watch = watch.begin(NOON, 3)
        self.turns: list[tuple[timedelta, str]] = []
        self._ledger = Ledger()
        self._judge = Judge(self._ledger, receivers=lambda _: (), policy=alert.Policy())
        self._read = self._aside = self._late = 0

    def passes(self, lasted: timedelta, *, aside: float = 0, late: float = 0, rate: int = 25) -> None:
        """Time goes by, with `rate` records a second, of which shares are set aside, or late."""
        end = self.now + lasted
        while self.now < end:
            self.now += BEAT
            came = rate * int(BEAT.total_seconds())
            self._read += came
            self._aside += round(came * aside * 1_000)
            self._late += round(came * late * 1_000)
            beat = telemetry_pb2.Heartbeat(
                dagger="bookings",
                generation=3,
                rows_in=self._read,
                late_rows=self._late // 1_000,
                quarantined={"MALFORMED": self._aside // 1_000},
            )
            if late > 0.01:
                beat.warnings.append("LATE_ROWS: rows came after their windows were closed")
            beat.time.FromDatetime(self.now)
            beat.last_progress.FromDatetime(self.now)
            self.watch = watch.hear(self.watch, beat, self.now)
            self._look()

    def _look(self) -> None:
        found = diagnose(DAGGER, self.watch, now=self.now, hearing=NOON, limits=Limits())
        turn = self._judge.next_turn("bookings", found, of=OF_DAGGERS, now=self.now, dagger=DAGGER)
        if turn is None:
            return
        self.turns.append((self.now - NOON, type(turn).__name__))
        turn.meta.epoch = self._ledger.epoch
        self._ledger.apply(record(turn, sequence=len(self.turns) - 1))


def test_nobody_is_woken_by_the_first_two_minutes() -> None:
    night = Night()
    night.passes(timedelta(seconds=115), aside=0.011)

    assert night.turns == []


@pytest.mark.parametrize("kind", ["aside", "late"])
def test_a_share_that_stays_too_great_wakes_somebody_once(kind: str) -> None:
    night = Night()
    night.passes(30 * MINUTE, **{kind: 0.02})

    ((after, turn),) = night.turns
    assert turn == "AlertFired"
    assert timedelta(minutes=2) <= after <= timedelta(minutes=3)


@pytest.mark.parametrize("kind", ["aside", "late"])
def test_a_share_that_stays_at_its_limit_does_not_come_and_go(kind: str) -> None:
    night = Night()
    for _ in range(6):
        night.passes(3 * MINUTE, **{kind: 0.0125})
        night.passes(3 * MINUTE, **{kind: 0.0085})

    assert len(night.turns) <= 1


@pytest.mark.parametrize("kind", ["aside", "late"])
def test_it_is_over_once_the_share_is_well_below_its_limit(kind: str) -> None:
    night = Night()
    night.passes(10 * MINUTE, **{kind: 0.03})
    night.passes(10 * MINUTE, **{kind: 0.002})

    assert [turn for _, turn in night.turns] == ["AlertFired", "AlertResolved"]


@settings(max_examples=settings.default.max_examples // 10)
@given(st.lists(st.floats(0.006, 0.03), min_size=1, max_size=6))
def test_no_share_above_half_of_its_limit_ends_an_incident(shares: Sequence[float]) -> None:
    night = Night()
    for share in shares:
        night.passes(5 * MINUTE, aside=share)

    assert [turn for _, turn in night.turns] in ([], ["AlertFired"])
