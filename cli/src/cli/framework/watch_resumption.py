"""A watch that goes on: one that breaks is taken up where it was."""

import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from cli.errors import RefusedError, UnreachableError

PAUSE_S = 1.0
RECONNECT_S = 30.0

S = TypeVar("S")
T = TypeVar("T")


def by_sequence(step: Any) -> int:
    """What a watch of a log goes on behind."""
    sequence: int = step.sequence
    return sequence


def resumed(
    steps: Callable[[T | None], Iterator[S]], since: T | None, token: Callable[[S], T]
) -> Iterator[S]:
    """The steps of a watch behind `since`, until it is over. Raises UnreachableError when nobody answers.

    steps: begins the watch behind a token; behind None it begins as it does without one.
    token: what to go on behind after a step.

    A watch of something that is not there any more when it is taken up is over, too.
    """
    lost: float | None = None
    while True:
        try:
            for step in steps(since):
                since, lost = token(step), None
                yield step
        except UnreachableError:
            lost = lost or time.monotonic()
            if since is None or time.monotonic() - lost > RECONNECT_S:
                raise
            time.sleep(PAUSE_S)
        except RefusedError as refusal:
            if lost is None or refusal.reason != "NOT_FOUND":
                raise
            return
        else:
            return
