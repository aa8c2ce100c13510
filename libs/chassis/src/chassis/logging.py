"""Structured logs on stderr: pretty on a terminal, one JSON object a line otherwise, and in a driver's log in
the layout that its JVM has, too (`lines.py`).

Each unit of work (a call, a record, a launch) writes one canonical line: `with unit_of_work("call", …)`. What
is known only later is added with `note(dagger=…)`, from anywhere below, and stands in that same line.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from json import JSONEncoder
from typing import Any, TextIO

import structlog
from structlog.tracebacks import ExceptionDictTransformer

from chassis import lines

_notes: ContextVar[dict[str, Any] | None] = ContextVar("notes", default=None)


def configure(
    service: str,
    *,
    level: str = "INFO",
    stream: TextIO | None = None,
    as_driver: bool = False,
    hidden: Callable[[str], str] = str,
) -> None:
    """Send this process's logs, and those of the libraries it uses, to `stream` (stderr).

    `level` is for our own lines; libraries speak from WARNING on. `as_driver`: in the layout of a driver's
    log, whatever the stream is, and of each of its lines what `hidden` makes of it. Call it once, in
    `__main__`.
    """
    out = sys.stderr if stream is None else stream

    def name_service(_: Any, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        return {**event, "service": service}

    shared: list[structlog.typing.Processor] = [
        name_service,
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    encoded = JSONEncoder(ensure_ascii=False, default=str).encode  # `json.dumps` would make one for each line
    rendering: list[structlog.typing.Processor]  # without the frames' local variables: those may be secrets
    if as_driver:

        def hide(_: Any, __: str, event: Any) -> str:
            return hidden(event)

        rendering = [structlog.processors.format_exc_info, lines.render, hide]
    elif out.isatty():
        rendering = [structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
    else:
        rendering = [
            structlog.processors.ExceptionRenderer(ExceptionDictTransformer(show_locals=False)),
            structlog.processors.JSONRenderer(lambda event, **_: encoded(event)),
        ]
    structlog.configure(
        processors=[*shared, *rendering],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level)),
        logger_factory=structlog.WriteLoggerFactory(out),  # past the standard library's: half the cost
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *shared] if as_driver else shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("daggers").setLevel(level)
    # In an outage it says thirty times a second what `eventlog` says once, and once more when it is over.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)


def logger() -> structlog.typing.FilteringBoundLogger:
    """Return the logger of this process. In one that set up none, it writes warnings to stderr: a command
    answers on stdout.
    """
    if not structlog.is_configured():
        bare = structlog.WriteLogger(sys.stderr)
        wrapper = structlog.make_filtering_bound_logger(logging.WARNING)
        unset: structlog.typing.FilteringBoundLogger = structlog.wrap_logger(
            bare,
            processors=[structlog.processors.KeyValueRenderer(key_order=["event"])],
            wrapper_class=wrapper,
        )
        return unset
    log: structlog.typing.FilteringBoundLogger = structlog.get_logger("daggers")
    return log


def note(**fields: Any) -> None:
    """Add fields to the canonical line of the unit of work that is going on; without one, nothing."""
    notes = _notes.get()
    if notes is not None:
        notes.update(fields)


@contextmanager
def unit_of_work(event: str, **fields: Any) -> Iterator[dict[str, Any]]:
    """Write one line when the block ends: `fields`, what was noted inside, and how long it took.

    An exception that leaves the block is named in the line (`error`), and goes on. Gives the block the notes.
    """
    notes, outer = dict(fields), _notes.get()
    _notes.set(notes)
    start = time.perf_counter()
    try:
        yield notes
    except BaseException as error:
        notes.setdefault("error", type(error).__name__)
        raise
    finally:
        _notes.set(outer)  # not by token: a generator may be closed in another context than it began in
        logger().info(event, **notes, duration_ms=round((time.perf_counter() - start) * 1000, 1))
