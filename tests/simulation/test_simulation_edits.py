"""Edits in a fleet that is well otherwise: each is made by a cutover, every window is written once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.simulation.life import Life, lived
from tests.simulation.people import NAMES, asked
from tests.simulation.run import quiet
from tests.simulation.windows import WINDOW_S

EDITS = 3
STEPS = ["ShadowIntended", "ShadowLaunched", "CutoverDecided", "CutoverHanded"]


class Edited(Life):
    """Nothing goes wrong but that people edit what runs; the scheduler is killed at one step of it."""

    killed_at = ""
    """The type of the fact behind which the leading scheduler dies, each time; none where it is empty."""

    async def live(self) -> None:
        """All of it. Raises: Violation."""
        self.world.faulty, self.crew.cutover = False, True
        self.people.begin()
        self.crew.keep_up()
        await self.settle()
        for number in range(EDITS):
            for name in NAMES:
                self.people.request(("edit", name), asked(name, f"run {number % 2}"), name)
            seen = len(self.world.control.records)
            await self._until_decided(seen)
            await self.settle()
        self._check_replayed()

    async def _until_decided(self, seen: int) -> None:
        """Let the edits begin, and kill who leads at the step where that is to be."""
        end = self.loop.time() + 3 * WINDOW_S
        while self.loop.time() < end:
            self.crew.keep_up()
            kinds = [record.type.rpartition(".")[2] for record in self.world.control.records[seen:]]
            leader = self.world.control_witness.fleet.leader
            if self.killed_at in kinds and leader is not None:
                self.crew.members[leader.scheduler_id].process.alive = False
                self.crew.keep_up()
                return
            await asyncio.sleep(0.2)

    def kinds(self) -> list[str]:
        """The facts of cutovers, in their order."""
        kinds = [record.type.rpartition(".")[2] for record in self.world.control.records]
        return [kind for kind in kinds if kind in STEPS]

    def alerts(self) -> list[str]:
        """What anybody was woken for."""
        return [str(record.message) for record in self.world.alerts.records if "AlertFired" in record.type]


class KilledAtIntent(Edited):
    killed_at = "ShadowIntended"


class KilledAtLaunch(Edited):
    killed_at = "ShadowLaunched"


class KilledAtBoundary(Edited):
    killed_at = "CutoverDecided"


class KilledAtHandover(Edited):
    killed_at = "CutoverHanded"


@pytest.mark.parametrize("seed", range(1, 3))
def test_every_edit_that_recomputes_is_made_beside_the_driver_that_runs(seed: int, tmp_path: Path) -> None:
    with quiet():
        life = lived(Edited, seed, tmp_path)

    assert [life.kinds().count(step) for step in STEPS] == [EDITS * len(NAMES)] * len(STEPS)
    assert life.alerts() == []


@pytest.mark.parametrize("kind", [KilledAtIntent, KilledAtLaunch, KilledAtBoundary, KilledAtHandover])
def test_whoever_leads_next_goes_on_where_a_scheduler_died(kind: type[Edited], tmp_path: Path) -> None:
    with quiet():
        kinds = lived(kind, 1, tmp_path).kinds()

    assert kinds.count("ShadowIntended") >= EDITS * len(NAMES)
    assert kinds.count("CutoverHanded") >= EDITS * len(NAMES) - EDITS
