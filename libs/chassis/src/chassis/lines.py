"""The lines of a driver's log. Its JVM and its Python half write them in one layout:

    2026-01-31T12:00:00.123Z WARN logger: message key=value

The JVM's pattern is `scheduler/log4j2.properties`. What has no stamp belongs to the line before it.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any, Final

import structlog

_STAMP: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z ")
_PLAIN: Final = re.compile(r"[^\s\"'=\[\]{}]+")
_LEVELS: Final = {"warning": "WARN", "critical": "FATAL"}
_BELOW: Final = ("exception", "stack")


def stamp(time: datetime) -> str:
    """Format an instant (aware) for a line: texts have the order of the instants."""
    return f"{time.astimezone(UTC):%Y-%m-%dT%H:%M:%S}.{time.microsecond // 1000:03}Z"


def stamp_of(line: str) -> str:
    """Return the stamp at the begin of a line; empty without one."""
    match = _STAMP.match(line)
    return match[0].rstrip() if match else ""


def line(time: datetime, level: str, logger: str, message: str) -> str:
    """Format a line of the log, without its end."""
    return f"{stamp(time)} {level} {logger}: {message}"


def render(_: Any, __: str, event: structlog.typing.EventDict) -> str:
    """Format an event as a line, with a stack trace below; the last of structlog's processors."""
    del event["timestamp"]  # in microseconds
    level, service = str(event.pop("level")), event.pop("service")
    logger = event.pop("logger", service)
    below = [str(event.pop(name)) for name in _BELOW if name in event]
    message = [str(event.pop("event")), *(f"{name}={_value(value)}" for name, value in event.items())]
    first = line(datetime.now(UTC), _LEVELS.get(level, level.upper()), logger, " ".join(message))
    return "\n".join([first, *below])


def _value(value: Any) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
