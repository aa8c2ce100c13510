"""A watch that goes on: one that breaks is taken up where it was."""

import time
from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from cli.errors import UnreachableError

PAUSE_S = 1.0
RECONNECT_S = 30.0


class Step(Protocol):
    """A step of a watch."""

    @property
    def sequence(self) -> int:
        """What to go on behind."""


S = TypeVar("S", bound=Step)


def resumed(steps: Callable[[int | None], Iterator[S]], since: int | None) -> Iterator[S]:
    """The steps of a watch behind `since`, for ever. Raises UnreachableError when nobody answers any more.

    steps: begins the watch behind a sequence; behind None it begins as it does without one.
    """
    lost: float | None = None
    while True:
        try:
            for step in steps(since):
                since, lost = step.sequence, None
                yield step
        except UnreachableError:
            lost = lost or time.monotonic()
            if since is None or time.monotonic() - lost > RECONNECT_S:
                raise
        time.sleep(PAUSE_S)
