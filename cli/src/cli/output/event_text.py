"""What a record of the control topic says, in words: one line for a person who reads along."""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from daggers.v1 import events_pb2, gateway_pb2
from google.protobuf.message import Message

from cli.output.json_views.events import unpacked
from daggerclient.teamfile import role_name
from daggerclient.times import iso
from fleet.fold import facts
from fleet.fold.fleet import REPEAT

_Words: TypeAlias = Callable[[Any, gateway_pb2.Event], str]
"""What a message says, given the event that it came in."""


def words(event: gateway_pb2.Event) -> str:
    """What happened; a type that is not known here is named as it is."""
    message = unpacked(event.data)
    said = _said(message, event) or event.type.rpartition(".")[2]
    if not event.refused:
        return said
    if event.refused == REPEAT:
        return f"{said}; written once more, and counted once"
    # Nobody is told no by what the platform says of itself: it came too late, or says nothing new.
    how = "not counted" if type(message) in facts.FACTS else "refused"
    return f"{said}; {how}: {event.refused}"


def _said(message: Message | None, event: gateway_pb2.Event) -> str:
    if message is None:
        return ""
    if type(message) in facts.FACTS:
        return facts.words(message, event.sequence)
    said = _WORDS.get(type(message))
    return said(message, event) if said else ""


def _asked(what: Callable[[Any], str]) -> _Words:
    """Words for a request, with who asked."""
    return lambda request, _: f"{what(request)} by {request.meta.actor or 'anonymous'}"


def _requested(request: events_pb2.DaggerRequested, event: gateway_pb2.Event) -> str:
    first = request.meta.HasField("expected_version") and request.meta.expected_version == 0
    # The gateway says no version of what is refused; an older one says none at all.
    new = event.version == 1 if event.version else first
    said = _asked(lambda _: "created" if new else "revised")(request, event)
    return f"{said}, warnings: {len(request.warnings)}" if request.warnings else said


def team(event: events_pb2.RoleGranted | events_pb2.RoleRevoked) -> str:
    """Where somebody has a role."""
    return whose(event.team)


def whose(team: str) -> str:
    """A team, or the platform."""
    return f"team {team}" if team else "the platform"


def _sink_registered(event: events_pb2.SinkRegistered) -> str:
    kind = event.sink.sink.WhichOneof("kind") or "?"
    return f"{kind} sink registered for {', '.join(event.sink.teams) or 'all teams'}"


def _granted(event: events_pb2.GrantChanged) -> str:
    if not event.grant.restricted:
        return "stream opened to all teams"
    return f"stream restricted to {', '.join(event.grant.teams) or 'no team'}"


_WORDS: Final[Mapping[type[Message], _Words]] = {
    events_pb2.ClusterRegistered: _asked(lambda _: "cluster registered"),
    events_pb2.SchemaRegistered: _asked(lambda it: f"schema registered: {', '.join(it.schema.messages)}"),
    events_pb2.StreamRegistered: _asked(lambda _: "stream registered"),
    events_pb2.ReferenceRegistered: _asked(lambda _: "reference table registered"),
    events_pb2.ClusterRemoved: _asked(lambda _: "cluster removed"),
    events_pb2.SchemaRemoved: _asked(lambda _: "message removed"),
    events_pb2.StreamRemoved: _asked(lambda _: "stream removed"),
    events_pb2.ReferenceRemoved: _asked(lambda _: "reference table removed"),
    events_pb2.SecretRegistered: _asked(lambda it: f"secret registered for {whose(it.secret.team)}"),
    events_pb2.SecretRemoved: _asked(lambda _: "secret removed"),
    events_pb2.SinkRegistered: _asked(_sink_registered),
    events_pb2.SinkRemoved: _asked(lambda _: "sink removed"),
    events_pb2.TeamRegistered: _asked(lambda it: f"team registered, members: {len(it.team.members)}"),
    events_pb2.TeamRemoved: _asked(lambda _: "team removed"),
    events_pb2.RoleGranted: _asked(
        lambda it: f"{it.principal or '?'} made {role_name(it.role)} of {team(it)}"
    ),
    events_pb2.RoleRevoked: _asked(lambda it: f"{it.principal or '?'} taken out of {team(it)}"),
    events_pb2.ServiceAccountCreated: _asked(
        lambda it: f"service account created as {role_name(it.role)} of team {it.account.team or '?'}"
    ),
    events_pb2.ServiceAccountRotated: _asked(lambda _: "service account given a new token"),
    events_pb2.ServiceAccountRevoked: _asked(lambda _: "service account revoked"),
    events_pb2.GrantChanged: _asked(_granted),
    events_pb2.DestinationGiven: _asked(lambda it: f"destination given to team {it.destination.team or '?'}"),
    events_pb2.DestinationReleased: _asked(lambda _: "destination released"),
    events_pb2.DaggerRequested: _requested,
    events_pb2.StartRequested: _asked(lambda _: "asked to start"),
    events_pb2.StopRequested: _asked(
        lambda it: "asked to stop at once" if it.mode == events_pb2.STOP_MODE_NOW else "asked to stop"
    ),
    events_pb2.RestartRequested: _asked(
        lambda event: "asked to restart from its start" if event.from_start else "asked to restart"
    ),
    events_pb2.DeleteRequested: _asked(lambda _: "asked to go"),
    events_pb2.DeathConfirmed: _asked(lambda it: f"generation {it.generation or '?'} confirmed dead"),
    events_pb2.QuarantineReplayRequested: _asked(
        lambda it: (
            f"what sink {it.outage.sink} did not take asked to be replayed: {it.replay_id or '?'}"
            if it.HasField("outage")
            else f"{it.records} quarantined records asked to be replayed: {it.replay_id or '?'}"
        )
    ),
    events_pb2.QuarantineDiscardRequested: _asked(lambda it: f"{it.records} quarantined records discarded"),
    events_pb2.AllowRefusalsRequested: _asked(
        lambda it: f"its sinks may refuse as many rows as they like until {iso(it.until)}"
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
    events_pb2.HostGone: _asked(lambda it: f"host {it.host or '?'} confirmed to be gone"),
}
