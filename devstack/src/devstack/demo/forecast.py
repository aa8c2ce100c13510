"""What the demo says of itself before and after: how long it takes, and what to do next. Pure but for a look
whether the tools are there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from devstack.tools import influxd, kafka

_AROUND_S: Final = 50
"""What a stack takes to come up, daggers to run, the last windows to close, and all of it to stop."""
_TOOLS_S: Final = 180
"""What is installed once takes about so much more; InfluxDB, which is built, most of it."""


def announced(feeding_s: float, tools: Path) -> str:
    """How long the demo takes on a machine of two cores that has nothing else to do.

    tools: the folder that they are installed into, once.
    """
    missing = [
        title
        for name, title in ((kafka.NAME, "Kafka"), (influxd.NAME, "InfluxDB"))
        if not (tools / name).is_dir()
    ]
    about = _spoken(feeding_s + _AROUND_S + (_TOOLS_S if missing else 0))
    first = f", for {' and '.join(missing)} are installed first and kept in {tools}" if missing else ""
    around = f"{feeding_s:g} s of events, and what is around them"
    return f"the demo takes about {about} on two cores: {around}{first}"


def further_steps(*, kept: bool) -> str:
    """What to do behind the demo, a line each."""
    steps = [
        ("daggers local up", "a stack that stays; it says the address of its pages"),
        ("docs/own-schema.md", "from your own .proto file to a chart"),
        ("docs/dialect.md", "what a query may say"),
    ]
    if kept:
        steps[0] = ("daggers local status", "the address of the pages of the stack that is left up")
    else:
        steps.insert(0, ("daggers demo --keep", "the same, and the stack stays up to look at"))
    width = max(len(what) for what, _ in steps)
    return "\n".join(["what next:", *(f"  {what:<{width}}  {why}" for what, why in steps)])


def _spoken(seconds: float) -> str:
    """To half a minute: nobody promises more."""
    halves = max(1, round(seconds / 30))
    whole, half = divmod(halves, 2)
    if not whole:
        return "half a minute"
    return f"{whole}{' ½' if half else ''} minute{'s' if halves > 2 else ''}"
