"""A replay with real processes, for tests."""

from __future__ import annotations

from daggers.v1 import events_pb2
from services.scheduler.tests.scheduler_world import META

from fleet import Dagger
from fleet.fold.replay import Replay


def asked(verb: str, *, computes: bool = False) -> events_pb2.QuarantineReplayRequested:
    selection = events_pb2.QuarantineSelection(reasons=[verb])
    return events_pb2.QuarantineReplayRequested(
        meta=META, name="d", replay_id=f"to-{verb}", selection=selection, up_to={0: 7}, computes=computes
    )


def runs(dagger: Dagger) -> bool:
    return dagger.replay is not None and dagger.replay.process is not None and bool(dagger.replay.process.pid)


def finished(dagger: Dagger) -> bool:
    return dagger.replay is not None and dagger.replay.finished is not None


def replay(dagger: Dagger) -> Replay:
    assert dagger.replay is not None
    return dagger.replay


def waits(dagger: Dagger) -> bool:
    return dagger.replay is not None and dagger.replay.waits is not None
