"""Kafka is away in a fleet that is well otherwise: told without the log, brought in afterwards, told once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from daggers.v1 import alerts_pb2
from tests.simulation.life import KAFKA_AWAY, Life, lived
from tests.simulation.outside import RECEIVERS
from tests.simulation.run import quiet

from fleet.alerts.alert import PLATFORM

FIRED, RESOLVED = alerts_pb2.ALERT_NOTICE_FIRED, alerts_pb2.ALERT_NOTICE_RESOLVED
SEEDS = range(1, 9)


class Outage(Life):
    """Nothing goes wrong but that Kafka is away, for a minute and a half."""

    away_s = 90.0
    killed_after_s = away_s
    """When every monitor is killed in it; the next ones cannot start before it is over."""

    async def live(self) -> None:
        """All of it. Raises: Violation."""
        self.world.faulty = False
        self.people.begin()
        self.crew.keep_up()
        await self.settle()
        self.before = len(self.world.alerts.records)
        self.world.kafka.leave(self.away_s)
        await asyncio.sleep(self.killed_after_s)
        for member in self.crew.serving("monitor") if self.killed_after_s < self.away_s else ():
            member.process.alive = False
        while self.world.kafka.away:
            self.crew.keep_up()
            await asyncio.sleep(1)
        self.told_without_the_log = list(self.crew.webhooks.told)
        self.written_in_it = self.kinds()
        await self.settle()
        self._check_replayed()

    def kinds(self) -> list[str]:
        """What was written to the log of alerts since the outage began, but for claims."""
        kinds = [record.type.rpartition(".")[2] for record in self.world.alerts.records[self.before :]]
        return [kind for kind in kinds if kind != "MonitorStarted"]


class Killed(Outage):
    """Everybody who told of it is killed before it is over."""

    killed_after_s = 60.0


class Short(Outage):
    """An outage too short to wake anybody."""

    away_s = killed_after_s = 25.0


def told(notice: int) -> list[tuple[str, int, int, int, str]]:
    """What each receiver takes once."""
    return [(PLATFORM, KAFKA_AWAY, 1, notice, name) for name in sorted(RECEIVERS)]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", [Outage, Killed])
def test_an_outage_is_told_without_the_log_brought_in_afterwards_and_told_once(
    kind: type[Outage], seed: int, tmp_path: Path
) -> None:
    with quiet():
        life = lived(kind, seed, tmp_path)

    assert (sorted(life.told_without_the_log), life.written_in_it) == (told(FIRED), [])
    assert sorted(life.crew.webhooks.told) == [*told(FIRED), *told(RESOLVED)]
    assert set(life.kinds()) == {"OutageReported", "AlertResolved", "NotificationSent"}
    assert life.kinds()[0] == "OutageReported"
    assert life.kinds().count("NotificationSent") == len(RECEIVERS)
    assert life.world.journal.load() is None


@pytest.mark.parametrize("seed", SEEDS)
def test_an_outage_of_less_than_its_limit_wakes_nobody(seed: int, tmp_path: Path) -> None:
    with quiet():
        life = lived(Short, seed, tmp_path)

    assert (life.crew.webhooks.told, life.kinds()) == ([], [])
