"""Automatic replays of what was set aside while a sink did not answer (ADR 158). Pure.

    find_new_outage  an outage that the log does not know -> SinkSkipped: a replay is outstanding
    next_request     an outstanding one, of a sink that takes rows -> the request, which settles it

Both are called after every record and heartbeat, and after a restart. The fold has what is outstanding.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from daggers.v1 import events_pb2, gateway_pb2, spec_pb2, telemetry_pb2

from daggerspec import sinks
from daggerspec.setaside import AWAY
from fleet.fold.dagger import Dagger
from fleet.fold.replay import Outage

ACTOR: Final = "platform"
"""Principal of these requests."""
PAUSE: Final = timedelta(minutes=1)
"""Least time between two replays of a dagger: a sink that comes and goes does not fill the log."""
Heartbeat = telemetry_pb2.Heartbeat


def find_new_outage(dagger: Dagger, heartbeat: Heartbeat | None) -> events_pb2.SinkSkipped | None:
    """Return the fact of an outage that the newest launch reports; None where the log knows all."""
    if heartbeat is None or not heartbeat.outages or dagger.unanswered:
        return None
    newest = {outage.sink: outage for outage in dagger.outages}
    for sink in _auto_replay_sinks(dagger.spec):
        reported = events_pb2.SinkOutage(
            sink=sink, generation=heartbeat.generation, number=heartbeat.outages.get(sink, 0)
        )
        if reported.number and (sink not in newest or newest[sink].is_before(reported)):
            return events_pb2.SinkSkipped(outage=reported)
    return None


def next_request(
    dagger: Dagger, heartbeat: Heartbeat | None, *, now: datetime
) -> events_pb2.QuarantineReplayRequested | None:
    """Return the request for an outstanding replay, without its `up_to`; None: there is none, or wait."""
    if heartbeat is None or dagger.desired == gateway_pb2.DESIRED_DELETED or _must_wait(dagger, now):
        return None
    replayable = (
        set(_auto_replay_sinks(dagger.spec))
        if any(outage.outstanding for outage in dagger.outages)
        else set()
    )
    for outage in dagger.outages:
        if outage.outstanding and outage.sink in replayable and _is_over(outage, heartbeat):
            # Of one state there is one id, whoever leads: asked twice, it counts once.
            return events_pb2.QuarantineReplayRequested(
                meta=events_pb2.RequestMeta(actor=ACTOR, message=f"sink {outage.sink} takes rows again"),
                name=dagger.name,
                replay_id=f"auto-{dagger.sequence}",
                selection=events_pb2.QuarantineSelection(reasons=[AWAY], sinks=[outage.sink]),
                outage=events_pb2.SinkOutage(
                    sink=outage.sink, generation=outage.generation, number=outage.number
                ),
            )
    return None


def _must_wait(dagger: Dagger, now: datetime) -> bool:
    """Tell whether no replay may be requested just now."""
    replay = dagger.replay
    return replay is not None and (replay.finished is None or now < replay.time + PAUSE)


def _is_over(outage: Outage, heartbeat: Heartbeat) -> bool:
    """Tell whether the sink has taken a batch behind it. A heartbeat may come late, and be older than the
    outage.
    """
    if outage.sink not in heartbeat.taking:
        return False
    reported = heartbeat.generation, heartbeat.outages.get(outage.sink, 0)
    return reported >= (outage.generation, outage.number)


def _auto_replay_sinks(spec: spec_pb2.DaggerSpec) -> Iterator[str]:
    """Yield the names of the sinks whose rows are replayed automatically."""
    for name, sink in zip(sinks.display_names(spec.sinks), spec.sinks, strict=True):
        if sink.on_outage.auto_replay:
            yield name
