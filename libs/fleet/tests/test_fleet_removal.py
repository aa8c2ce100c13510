"""What is registered goes when nothing uses it, and its name can be used again."""

from __future__ import annotations

from typing import Any

import pytest
from daggers.v1 import events_pb2, spec_pb2

from daggerspec import defaults, rules, sinks
from daggerspec.catalogue import UnresolvedName
from eventlog.testing import given
from fleet import ApplyResult, Fleet
from fleet.fold.removal import names_of

META = events_pb2.RequestMeta(actor="ada")
CLUSTER = events_pb2.ClusterRegistered(meta=META, cluster={"name": "local"})
STREAM = events_pb2.StreamRegistered(
    meta=META, stream={"name": "orders", "cluster": "local", "message": "shop.Order", "topics": ["orders"]}
)
SCHEMA = events_pb2.SchemaRegistered(meta=META, schema={"messages": ["shop.Order", "shop.Sum"]})
ORDER = events_pb2.SchemaRegistered(meta=META, schema={"messages": ["shop.Order"]})
SECRET = events_pb2.SecretRegistered(meta=META, secret={"name": "token", "team": "shop"})
SINK = events_pb2.SinkRegistered(
    meta=META,
    sink={"name": "crm", "teams": ["shop"], "sink": {"influx": {"address": {"token": {"name": "token"}}}}},
)
TEAM = events_pb2.TeamRegistered(meta=META, team={"name": "shop"})
TABLE = events_pb2.ReferenceRegistered(meta=META, reference={"name": "cities"})
REMOVED = {
    "cluster": events_pb2.ClusterRemoved(meta=META, name="local"),
    "stream": events_pb2.StreamRemoved(meta=META, name="orders"),
    "message": events_pb2.SchemaRemoved(meta=META, name="shop.Order"),
    "reference": events_pb2.ReferenceRemoved(meta=META, name="cities"),
    "secret": events_pb2.SecretRemoved(meta=META, name="token"),
    "sink": events_pb2.SinkRemoved(meta=META, name="crm"),
}
REGISTERED = {
    "cluster": CLUSTER,
    "stream": STREAM,
    "message": ORDER,
    "reference": TABLE,
    "secret": SECRET,
    "sink": SINK,
}


def dagger(name: str = "counts", **spec: Any) -> events_pb2.DaggerRequested:
    return events_pb2.DaggerRequested(meta=META, name=name, spec=spec_pb2.DaggerSpec(**spec))


def kafka(**sink: Any) -> spec_pb2.Sink:
    return spec_pb2.Sink(kafka=spec_pb2.KafkaSink(**sink))


def influx(**address: Any) -> spec_pb2.Sink:
    return spec_pb2.Sink(influx=spec_pb2.InfluxSink(address=spec_pb2.InfluxAddress(**address)))


def registered(name: str, sink: spec_pb2.Sink) -> events_pb2.SinkRegistered:
    return events_pb2.SinkRegistered(meta=META, sink=spec_pb2.RegisteredSink(name=name, sink=sink))


SASL = events_pb2.ClusterRegistered(
    meta=META,
    cluster={"name": "far", "kafka": {"secret_properties": {"sasl.password": {"name": "token"}}}},
)


def folded(*events: Any) -> tuple[Fleet, ApplyResult]:
    """The fold of these events, and what the last one did."""
    fleet = Fleet()
    for record in given(*events):
        applied = fleet.apply(record)
    return fleet, applied


def refused(applied: ApplyResult) -> tuple[str, dict[str, str]]:
    assert applied.answer is not None
    assert applied.answer.refusal is not None
    return applied.answer.refusal.reason, dict(applied.answer.refusal.metadata)


@pytest.mark.parametrize("kind", REMOVED)
def test_what_nothing_uses_goes_and_a_new_one_of_its_name_counts_on(kind: str) -> None:
    register = REGISTERED[kind]
    fleet, gone = folded(register, register, REMOVED[kind])
    left = dict(fleet.catalogue.entries(kind))
    again, registered = folded(register, register, REMOVED[kind], register)

    assert (gone.changed, gone.answer and gone.answer.version) == (True, 2)
    assert REMOVED[kind].name not in left
    assert registered.answer
    assert registered.answer.version == 3
    assert again.catalogue.removed[kind] == {}


