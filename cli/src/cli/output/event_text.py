"""Describe records of the control topic, each in a line for a person."""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from daggers.v1 import events_pb2, gateway_pb2
from google.protobuf.message import Message

from cli.output.json_views.events import unpack
from daggerclient.teamfile import role_name
from daggerclient.times import iso
from fleet.fold import facts
from fleet.fold.fleet import REPEAT

_Words: TypeAlias = Callable[[Any, gateway_pb2.Event], str]
"""Describes a message, given the event that contained it."""


def words(event: gateway_pb2.Event) -> str:
    """Describe an event; one of an unknown type by the type's name."""
    message = unpack(event.data)
    description = _describe(message, event) or event.type.rpartition(".")[2]
    if not event.refused:
        return description
    if event.refused == REPEAT:
        return f"{description}; written once more, and counted once"
    # facts of the platform are requests of nobody: one that is late or old is not refused, but not counted
    how = "not counted" if type(message) in facts.FACTS else "refused"
    return f"{description}; {how}: {event.refused}"


def _describe(message: Message | None, event: gateway_pb2.Event) -> str:
    if message is None:
        return ""
    if type(message) in facts.FACTS:
        return facts.describe_fact(message, event.sequence)
    describe = _WORDS.get(type(message))
    return describe(message, event) if describe else ""


def _with_actor(describe: Callable[[Any], str]) -> _Words:
    """Words for a request, with who asked."""
    return lambda request, _: f"{describe(request)} by {request.meta.actor or 'anonymous'}"


def _dagger_requested(request: events_pb2.DaggerRequested, event: gateway_pb2.Event) -> str:
    first = request.meta.HasField("expected_version") and request.meta.expected_version == 0
    # The gateway says no version of what is refused; an older one says none at all.
    new = event.version == 1 if event.version else first
    description = _with_actor(lambda _: "created" if new else "revised")(request, event)
    return f"{description}, warnings: {len(request.warnings)}" if request.warnings else description


def team(event: events_pb2.RoleGranted | events_pb2.RoleRevoked) -> str:
    """Name the team, or the platform, that a role is granted in."""
    return whose(event.team)


def whose(team: str) -> str:
    """Name a team, or the platform for an empty name."""
    return f"team {team}" if team else "the platform"


def _sink_registered(event: events_pb2.SinkRegistered) -> str:
    kind = event.sink.sink.WhichOneof("kind") or "?"
    return f"{kind} sink registered for {', '.join(event.sink.teams) or 'all teams'}"


def _grant_changed(event: events_pb2.GrantChanged) -> str:
    if not event.grant.restricted:
        return "stream opened to all teams"
    return f"stream restricted to {', '.join(event.grant.teams) or 'no team'}"


_WORDS: Final[Mapping[type[Message], _Words]] = {
    events_pb2.ClusterRegistered: _with_actor(lambda _: "cluster registered"),
    events_pb2.SchemaRegistered: _with_actor(
        lambda it: f"schema registered: {', '.join(it.schema.messages)}"
    ),
    events_pb2.StreamRegistered: _with_actor(lambda _: "stream registered"),
    events_pb2.ReferenceRegistered: _with_actor(lambda _: "reference table registered"),
    events_pb2.ClusterRemoved: _with_actor(lambda _: "cluster removed"),
    events_pb2.SchemaRemoved: _with_actor(lambda _: "message removed"),
    events_pb2.StreamRemoved: _with_actor(lambda _: "stream removed"),
    events_pb2.ReferenceRemoved: _with_actor(lambda _: "reference table removed"),
    events_pb2.SecretRegistered: _with_actor(lambda it: f"secret registered for {whose(it.secret.team)}"),
    events_pb2.SecretRemoved: _with_actor(lambda _: "secret removed"),
    events_pb2.SinkRegistered: _with_actor(_sink_registered),
    events_pb2.SinkRemoved: _with_actor(lambda _: "sink removed"),
    events_pb2.TeamRegistered: _with_actor(lambda it: f"team registered, members: {len(it.team.members)}"),
    events_pb2.TeamRemoved: _with_actor(lambda _: "team removed"),
    events_pb2.RoleGranted: _with_actor(
        lambda it: f"{it.principal or '?'} made {role_name(it.role)} of {team(it)}"
    ),
    events_pb2.RoleRevoked: _with_actor(lambda it: f"{it.principal or '?'} taken out of {team(it)}"),
    events_pb2.ServiceAccountCreated: _with_actor(
        lambda it: f"service account created as {role_name(it.role)} of team {it.account.team or '?'}"
    ),
    events_pb2.ServiceAccountRotated: _with_actor(lambda _: "service account given a new token"),
    events_pb2.ServiceAccountRevoked: _with_actor(lambda _: "service account revoked"),
    events_pb2.GrantChanged: _with_actor(_grant_changed),
    events_pb2.DestinationGiven: _with_actor(
        lambda it: f"destination given to team {it.destination.team or '?'}"
    ),
    events_pb2.DestinationReleased: _with_actor(lambda _: "destination released"),
    events_pb2.DaggerRequested: _dagger_requested,
    events_pb2.StartRequested: _with_actor(lambda _: "asked to start"),
    events_pb2.StopRequested: _with_actor(
        lambda it: "asked to stop at once" if it.mode == events_pb2.STOP_MODE_NOW else "asked to stop"
    ),
    events_pb2.RestartRequested: _with_actor(
        lambda event: "asked to restart from its start" if event.from_start else "asked to restart"
    ),
    events_pb2.DeleteRequested: _with_actor(lambda _: "asked to go"),
    events_pb2.DeathConfirmed: _with_actor(lambda it: f"generation {it.generation or '?'} confirmed dead"),
    events_pb2.QuarantineReplayRequested: _with_actor(
        lambda it: (
            f"what sink {it.outage.sink} did not take asked to be replayed: {it.replay_id or '?'}"
            if it.HasField("outage")
            else f"{it.records} quarantined records asked to be replayed: {it.replay_id or '?'}"
        )
    ),
    events_pb2.QuarantineDiscardRequested: _with_actor(
        lambda it: f"{it.records} quarantined records discarded"
    ),
    events_pb2.AllowRefusalsRequested: _with_actor(
        lambda it: f"its sinks may refuse as many rows as they like until {iso(it.until)}"
    ),
    events_pb2.SinkPauseRequested: _with_actor(
        lambda it: f"sink {it.sink} {'pauses: its rows wait' if it.paused else 'is written again'}"
    ),
    events_pb2.SchedulerStarted: lambda it, event: (
        f"scheduler {it.scheduler_id or '?'} leads, epoch {event.sequence}"
    ),
    events_pb2.HostServing: lambda it, _: (
        f"host {it.host or '?'} serves its logs and rows on {it.address or '?'}"
    ),
    events_pb2.HostRegistered: lambda it, event: (
        f"host {it.host or '?'} is there, epoch {event.sequence}: {it.cores} cores,"
        f" {it.memory_mib} MiB for drivers, version {it.version or '?'}"
    ),
    events_pb2.HostLacksChanged: lambda it, _: (
        f"host {it.host or '?'} lacks {', '.join(it.lacks) or 'nothing'} now"
    ),
    events_pb2.HostGone: _with_actor(lambda it: f"host {it.host or '?'} confirmed to be gone"),
    events_pb2.HostCordoned: _with_actor(lambda it: f"host {it.host or '?'} cordoned"),
    events_pb2.HostDrainRequested: _with_actor(lambda it: f"drain of host {it.host or '?'} requested"),
    events_pb2.HostUncordoned: _with_actor(lambda it: f"host {it.host or '?'} uncordoned"),
}
