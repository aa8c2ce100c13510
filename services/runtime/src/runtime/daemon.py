"""The parent of a driver's Python workers: Spark starts it by this name (`spark.session`)."""

from __future__ import annotations

from typing import TextIO, cast

from chassis.gc_tuning import tune_gc
from chassis.logging import configure
from daggerspec import rundir
from runtime import members
from runtime.hidden_packages import hide_packages
from runtime.hiding import redact
from runtime.spark import daemon


def load() -> None:
    """Import what workers need."""
    import runtime.launch.delivery
    import runtime.source.datasource  # noqa: F401
    from runtime.source.reader.consumers import MESSAGES_ALIVE

    configure(rundir.DRIVER_LOGGER, stream=cast(TextIO, members.Output()), as_driver=True, hidden=redact)
    tune_gc(MESSAGES_ALIVE)


if __name__ == "__main__":
    hide_packages()
    daemon.serve(load)
