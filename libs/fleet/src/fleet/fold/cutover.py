"""Changes that the facts of a cutover make to a dagger (ADR 109), for the rows of `facts`. Pure.

The rules that keep a window from being written twice, or by nobody, stand here, and not with who writes the
facts: whoever leads, and however old its observations, all readers judge the log alike.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from daggers.v1 import events_pb2, gateway_pb2
from google.protobuf.timestamp_pb2 import Timestamp

from fleet.fold.dagger import Dagger
from fleet.fold.fact_changes import Changes, IgnoredFact
from fleet.fold.footprint import Footprint
from fleet.fold.shadow import Shadow

_NOT_ASKED = IgnoredFact("it is not asked to run")
_NO_INSTANT = IgnoredFact("it names no instant")


def begin_shadow(dagger: Dagger, fact: events_pb2.ShadowIntended, time: datetime) -> Changes:
    """Begin a shadow; the fold sets its generation, which is the fact's sequence."""
    if dagger.desired != gateway_pb2.DESIRED_RUNNING:
        return _NOT_ASKED
    if fact.version != dagger.version or dagger.current:
        return IgnoredFact(f"it is at version {dagger.version}, and runs {dagger.observed_version}")
    if dagger.shadowed == dagger.version:
        return IgnoredFact(f"version {dagger.version} had a shadow")
    if dagger.shadow is not None:
        return IgnoredFact("another shadow is not proven dead")
    shadow = Shadow(
        generation=0,
        version=fact.version,
        time=time,
        epoch=fact.meta.epoch,
        footprint=Footprint.of(dagger.spec),
    )
    return {"shadow": shadow, "shadowed": fact.version}


def record_driver(dagger: Dagger, fact: events_pb2.ShadowLaunched, _: datetime) -> Changes:
    """Record the driver of the shadow."""
    return {"shadow": replace(_shadow(dagger), driver=fact.driver, epoch=fact.meta.epoch)}


def end_shadow(_: Dagger, __: events_pb2.ShadowEnded, ___: datetime) -> Changes:
    """Remove the shadow, which is proven dead: another launch may follow."""
    return {"shadow": None}


def set_boundary(dagger: Dagger, fact: events_pb2.CutoverDecided, _: datetime) -> Changes:
    """Set the boundary at which the driver that runs ends."""
    shadow = _shadow(dagger)
    if why := _refuse_cutover(dagger, shadow):
        return why
    if shadow.boundary is not None:
        return IgnoredFact("a boundary is decided")
    boundary = _instant(fact, "boundary")
    return _NO_INSTANT if boundary is None else {"shadow": replace(shadow, boundary=boundary)}


def hand_over(dagger: Dagger, fact: events_pb2.CutoverHanded, _: datetime) -> Changes:
    """Make the shadow the newest launch. The fact's row requires that no driver runs beside it."""
    shadow = _shadow(dagger)
    if why := _refuse_cutover(dagger, shadow):
        return why
    if shadow.boundary is None:
        return IgnoredFact("no boundary is decided")
    written, closed = _instant(fact, "written"), _instant(fact, "closed")
    if written is None or (closed is None and fact.HasField("closed")):
        return _NO_INSTANT
    if closed is not None and closed > written:
        return IgnoredFact("its shadow has let go of windows that nobody has written")
    return {
        "generation": shadow.generation,
        "observed_generation": shadow.generation,
        "observed_version": shadow.version,
        "driver": shadow.driver,
        "host": shadow.driver.host if shadow.driver else "",
        "epoch": shadow.epoch,
        "footprint": shadow.footprint,
        "stop_issued": events_pb2.STOP_MODE_UNSPECIFIED,
        "ran": False,
        "references": (),
        "confirmed_dead": False,
        "shadow": None,
        "handed": written,
        "observed_query": dagger.query,
    }


def _refuse_cutover(dagger: Dagger, shadow: Shadow) -> IgnoredFact | None:
    """Return why a shadow is not to replace the driver; None where it may."""
    if dagger.desired != gateway_pb2.DESIRED_RUNNING:
        return _NOT_ASKED
    if shadow.version != dagger.version:
        return IgnoredFact(f"it is at version {dagger.version}, not {shadow.version}")
    return IgnoredFact("its shadow is not launched") if shadow.driver is None else None


def _shadow(dagger: Dagger) -> Shadow:
    """Return the shadow that a fact is about: its row requires that there is one."""
    assert dagger.shadow is not None
    return dagger.shadow


def _instant(fact: events_pb2.CutoverDecided | events_pb2.CutoverHanded, name: str) -> datetime | None:
    """Return the instant in a field; None where it has none, or none that datetime can express."""
    stamp: Timestamp = getattr(fact, name)
    try:
        return stamp.ToDatetime(UTC) if fact.HasField(name) else None  # type: ignore[arg-type] # a field of either
    except (ValueError, OverflowError):
        return None
