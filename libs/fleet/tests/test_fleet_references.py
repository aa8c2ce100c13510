"""Reference tables: registered, named by a query, told of by the driver that uses them."""

from datetime import timedelta
from typing import Any

import pytest
from daggers.v1 import events_pb2, spec_pb2
from google.protobuf.message import Message

from eventlog.testing import START, given
from fleet import Code, Fleet
from fleet.decide.observation import Heartbeat, Observation, Policy, Presence
from fleet.decide.reconcile import next_action
from fleet.fold import resolve
from fleet.fold.view import to_proto

META = events_pb2.RequestMeta(actor="ada")
OWNERS = spec_pb2.ReferenceTable(
    name="api-owners", format=spec_pb2.ReferenceTable.FORMAT_JSON, location="/srv/owners.json"
)
VIPS = spec_pb2.ReferenceTable(
    name="vip", format=spec_pb2.ReferenceTable.FORMAT_CSV, location="https://data.example/vip.csv"
)
LOCAL = spec_pb2.Cluster(name="local", spark_master="local[2]")
SPEC = spec_pb2.DaggerSpec(cluster="local", sql="SELECT DartGet('api-owners', api_name, 1) AS owner FROM vip")
FACT = events_pb2.FactMeta(name="d", generation=2, epoch=0)
UP = (
    events_pb2.SchedulerStarted(scheduler_id="s", host="here"),
    events_pb2.DaggerRequested(meta=META, name="d", spec=SPEC),
    events_pb2.LaunchIntended(meta=events_pb2.FactMeta(name="d"), version=1),
    events_pb2.Launched(meta=FACT, driver=events_pb2.DriverHandle(host="here", pid=7)),
    events_pb2.Running(meta=FACT),
)
NOW = START + timedelta(minutes=1)


def registered(table: spec_pb2.ReferenceTable, **meta: Any) -> events_pb2.ReferenceRegistered:
    return events_pb2.ReferenceRegistered(meta=events_pb2.RequestMeta(actor="ada", **meta), reference=table)


def folded(*messages: Message) -> Fleet:
    fleet = Fleet()
    for each in given(*messages):
        assert fleet.apply(each).refused == ""
    return fleet


def action(*messages: Message, **heard: Any) -> Any:
    heartbeat = Heartbeat(state=Heartbeat.STATE_RUNNING, **heard)
    observation = Observation(presence=Presence.ALIVE, quiet_since=NOW, heartbeat=heartbeat)
    return next_action(
        folded(*messages).daggers["d"], now=NOW, epoch=0, observation=observation, policy=Policy()
    )


def test_a_table_is_registered_whole_and_counts_its_registrations() -> None:
    moved = spec_pb2.ReferenceTable(name="api-owners", location="/srv/new.json")
    fleet = folded(registered(OWNERS), registered(VIPS), registered(moved, expected_version=1))

    assert {name: entry.version for name, entry in fleet.references.items()} == {"api-owners": 2, "vip": 1}
    assert fleet.references["api-owners"].value == moved


def test_a_registration_that_expects_another_version_is_refused() -> None:
    fleet = folded(registered(OWNERS))
    *_, last = given(registered(OWNERS), registered(OWNERS, expected_version=0))
    answer = fleet.apply(last).answer

    assert answer is not None
    assert answer.refusal is not None
    assert answer.refusal.code is Code.ALREADY_EXISTS


def test_a_launch_gets_the_tables_that_its_query_names_as_text() -> None:
    cluster = events_pb2.ClusterRegistered(cluster=LOCAL)
    fleet = folded(registered(OWNERS), registered(VIPS), *UP[:2], cluster)
    job = resolve.job(
        fleet, fleet.daggers["d"], 2, platform=spec_pb2.KafkaAddress(), checkpoint_root="c", run_dir="r"
    )

    assert list(job.references) == [OWNERS]


def test_the_versions_that_a_driver_tells_of_are_written_once_and_shown() -> None:
    loaded = events_pb2.ReferencesLoaded(meta=FACT, versions={"api-owners": "abc"})
    fleet = folded(*UP, loaded)

    assert action(*UP, references={"api-owners": "abc"}) == events_pb2.ReferencesLoaded(
        versions={"api-owners": "abc"}
    )
    assert action(*UP, loaded, references={"api-owners": "abc"}) is None
    assert action(*UP) is None
    assert to_proto(fleet.daggers["d"], fleet).reference_versions == {"api-owners": "abc"}


def test_a_new_launch_has_told_of_no_versions_yet() -> None:
    loaded = events_pb2.ReferencesLoaded(meta=FACT, versions={"api-owners": "abc"})
    again = events_pb2.LaunchIntended(meta=events_pb2.FactMeta(name="d"), version=1)
    fleet = folded(*UP, loaded, events_pb2.Exited(meta=FACT), again)

    assert fleet.daggers["d"].references == ()


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("REFERENCE_STALE api-owners: it cannot be read", "REFERENCE_STALE"),
        ("QUARANTINE_FLOOD: the last batch quarantined 2000 records", "QUARANTINE_FLOOD"),
    ],
)
def test_a_driver_that_says_itself_what_is_wrong_is_degraded(said: str, reason: str) -> None:
    assert action(*UP, warnings=[said]) == events_pb2.Degraded(reasons=[reason])