@pytest.mark.parametrize("kind", REMOVED)
def test_what_is_removed_does_not_exist_for_who_expects_a_version(kind: str) -> None:
    old, new = type(REGISTERED[kind])(), type(REGISTERED[kind])()
    for register, version in ((old, 1), (new, 0)):
        register.CopyFrom(REGISTERED[kind])
        register.meta.expected_version = version
    _, late = folded(REGISTERED[kind], REMOVED[kind], old)
    _, anew = folded(REGISTERED[kind], REMOVED[kind], new)
    _, twice = folded(REGISTERED[kind], REMOVED[kind], REMOVED[kind])

    assert refused(late)[0] == "NOT_FOUND"
    assert anew.changed
    assert refused(twice) == ("NOT_FOUND", {"kind": kind, "name": REMOVED[kind].name})


@pytest.mark.parametrize("kind", REMOVED)
def test_only_the_version_that_is_meant_is_removed(kind: str) -> None:
    removed = type(REMOVED[kind])(meta=META, name=REMOVED[kind].name)
    removed.meta.expected_version = 1
    _, first = folded(REGISTERED[kind], removed)
    _, later = folded(REGISTERED[kind], REGISTERED[kind], removed)

    assert first.changed
    assert refused(later)[0] == "VERSION_MISMATCH"


@pytest.mark.parametrize(
    ("kind", "user", "users"),
    [
        ("cluster", STREAM, {"streams": "orders"}),
        ("cluster", dagger(cluster="local"), {"daggers": "counts"}),
        ("cluster", dagger(cluster="far", sinks=[kafka(cluster="local")]), {"daggers": "counts"}),
        ("stream", dagger(streams=[{"stream": "other"}, {"stream": "orders"}]), {"daggers": "counts"}),
        ("message", STREAM, {"streams": "orders"}),
        ("message", dagger(sinks=[kafka(topic="t"), kafka(message="shop.Order")]), {"daggers": "counts"}),
        ("reference", dagger(sql="SELECT DartGet('cities', city)"), {"daggers": "counts"}),
        ("cluster", registered("far", kafka(cluster="local")), {"sinks": "far"}),
        ("secret", SINK, {"sinks": "crm"}),
        ("secret", dagger(sinks=[influx(token={"name": "token"})]), {"daggers": "counts"}),
        ("secret", SASL, {"clusters": "far"}),
        ("sink", dagger(sinks=[spec_pb2.Sink(registered="crm")]), {"daggers": "counts"}),
    ],
)
def test_what_is_used_stays_and_its_users_are_named(kind: str, user: Any, users: dict[str, str]) -> None:
    fleet, applied = folded(CLUSTER, SCHEMA, TABLE, STREAM, SECRET, REGISTERED[kind], user, REMOVED[kind])
    streams = {"streams": "orders"} if kind in ("cluster", "message") else {}
    count = len(streams | users)

    assert not applied.changed
    assert refused(applied) == (
        "IN_USE",
        {"kind": kind, "name": REMOVED[kind].name, "count": str(count)} | streams | users,
    )
    assert REMOVED[kind].name in fleet.catalogue.entries(kind)


def test_a_team_that_has_a_secret_or_may_write_to_a_sink_stays() -> None:
    removed = events_pb2.TeamRemoved(meta=META, name="shop")
    _, applied = folded(TEAM, SECRET, SINK, removed)
    about = {"kind": "team", "name": "shop", "count": "2", "secrets": "token", "sinks": "crm"}

    assert refused(applied) == ("IN_USE", about)


def test_a_dagger_that_is_deleted_uses_nothing_and_one_that_is_being_deleted_does() -> None:
    begun = (
        CLUSTER,
        STREAM,
        dagger(cluster="local", streams=[{"stream": "orders"}]),
        events_pb2.SchedulerStarted(scheduler_id="s"),
        events_pb2.DeleteRequested(meta=META, name="counts"),
    )
    gone = events_pb2.Deleted(meta=events_pb2.FactMeta(epoch=3, name="counts"))
    _, while_it_goes = folded(*begun, REMOVED["stream"])
    _, afterwards = folded(*begun, gone, REMOVED["stream"])

    assert refused(while_it_goes)[0] == "IN_USE"
    assert afterwards.changed


