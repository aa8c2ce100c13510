"""Check what calls say of quarantined records. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from daggers.v1 import events_pb2, gateway_pb2

from daggerspec.violation import Violation

MAX_CHOICES: Final = 500
MAX_CHARS: Final = 256
STAGES: Final = ("decode", "event_time", "sink")


def selection_violations(path: str, chosen: events_pb2.QuarantineSelection) -> Iterator[Violation]:
    """Yield what is wrong with a selection of records."""
    for name in ("ids", "reasons", "sinks"):
        values = getattr(chosen, name)
        if len(values) > MAX_CHOICES:
            text = f"has {len(values)} values; at most {MAX_CHOICES} are taken"
            limits = {"size": str(len(values)), "limit": str(MAX_CHOICES)}
            yield Violation(f"{path}.{name}", text, "TOO_LARGE", metadata=limits)
        for number, value in enumerate(values):
            if not value or len(value) > MAX_CHARS:
                text = f"must have 1 to {MAX_CHARS} characters"
                yield Violation(f"{path}.{name}[{number}]", text, "OUT_OF_RANGE")
    if chosen.stage and chosen.stage not in STAGES:
        text = f"is no stage: {', '.join(STAGES)} are"
        yield Violation(f"{path}.stage", text, "UNKNOWN_STAGE", metadata={"stage": chosen.stage[:MAX_CHARS]})
    # an unset instant reads as 1970, which is valid
    for name, instant in (("since", chosen.since), ("until", chosen.until)):
        if not _is_instant(instant.seconds):
            yield Violation(f"{path}.{name}", "must be from 0001 to 9999", "OUT_OF_RANGE")
    if chosen.HasField("since") and chosen.HasField("until") and chosen.until.seconds < chosen.since.seconds:
        yield Violation(f"{path}.until", "must not be before since", "OUT_OF_RANGE")


def state_violations(path: str, request: gateway_pb2.ListQuarantinedRequest) -> Iterator[Violation]:
    """Yield what is wrong with the states of a list request."""
    for number, state in enumerate(request.states):
        if not state or state not in gateway_pb2.QuarantineState.values():
            yield Violation(f"{path}[{number}]", f"{state} is not a state", "UNKNOWN_ENUM_VALUE")


def _is_instant(seconds: int) -> bool:
    return -62_135_596_800 <= seconds < 253_402_300_800
