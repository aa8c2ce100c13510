"""Helpers of test_fleet_properties.py and of its neighbours."""

from typing import Any

from daggers.v1 import events_pb2
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import strategies as st

from eventlog import Record
from eventlog.testing import record
from fleet import Fleet
from fleet.fold import tenancy
from fleet.fold.catalogue import REMOVALS

REQUESTS = (
    events_pb2.DaggerRequested,
    events_pb2.StartRequested,
    events_pb2.StopRequested,
    events_pb2.RestartRequested,
    events_pb2.DeleteRequested,
    events_pb2.DeathConfirmed,
    events_pb2.QuarantineReplayRequested,
    events_pb2.QuarantineDiscardRequested,
    events_pb2.AllowRefusalsRequested,
    events_pb2.SinkPauseRequested,
)
CATALOGUE = (
    events_pb2.ClusterRegistered,
    events_pb2.StreamRegistered,
    events_pb2.SchemaRegistered,
    events_pb2.ReferenceRegistered,
    events_pb2.SecretRegistered,
    events_pb2.SinkRegistered,
    *REMOVALS,
    *tenancy.CHANGES,
)
FACTS = tuple(
    GetMessageClass(kind)
    for kind in events_pb2.DESCRIPTOR.message_types_by_name.values()
    if "meta" in kind.fields_by_name and kind.fields_by_name["meta"].message_type.name == "FactMeta"
)
SHADOWS = (
    events_pb2.ShadowLaunched,
    events_pb2.ShadowEnded,
    events_pb2.CutoverDecided,
    events_pb2.CutoverHanded,
)
REPLAYS = (
    events_pb2.ReplayStarted,
    events_pb2.ReplayWaits,
    events_pb2.ReplayExited,
    events_pb2.ReplayFinished,
)
OBJECTS = {
    "cluster": "local",
    "message": "shop.{}",
    "stream": "{}-stream",
    "reference": "{}-table",
    "secret": "{}-secret",
    "sink": "{}-sink",
    "team": "{}-team",
    "account": "{}-bot",
    "grant": "{}-stream",
    "destination": "influx://db/b/{}",
}
# (kind, dagger, what to get wrong): three in four are right about epoch, generation and version.
Step = tuple[type[Message], str, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from([*REQUESTS, *CATALOGUE, *FACTS * 3, events_pb2.SchedulerStarted]),
        st.sampled_from(["d", "e"]),
        st.integers(0, 11),
    ),
    max_size=60,
)


def history(steps: list[Step]) -> list[Record]:
    """The records of a log in which people and schedulers wrote these steps, knowing what they then knew."""
    fleet, records = Fleet(), [record(events_pb2.SchedulerStarted(scheduler_id="s"), sequence=0)]
    fleet.apply(records[0])
    for sequence, (kind, name, wrong) in enumerate(steps, start=1):
        records.append(record(_message(fleet, kind, name, wrong), sequence=sequence))
        fleet.apply(records[-1])
    return records


def _message(fleet: Fleet, kind: Any, name: str, wrong: int) -> Message:
    if kind is events_pb2.SchedulerStarted:
        return events_pb2.SchedulerStarted(scheduler_id=name)
    if kind in CATALOGUE:
        return _of_catalogue(fleet, kind, name, wrong)
    dagger = fleet.daggers.get(name)
    if kind in REQUESTS:
        replay = {"replay_id": f"replay-{wrong}"} if kind is events_pb2.QuarantineReplayRequested else {}
        message = kind(name=name, **replay)
        if replay and wrong % 2:
            message.outage.CopyFrom(_outage(dagger, wrong))
        if wrong == 0:
            message.meta.expected_version = dagger.version + 1 if dagger else 1
        if kind is events_pb2.DaggerRequested:
            _specify(message.spec, name, wrong)
            message.destinations.extend(
                [f"influx://db/b/{name}", "influx://db/b/*", "no destination"][: wrong % 4]
            )
        if kind is events_pb2.DeathConfirmed and dagger:
            message.generation = dagger.generation
        return message
    return _fact(fleet, kind(), name, wrong)


