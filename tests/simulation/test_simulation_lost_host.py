"""Critical daggers of a lost host run elsewhere within their bound, whatever else starts meanwhile."""

from pathlib import Path

import pytest
from tests.simulation.life import lived
from tests.simulation.lost_host import BOUND_S, CRITICAL, LostHost
from tests.simulation.run import quiet

from scheduler.leader.host_watch import BEAT_EVERY, GONE_AFTER


@pytest.mark.parametrize("seed", range(1, 7))
def test_critical_daggers_of_a_lost_host_run_elsewhere_within_150_seconds(seed: int, tmp_path: Path) -> None:
    with quiet():
        life = lived(LostHost, seed, tmp_path)

    assert len(life.critical) == len(CRITICAL) / 2
    assert GONE_AFTER.total_seconds() - BEAT_EVERY.total_seconds() <= life.took_s <= BOUND_S