def test_many_users_are_counted() -> None:
    daggers = [dagger(f"counts-{number:02}", streams=[{"stream": "orders"}]) for number in range(13)]
    _, applied = folded(STREAM, *daggers, REMOVED["stream"])

    shown = ",".join(f"counts-{number:02}" for number in range(10))

    assert "dagger counts-09 and 3 more: delete" in applied.refused
    assert refused(applied)[1] == {"kind": "stream", "name": "orders", "count": "13", "daggers": shown}


def test_topics_of_a_stream_that_is_registered_anew_have_just_come() -> None:
    fleet, _ = folded(STREAM, REMOVED["stream"], STREAM)
    [*_, last] = given(STREAM, REMOVED["stream"], STREAM)

    assert fleet.joined["orders"] == {"orders": last.time}


def test_the_other_messages_of_a_file_stay() -> None:
    fleet, _ = folded(SCHEMA, REMOVED["message"])

    assert list(fleet.messages) == ["shop.Sum"]


class Removal:
    """A catalogue that knows nothing, and remembers what it was asked for."""

    def __init__(self) -> None:
        self.names: set[tuple[str, str]] = set()

    def cluster(self, name: str) -> None:
        self.names.add(("cluster", name))

    def stream(self, name: str) -> None:
        self.names.add(("stream", name))

    def message(self, name: str) -> Any:
        self.names.add(("message", name))
        raise UnresolvedName("UNKNOWN_MESSAGE", name)

    def sink(self, name: str) -> None:
        self.names.add(("sink", name))

    def secret(self, name: str) -> None:
        self.names.add(("secret", name))


def test_every_name_that_a_launch_looks_up_is_one_that_stays() -> None:
    every = []
    for kind in sinks.names():
        sink = spec_pb2.Sink()
        member = getattr(sink, kind)
        member.SetInParent()
        for field in member.DESCRIPTOR.fields:
            if field.type == field.TYPE_STRING and not field.is_repeated:
                setattr(member, field.name, f"{kind}-{field.name}")
        every.append(sink)
    every.append(kafka(format=spec_pb2.KafkaSink.FORMAT_PROTOBUF, message="shop.Sum", topic="t"))
    every.append(influx(token={"name": "token"}))
    every.append(spec_pb2.Sink(log=spec_pb2.LogSink(), registered="crm"))
    spec = defaults.fill_defaults(
        "counts", dagger(cluster="local", streams=[{"stream": "orders"}], sinks=every).spec
    )
    asked = Removal()
    assert list(rules.unresolved_names("spec", "counts", spec, asked))

    kinds = ("cluster", "stream", "message", "sink", "secret")
    known = {(kind, name) for kind in kinds for name in names_of(spec, kind)}

    assert asked.names <= known
    assert {("message", "shop.Sum"), ("sink", "crm"), ("secret", "token")} <= asked.names


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("cluster", {"cluster": "local"}),
        ("stream", {"streams": [{"stream": "orders"}]}),
        ("message", {"sinks": [kafka(message="shop.Order")]}),
        ("sink", {"sinks": [spec_pb2.Sink(registered="crm")]}),
        ("secret", {"sinks": [influx(token={"name": "token"})]}),
    ],
)
def test_a_request_that_was_judged_before_a_removal_is_refused_behind_it(
    kind: str, spec: dict[str, Any]
) -> None:
    asked = dagger(**spec)
    judged = events_pb2.DaggerRequested(meta=META, name="counts", spec=asked.spec, all_registered=True)
    history = (REGISTERED[kind], REMOVED[kind])
    name = REMOVED[kind].name

    after, late = folded(*history, judged)
    _, old = folded(*history, asked)
    _, there = folded(REGISTERED[kind], judged)

    assert refused(late) == (f"UNKNOWN_{kind.upper()}", {"kind": kind, "name": name})
    assert after.living("counts") is None
    assert (old.changed, there.changed) == (True, True)


def test_an_edit_of_a_dagger_is_not_held_up_by_a_name_it_has_no_more() -> None:
    first = dagger(streams=[{"stream": "orders"}])
    edit = events_pb2.DaggerRequested(meta=META, name="counts", spec={"sql": "x"}, all_registered=True)
    _, edited = folded(first, edit)

    assert edited.changed
