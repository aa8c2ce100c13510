"""Resume watches that break, where they were."""

import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from cli.errors import RefusedError, UnreachableError

PAUSE_S = 1.0
RECONNECT_S = 30.0

S = TypeVar("S")
T = TypeVar("T")


def by_sequence(step: Any) -> int:
    """Return the token by which a watch of a log resumes: a step's sequence."""
    sequence: int = step.sequence
    return sequence


def resume(steps: Callable[[T | None], Iterator[S]], since: T | None, token: Callable[[S], T]) -> Iterator[S]:
    """Yield the steps of a watch behind `since` until it ends. Raises: UnreachableError where no gateway
    answers.

    steps: begins the watch behind a token; None begins it without one.
    token: returns the token to resume behind after a step.

    A watch of something that no longer exists when it is resumed ends, too.
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
