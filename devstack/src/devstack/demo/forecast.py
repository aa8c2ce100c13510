"""Say before the demo how long it takes, and behind it what to do next.

Pure but for a look whether the tools are there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from devstack.tools import influxd, kafka

_AROUND_S: Final = 50
"""Seconds for a stack to come up, daggers to run, the last windows to close, and all of it to stop."""
_TOOLS_S: Final = 180
"""Seconds more where tools are installed, which is once; InfluxDB, which is built, takes most of it."""


def announce_duration(feeding_s: float, tools: Path) -> str:
    """Return how long the demo takes on a machine of two cores that has nothing else to do.

    tools: the folder that they are installed into, once.
    """
    missing = [
        title
        for name, title in ((kafka.NAME, "Kafka"), (influxd.NAME, "InfluxDB"))
        if not (tools / name).is_dir()
    ]
    about = _round_duration(feeding_s + _AROUND_S + (_TOOLS_S if missing else 0))
    first = f", for {' and '.join(missing)} are installed first and kept in {tools}" if missing else ""
    around = f"{feeding_s:g} s of events, and what is around them"
    return f"the demo takes about {about} on two cores: {around}{first}"


def further_steps(*, stays_up: bool) -> str:
    """Return what to do behind the demo, a line each."""
    steps = [
        ("daggers local up", "a stack that stays; it says the address of its pages"),
        ("docs/own-schema.md", "from your own .proto file to a chart"),
        ("docs/dialect.md", "what a query may say"),
    ]
    if stays_up:
        steps[0] = ("daggers local status", "the address of the pages of the stack that is left up")
    else:
        steps.insert(0, ("daggers demo --keep", "the same, and the stack stays up to look at"))
    width = max(len(command) for command, _ in steps)
    return "\n".join(["what next:", *(f"  {command:<{width}}  {why}" for command, why in steps)])


def _round_duration(seconds: float) -> str:
    """Round to half a minute: nobody promises more."""
    halves = max(1, round(seconds / 30))
    whole, half = divmod(halves, 2)
    if not whole:
        return "half a minute"
    return f"{whole}{' ½' if half else ''} minute{'s' if halves > 2 else ''}"
