"""Decides about a shadow, and about the driver beside it (ADR 109): a part of `reconcile`. Pure.

What keeps windows from being written twice stands in `fleet.fold.cutover`; here stands what makes it come to
an end: whoever waits for a step waits for so long, and then the edit is one as ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

from daggers.v1 import events_pb2, gateway_pb2
from google.protobuf.timestamp_pb2 import Timestamp

from daggerspec import cutover, rundir
from fleet.decide.observation import Observation, Policy, Presence
from fleet.fold.dagger import Dagger
from fleet.fold.phases import DEGRADED, RUNNING, STOPPING
from fleet.fold.shadow import Shadow

GIVEN_UP: Final = "CUTOVER_GIVEN_UP"
LEFT: Final = "SHADOW_LEFT"
NOT_LAUNCHED: Final = "SHADOW_NOT_LAUNCHED"


@dataclass(frozen=True, slots=True)
class LaunchShadow:
    """Launch the newest version beside the driver, by the launch protocol."""


@dataclass(frozen=True, slots=True)
class EndShadow:
    """Kill every process of the shadow: it has nothing to lose."""


Fact: TypeAlias = (
    events_pb2.ShadowLaunched | events_pb2.ShadowEnded | events_pb2.CutoverDecided | events_pb2.CutoverHanded
)
Step: TypeAlias = Fact | EndShadow


def may_begin(dagger: Dagger, observation: Observation) -> bool:
    """Tell whether an edit of a dagger is made by a cutover, on the host of its driver."""
    return (
        observation.cutover
        and observation.has_turn
        and dagger.phase == RUNNING
        and dagger.desired == gateway_pb2.DESIRED_RUNNING
        and not dagger.current
        and dagger.shadow is None
        and dagger.shadowed != dagger.version
        and not dagger.from_start
        and not cutover.why_not(dagger.observed_query, dagger.query)
    )


def next_step(
    dagger: Dagger, shadow: Shadow, *, now: datetime, epoch: int, observation: Observation, policy: Policy
) -> Step | None:
    """Return what the scheduler of `epoch` does next about the shadow of a dagger; None: nothing, or wait."""
    observed = observation.shadow
    if observed is None:
        return None
    if shadow.driver is None:  # an intent that nobody answered is never submitted
        if observed.driver is not None:
            return events_pb2.ShadowLaunched(driver=observed.driver, adopted=True)
        return _build_failure(NOT_LAUNCHED, "its scheduler ended before it was launched")
    if observed.presence is Presence.REMOTE:
        return _build_failure(LEFT, f"it was launched on {shadow.driver.host or '?'}, where nobody leads now")
    state = observed.state
    final = state is not None and state.final
    end_reason = None if final and is_wanted(dagger, shadow) else _end_reason(dagger, shadow, now, policy)
    if observed.presence is Presence.GONE:
        return _build_exit(observed.exit, end_reason)
    if shadow.epoch != epoch:
        return events_pb2.ShadowLaunched(driver=shadow.driver, adopted=True)
    if end_reason is not None:
        return EndShadow()
    if state is None:
        return None
    if shadow.boundary is None:
        runs = dagger.phase in (RUNNING, DEGRADED)
        return (
            events_pb2.CutoverDecided(boundary=_instant(state.next_end)) if state.caught_up and runs else None
        )
    if dagger.driver is not None or not state.final:
        return None
    handed = events_pb2.CutoverHanded(written=_instant(state.written))
    if state.closed:
        handed.closed.CopyFrom(_instant(state.closed))
    return handed


def holds_back(dagger: Dagger, now: datetime, policy: Policy) -> bool:
    """Tell whether the driver beside a shadow is left to itself: it runs on, or comes to the boundary."""
    shadow = dagger.shadow
    if shadow is None or _end_reason(dagger, shadow, now, policy) is not None:
        return False
    return dagger.phase != STOPPING or now - dagger.phase_time < policy.grace


def cutover_files(dagger: Dagger) -> Iterator[tuple[events_pb2.DriverHandle, str, str]]:
    """Yield the files that tell drivers about a cutover: handle of the driver, name in its run directory,
    text.
    """
    shadow, driver = dagger.shadow, dagger.driver
    if driver is not None and dagger.handed is not None:
        yield driver, rundir.HANDED, _text(dagger.handed)
    if shadow is None or shadow.boundary is None:
        return
    if driver is not None:
        yield driver, rundir.BOUNDARY, _text(shadow.boundary)
    elif shadow.driver is not None:
        yield shadow.driver, rundir.PREDECESSOR_ENDED, ""


def is_wanted(dagger: Dagger, shadow: Shadow) -> bool:
    """Tell whether a shadow runs the version that is to run."""
    return dagger.desired == gateway_pb2.DESIRED_RUNNING and dagger.version == shadow.version


def _end_reason(dagger: Dagger, shadow: Shadow, now: datetime, policy: Policy) -> str | None:
    """Return why a shadow is to end, empty where something else is desired; None where it is to go on."""
    if not is_wanted(dagger, shadow):
        return ""
    if shadow.boundary is None:
        if dagger.driver is None or dagger.phase == STOPPING:
            return "its driver ended before a boundary was decided"
        if now - shadow.time >= policy.catch_up:
            return f"it had not read as far as its driver after {_format_seconds(policy.catch_up)}"
    elif dagger.driver is None and dagger.last_exit is not None:
        ended = dagger.last_exit.time.ToDatetime(UTC)
        if now - ended >= policy.handover:
            return (
                f"it had not said what there is to write {_format_seconds(policy.handover)} after its"
                " driver's end"
            )
    return None


def _build_exit(left: events_pb2.Exited | None, end_reason: str | None) -> events_pb2.ShadowEnded:
    """Build the end of a shadow whose processes are gone: killed by the scheduler, or as the shadow
    left it.
    """
    ended = events_pb2.ShadowEnded()
    if left is not None and left.HasField("code"):
        ended.code = left.code
    if end_reason:
        ended.error.CopyFrom(_error(GIVEN_UP, end_reason))
    elif end_reason is None and left is not None and left.HasField("error"):
        ended.error.CopyFrom(left.error)
    return ended


def _build_failure(reason: str, detail: str) -> events_pb2.ShadowEnded:
    return events_pb2.ShadowEnded(error=_error(reason, detail))


def _error(reason: str, detail: str) -> events_pb2.DaggerError:
    return events_pb2.DaggerError(
        domain=events_pb2.ERROR_DOMAIN_INTERNAL, reason=reason, detail=detail, retryable=True
    )


def _instant(us: int) -> Timestamp:
    """Return the instant of microseconds since 1970."""
    instant = Timestamp()
    instant.FromMicroseconds(us)
    return instant


def _text(instant: datetime) -> str:
    """Return an instant as microseconds since 1970, with a newline."""
    stamp = Timestamp()
    stamp.FromDatetime(instant)
    return f"{stamp.ToMicroseconds()}\n"


def _format_seconds(time: timedelta) -> str:
    return f"{time.total_seconds():.0f} s"
