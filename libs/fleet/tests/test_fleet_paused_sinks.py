"""A sink is paused until somebody resumes it, over restarts and edits."""

from __future__ import annotations

from daggers.v1 import events_pb2, spec_pb2
from google.protobuf.message import Message

from eventlog.testing import given
from fleet import Fleet

SPEC = spec_pb2.DaggerSpec(sinks=[{"name": "crm", "log": {}}, {"name": "db", "log": {}}])
CREATED = events_pb2.DaggerRequested(name="d", spec=SPEC)


def pause(sink: str, *, paused: bool = True) -> Message:
    return events_pb2.SinkPauseRequested(name="d", sink=sink, paused=paused)


def paused_after(*messages: Message) -> tuple[str, ...]:
    fleet = Fleet()
    for each in given(CREATED, *messages):
        fleet.apply(each)
    return fleet.daggers["d"].paused_sinks


def test_the_newest_word_about_each_sink_counts() -> None:
    restarted = events_pb2.RestartRequested(name="d")
    without = events_pb2.DaggerRequested(name="d", spec=spec_pb2.DaggerSpec(sinks=[{"log": {}}]))

    assert paused_after(pause("db"), pause("crm"), pause("crm")) == ("crm", "db")
    assert paused_after(pause("db"), restarted, pause("db", paused=False)) == ()
    assert paused_after(pause("db"), without) == ("db",)
    assert paused_after(pause("db"), without, pause("db", paused=False)) == ()


def test_a_sink_that_there_is_not_is_not_paused() -> None:
    assert paused_after(pause("other"), pause("other", paused=False)) == ()