def _fact(fleet: Fleet, message: Any, name: str, wrong: int) -> Message:
    kind, dagger = type(message), fleet.daggers.get(name)
    message.meta.name = name
    message.meta.epoch = 0 if wrong == 0 or fleet.leader is None else fleet.leader.epoch
    if dagger:
        message.meta.generation = dagger.generation - (wrong == 1)
    if kind in SHADOWS:
        _of_shadow(message, dagger, wrong)
    if kind in (events_pb2.LaunchIntended, events_pb2.ShadowIntended):
        message.meta.generation = 0
        message.version = (dagger.version if dagger else 0) + (wrong == 2)
    if kind in (events_pb2.Launched, events_pb2.ShadowLaunched):
        message.driver.pid = wrong + 1
    if kind in REPLAYS:
        message.replay_id = _newest_replay(dagger) if wrong != 2 else "another"
    if kind is events_pb2.SinkSkipped:
        message.outage.CopyFrom(_outage(dagger, wrong))
    if kind is events_pb2.RelaunchScheduled:
        message.attempt = (dagger.attempt if dagger else 0) + 1
        message.not_before.seconds = 1
    return message


def _of_shadow(message: Any, dagger: Any, wrong: int) -> None:
    if dagger and dagger.shadow:
        message.meta.generation = dagger.shadow.generation - (wrong == 1)
    if isinstance(message, events_pb2.CutoverDecided):
        message.boundary.seconds = 60 * wrong
    if isinstance(message, events_pb2.CutoverHanded):
        message.written.seconds, message.closed.seconds = 360, 60 * wrong


def _outage(dagger: Any, wrong: int) -> events_pb2.SinkOutage:
    generation = dagger.generation if dagger else 0
    return events_pb2.SinkOutage(sink=f"sink-{wrong % 2}", generation=generation, number=1 + wrong // 4)


def _newest_replay(dagger: Any) -> str:
    return dagger.replay.id if dagger and dagger.replay else ""


def _specify(spec: Any, name: str, wrong: int) -> None:
    spec.team = f"{name}-team" if wrong % 2 else ""
    spec.sql = f"SELECT {wrong % 2}, '{name}-table'" if wrong % 3 else "SELECT 1"
    if wrong % 4 == 1:
        spec.streams.add(stream=f"{name}-stream")
    if wrong % 4 == 2:
        spec.sinks.add(registered=f"{name}-sink")


def _of_catalogue(fleet: Fleet, kind: Any, name: str, wrong: int) -> Message:
    """A registration or a removal: of what is `name`'s own, a stream or a team, or of the cluster of both."""
    message = kind()
    if kind in tenancy.CHANGES:
        return _of_tenancy(fleet, message, name, wrong)
    if kind is events_pb2.SchemaRegistered:
        message.schema.messages.extend([f"shop.{name}", "shop.both"])
        return message
    what = REMOVALS.get(kind) or registered_kind(kind)
    of = OBJECTS[what].format(name)
    if wrong == 0:
        message.meta.expected_version = fleet.catalogue.version(what, of) + 1
    if kind in REMOVALS:
        message.name = of
    else:
        getattr(message, what).name = of
    if kind is events_pb2.StreamRegistered and wrong % 2:
        message.stream.cluster, message.stream.message = "local", f"shop.{name}"
    if kind is events_pb2.SinkRegistered and wrong % 2:
        message.sink.sink.influx.address.token.name = f"{name}-secret"
        message.sink.teams.append(f"{name}-team")
    return message


def _of_tenancy(fleet: Fleet, message: Any, name: str, wrong: int) -> Message:
    """What is said of `name`'s own team, or, one time in four, of the platform; of its account and stream."""
    team = "" if wrong % 4 == 3 else f"{name}-team"
    principal = f"account:{name}-bot" if wrong % 2 else f"user:{name}"
    match message:
        case events_pb2.TeamRegistered():
            message.team.name = team
            message.team.members.add(principal=principal, role=1 + wrong % 4)
        case events_pb2.RoleGranted() | events_pb2.RoleRevoked():
            message.team, message.principal = team, principal
            if isinstance(message, events_pb2.RoleGranted):
                message.role = 4 if wrong % 4 == 3 else 1 + wrong % 3
        case events_pb2.ServiceAccountCreated():
            message.account.name, message.account.team, message.role = f"{name}-bot", team, 1 + wrong % 4
            message.account.tokens.add(id="first").expire_time.seconds = wrong * 1_000_000_000
        case events_pb2.ServiceAccountRotated():
            message.name, message.token.id = f"{name}-bot", str(wrong)
            message.overlap_until.seconds = wrong * 1_000_000_000
        case events_pb2.GrantChanged():
            message.grant.stream, message.grant.restricted = f"{name}-stream", bool(wrong % 2)
            message.grant.teams.extend([team] if wrong % 3 else [])
        case events_pb2.DestinationGiven():
            message.destination.name, message.destination.team = f"influx://db/b/{name}", team
    if wrong == 0:
        message.meta.expected_version = fleet.catalogue.version("team", team) + 1
    return message


def registered_kind(kind: Any) -> str:
    return str(kind.DESCRIPTOR.name.removesuffix("Registered").lower())
