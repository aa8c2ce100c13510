"""What the facts of a cutover change of a dagger (ADR 109): what their rows in `facts` refer to. Pure.

What keeps a window from being written twice, or by nobody, stands here, and not with who writes the facts:
whoever leads, and however old what it has heard, the log is judged alike by all who read it.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from daggers.v1 import events_pb2, gateway_pb2
from google.protobuf.timestamp_pb2 import Timestamp

from fleet.fold.dagger import Dagger
from fleet.fold.fact_changes import Changes, Ignored
from fleet.fold.shadow import Shadow

_NOT_ASKED = Ignored("it is not asked to run")
_NO_INSTANT = Ignored("it names no instant")


def intended(dagger: Dagger, fact: events_pb2.ShadowIntended, time: datetime) -> Changes:
    """A shadow begins; its generation is filled in by who knows the sequence."""
    if dagger.desired != gateway_pb2.DESIRED_RUNNING:
        return _NOT_ASKED
    if fact.version != dagger.version or dagger.current:
        return Ignored(f"it is at version {dagger.version}, and runs {dagger.observed_version}")
    if dagger.shadowed == dagger.version:
        return Ignored(f"version {dagger.version} had a shadow")
    if dagger.shadow is not None:
        return Ignored("another shadow is not proven dead")
    shadow = Shadow(generation=0, version=fact.version, time=time, epoch=fact.meta.epoch)
    return {"shadow": shadow, "shadowed": fact.version}


def launched(dagger: Dagger, fact: events_pb2.ShadowLaunched, _: datetime) -> Changes:
    """Where it runs."""
    return {"shadow": replace(_shadow(dagger), driver=fact.driver, epoch=fact.meta.epoch)}


def ended(_: Dagger, __: events_pb2.ShadowEnded, ___: datetime) -> Changes:
    """It is proven dead: what is asked may be launched."""
    return {"shadow": None}


def decided(dagger: Dagger, fact: events_pb2.CutoverDecided, _: datetime) -> Changes:
    """The driver that runs ends at the boundary."""
    shadow = _shadow(dagger)
    if why := _unwanted(dagger, shadow):
        return why
    if shadow.boundary is not None:
        return Ignored("a boundary is decided")
    boundary = _instant(fact, "boundary")
    return _NO_INSTANT if boundary is None else {"shadow": replace(shadow, boundary=boundary)}


def handed(dagger: Dagger, fact: events_pb2.CutoverHanded, _: datetime) -> Changes:
    """The shadow becomes the newest launch. That no driver runs beside it says its row."""
    shadow = _shadow(dagger)
    if why := _unwanted(dagger, shadow):
        return why
    if shadow.boundary is None:
        return Ignored("no boundary is decided")
    written, closed = _instant(fact, "written"), _instant(fact, "closed")
    if written is None or (closed is None and fact.HasField("closed")):
        return _NO_INSTANT
    if closed is not None and closed > written:
        return Ignored("its shadow has let go of windows that nobody has written")
    return {
        "generation": shadow.generation,
        "observed_generation": shadow.generation,
        "observed_version": shadow.version,
        "driver": shadow.driver,
        "host": shadow.driver.host if shadow.driver else "",
        "epoch": shadow.epoch,
        "stop_issued": events_pb2.STOP_MODE_UNSPECIFIED,
        "ran": False,
        "references": (),
        "confirmed_dead": False,
        "shadow": None,
        "handed": written,
        "observed_query": dagger.query,
    }


def _unwanted(dagger: Dagger, shadow: Shadow) -> Ignored | None:
    """Why a shadow is not to go on in place of the driver."""
    if dagger.desired != gateway_pb2.DESIRED_RUNNING:
        return _NOT_ASKED
    if shadow.version != dagger.version:
        return Ignored(f"it is at version {dagger.version}, not {shadow.version}")
    return Ignored("its shadow is not launched") if shadow.driver is None else None


def _shadow(dagger: Dagger) -> Shadow:
    """The shadow that a fact speaks of: its row says that there is one."""
    assert dagger.shadow is not None
    return dagger.shadow


def _instant(fact: events_pb2.CutoverDecided | events_pb2.CutoverHanded, name: str) -> datetime | None:
    """What a field says; None where it says nothing, or no instant."""
    told: Timestamp = getattr(fact, name)
    try:
        return told.ToDatetime(UTC) if fact.HasField(name) else None  # type: ignore[arg-type] # a field of either
    except (ValueError, OverflowError):
        return None
