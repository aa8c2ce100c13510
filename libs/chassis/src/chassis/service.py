"""The shape of a service: its settings, what they name, serving until SIGTERM, an exit code.

    0   drained, after SIGTERM or SIGINT
    2   bad settings: stderr says which
    69  something that it needs is away: start it again
    70  our fault

The last line of its log is the event `stopped`: the exit code, and what was wrong if anything was.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, Final, TypeVar

from chassis import gc_tuning, logging, settings, shutdown

DRAINED: Final = 0
BAD_SETTINGS: Final = 2
UNAVAILABLE: Final = 69
INTERNAL: Final = 70

S = TypeVar("S", bound=settings.ServiceSettings)
P = TypeVar("P")


class Unavailable(Exception):  # noqa: N818 - reads as what is wrong
    """Something that a service needs is not there. One sentence."""


def run(
    name: str,
    kind: type[S],
    argv: Sequence[str],
    *,
    read: Callable[[S], P],
    serve: Callable[[P, asyncio.Event], Coroutine[Any, Any, None]],
    away: tuple[type[Exception], ...] = (),
) -> int:
    """Run the service `name`, which `python -m NAME` starts; answers the exit code.

    What it and its processes write is its user's alone: a state may hold what others must not see.

    `read` takes what the settings name: files, addresses; what it raises of OSError and ValueError is a bad
    setting. `serve` returns soon after the event is set. `away`, and Unavailable: what says that something
    is not there; their text is one sentence.
    """
    os.umask(0o077)
    gc_tuning.look_seldom()
    prog = f"python -m {name.replace('-', '_')}"
    loaded = settings.load(kind, argv, prog=prog)
    logging.configure(name)
    try:
        parts = read(loaded)
    except (OSError, ValueError) as error:
        why = settings.problem_of(loaded, error)
        sys.stderr.write(f"{prog}: bad settings:\n  {why}\n`{prog} --help` explains each setting.\n")
        return BAD_SETTINGS

    async def serving() -> None:
        await serve(parts, shutdown.on_signal())

    try:
        asyncio.run(serving())
    except Exception as error:  # noqa: BLE001 - the last place before the process ends
        causes = list(_leaves(error))
        if all(isinstance(cause, (*away, Unavailable)) for cause in causes):
            # Whoever waits for the same thing says the same.
            detail = "; ".join(dict.fromkeys(map(str, causes)))
            logging.logger().error("service.stopped", exit_code=UNAVAILABLE, detail=detail)
            return UNAVAILABLE
        logging.logger().exception("service.stopped", exit_code=INTERNAL)
        return INTERNAL
    logging.logger().info("service.stopped", exit_code=DRAINED)
    return DRAINED


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the exceptions of a group and of nested groups."""
    if isinstance(error, BaseExceptionGroup):
        for cause in error.exceptions:
            yield from _leaves(cause)
    else:
        yield error
