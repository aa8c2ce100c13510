"""Classifies the end of a driver, by its exit code and the text of exit.json, as a fact. Pure."""

from __future__ import annotations

import signal
from typing import Final

from daggers.v1 import events_pb2
from google.protobuf.json_format import Parse, ParseError

from daggerspec import exits
from daggerspec.exits import HEAP_FULL, KILLED, LOST, MEANINGS, PROCESS_LOST, heap_full

# The Python half sees its JVM die, and not of what.
_JVM_GONE: Final = "JVM_GONE"

_EXTERNAL = events_pb2.ERROR_DOMAIN_EXTERNAL
_INTERNAL = events_pb2.ERROR_DOMAIN_INTERNAL


def classify_exit(
    code: int | None, left: str | None, *, heap_mib: int = 0, killed_for_memory: bool = False
) -> events_pb2.Exited:
    """Build the fact for an exit code (-N: killed by signal N; None: it left none) and the text of exit.json.

    heap_mib: the driver's heap; 0 when it is not known. killed_for_memory: by the kernel's own count.
    """
    error = _parse_error(left)
    if killed_for_memory and (error is None or error.reason == _JVM_GONE):
        error = exits.killed_for_memory()
    if code == HEAP_FULL and (error is None or error.reason == _JVM_GONE):
        error = heap_full(heap_mib)
    fact = events_pb2.Exited(error=error or _guess_error(code))
    if code is not None:
        fact.code = code
    if code == 0:
        fact.ClearField("error")
    return fact


def classify_loss(own: events_pb2.Exited, company: int, step: str | None) -> events_pb2.Exited:
    """Build the fact for a launch that died with the process that it shared with `company` others.

    own: fact as if it had had the process alone. step: what the launch was computing then; None: nothing.
    """
    fact = events_pb2.Exited()
    fact.CopyFrom(own)
    others = {0: "others", 1: "another dagger"}.get(company, f"{company} others")
    if step is None:
        detail = f"the process that it shared with {others} ended: {fact.error.detail}"
        fact.error.CopyFrom(
            events_pb2.DaggerError(domain=_EXTERNAL, reason=PROCESS_LOST, detail=detail, retryable=True)
        )
    else:
        fact.suspect = True
        fact.error.detail += f"; it shared its process with {others}, and was at this step then: {step}"
        fact.error.retryable = True
    return fact


def _parse_error(text: str | None) -> events_pb2.DaggerError | None:
    if text is None:
        return None
    error = events_pb2.DaggerError()
    try:
        Parse(text, error, ignore_unknown_fields=True)
    except ParseError:  # it died while it wrote: the exit code must do
        return None
    return error if error.reason else None


def _guess_error(code: int | None) -> events_pb2.DaggerError:
    if code is None:
        return events_pb2.DaggerError(
            domain=_EXTERNAL,
            reason=LOST,
            detail="every process of its driver is gone and none left an exit code",
            retryable=True,
        )
    error = MEANINGS.get(code)
    if error is not None:
        return error
    number = -code if code < 0 else code - 128
    if number in set(signal.Signals):
        name = signal.Signals(number).name
        hint = (
            "; by whom is unknown: the kernel counts no kill for memory" if number == signal.SIGKILL else ""
        )
        return events_pb2.DaggerError(
            domain=_EXTERNAL, reason=KILLED, detail=f"its driver was killed by {name}{hint}", retryable=True
        )
    return events_pb2.DaggerError(
        domain=_INTERNAL,
        reason="DRIVER_FAILED",
        detail=f"its driver ended with exit code {code}; its log says how",
        retryable=True,
    )
