"""Replays that nobody has to ask for: of what was set aside while a sink did not answer (ADR 158). Pure.

    begun   an outage of which the log does not know   -> SinkSkipped: a replay is outstanding
    due     one that is outstanding, of a sink that takes  -> the request, which settles it

Asked after every record and heartbeat, and after a restart. What is outstanding stands in the fold.
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
"""Who asks."""
PAUSE: Final = timedelta(minutes=1)
"""So long after a replay was asked for none follows: a sink that comes and goes does not fill the log."""
Heartbeat = telemetry_pb2.Heartbeat


def begun(dagger: Dagger, heartbeat: Heartbeat | None) -> events_pb2.SinkSkipped | None:
    """The fact of an outage that the newest launch tells of; None where all are known."""
    if heartbeat is None or not heartbeat.outages or dagger.unanswered:
        return None
    known = {outage.sink: outage for outage in dagger.outages}
    for sink in _asking(dagger.spec):
        told = events_pb2.SinkOutage(
            sink=sink, generation=heartbeat.generation, number=heartbeat.outages.get(sink, 0)
        )
        if told.number and (sink not in known or known[sink].is_before(told)):
            return events_pb2.SinkSkipped(outage=told)
    return None


def due(
    dagger: Dagger, heartbeat: Heartbeat | None, *, now: datetime
) -> events_pb2.QuarantineReplayRequested | None:
    """The request for a replay that is outstanding, without its `up_to`; None: there is none, or wait."""
    if heartbeat is None or dagger.desired == gateway_pb2.DESIRED_DELETED or _rests(dagger, now):
        return None
    asking = set(_asking(dagger.spec)) if any(outage.outstanding for outage in dagger.outages) else set()
    for outage in dagger.outages:
        if outage.outstanding and outage.sink in asking and _is_over(outage, heartbeat):
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


def _rests(dagger: Dagger, now: datetime) -> bool:
    """Whether no replay may be asked for just now."""
    replay = dagger.replay
    return replay is not None and (replay.finished is None or now < replay.time + PAUSE)


def _is_over(outage: Outage, heartbeat: Heartbeat) -> bool:
    """Whether the sink has taken a batch behind it. A heartbeat may come late, and tell of a time before."""
    if outage.sink not in heartbeat.taking:
        return False
    told = heartbeat.generation, heartbeat.outages.get(outage.sink, 0)
    return told >= (outage.generation, outage.number)


def _asking(spec: spec_pb2.DaggerSpec) -> Iterator[str]:
    """The names of the sinks whose rows are to be replayed by themselves."""
    for name, sink in zip(sinks.display_names(spec.sinks), spec.sinks, strict=True):
        if sink.on_outage.auto_replay:
            yield name
