"""The parent of a driver's Python workers: Spark starts it by this name (`spark.session`)."""

from __future__ import annotations

from chassis.collector import relieve
from runtime.spark import daemon


def load() -> None:
    """Import what workers need."""
    import runtime.launch.delivery
    import runtime.source.datasource  # noqa: F401
    from runtime.source.reader.consumers import MESSAGES_ALIVE

    relieve(MESSAGES_ALIVE)


if __name__ == "__main__":
    daemon.serve(load)
