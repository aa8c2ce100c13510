from __future__ import annotations

from daggerspec.limits import DRIVER_OVERHEAD_MIB
from scheduler.settings import SchedulerSettings


def test_help_tells_the_overhead_that_is_counted() -> None:
    said = SchedulerSettings.model_fields["driver_memory_mib"].description

    assert f" {DRIVER_OVERHEAD_MIB} MiB more are counted" in (said or "")
