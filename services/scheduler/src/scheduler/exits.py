"""How a driver ended: its exit code and what it left in exit.json, as a fact. Pure."""

from __future__ import annotations

import signal
from typing import Final

from daggers.v1 import events_pb2
from google.protobuf.json_format import Parse, ParseError

USER: Final = 64
EXTERNAL: Final = 69
INTERNAL: Final = 70
FENCED: Final = 75

_EXTERNAL = events_pb2.ERROR_DOMAIN_EXTERNAL
_INTERNAL = events_pb2.ERROR_DOMAIN_INTERNAL

_BY_CODE: Final = {
    USER: events_pb2.DaggerError(
        domain=events_pb2.ERROR_DOMAIN_USER,
        reason="USER_ERROR",
        detail="the dagger cannot run as it is written; its log says why",
    ),
    EXTERNAL: events_pb2.DaggerError(
        domain=_EXTERNAL,
        reason="EXTERNAL_ERROR",
        detail="Kafka, Spark or a sink failed; its log says how",
        retryable=True,
    ),
    INTERNAL: events_pb2.DaggerError(
        domain=_INTERNAL,
        reason="INTERNAL_ERROR",
        detail="its driver failed; its log says how",
        retryable=True,
    ),
    FENCED: events_pb2.DaggerError(
        domain=_INTERNAL,
        reason="FENCED",
        detail="a newer generation holds its lease",
        retryable=True,
    ),
}


def exited(code: int | None, left: str | None) -> events_pb2.Exited:
    """The fact for an exit code (-N: killed by signal N; None: it left none) and the text of exit.json."""
    fact = events_pb2.Exited(error=_left(left) or _guessed(code))
    if code is not None:
        fact.code = code
    if code == 0:
        fact.ClearField("error")
    return fact


def _left(text: str | None) -> events_pb2.DaggerError | None:
    if text is None:
        return None
    error = events_pb2.DaggerError()
    try:
        Parse(text, error, ignore_unknown_fields=True)
    except ParseError:  # it died while it wrote: the exit code must do
        return None
    return error if error.reason else None


def _guessed(code: int | None) -> events_pb2.DaggerError:
    if code is None:
        return events_pb2.DaggerError(
            domain=_EXTERNAL,
            reason="DRIVER_LOST",
            detail="every process of its driver is gone and none left an exit code",
            retryable=True,
        )
    known = _BY_CODE.get(code)
    if known is not None:
        return known
    number = -code if code < 0 else code - 128
    if number in set(signal.Signals):
        name = signal.Signals(number).name
        hint = "; often the host was out of memory" if number == signal.SIGKILL else ""
        return events_pb2.DaggerError(
            domain=_EXTERNAL, reason="KILLED", detail=f"its driver was killed by {name}{hint}", retryable=True
        )
    return events_pb2.DaggerError(
        domain=_INTERNAL,
        reason="DRIVER_FAILED",
        detail=f"its driver ended with exit code {code}; its log says how",
        retryable=True,
    )
