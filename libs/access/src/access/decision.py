"""May this principal do that in this team? The one answer that every call, list and watch goes by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from daggers.v1 import access_pb2, spec_pb2

from access.principal import Principal
from daggerspec import topics
from daggerspec.places import Place, allowed
from fleet import Fleet
from fleet.fold.answers import some
from fleet.fold.resolve import own_secrets
from fleet.fold.tenancy import PLATFORM, SHOWN, administrators

_ANYBODY: Final = access_pb2.ROLE_UNSPECIFIED
_OWNER: Final = access_pb2.ROLE_OWNER
_ADMINISTRATOR: Final = access_pb2.ROLE_ADMINISTRATOR


class Action(StrEnum):
    """Actions that can be allowed, in the words of a refusal."""

    LOOK_AROUND = "see the catalogue and the names, teams and phases of daggers"
    READ = "read specifications, rows, logs, alerts and quarantined records"
    VALIDATE = "check specifications"
    CHANGE = "create, change, start and stop daggers"
    PLAY = "create, change, start and stop daggers on a playground"
    SILENCE = "silence, acknowledge and route alerts"
    DELETE = "delete daggers"
    MEMBERS = "say who has a role"
    ACCOUNTS = "make and revoke service accounts"
    SINKS = "register and remove sinks and secrets"
    CATALOGUE = "register and remove clusters, schemas, streams and reference tables"
    TEAMS = "register and remove teams"
    GRANTS = "say which teams may read a stream"
    RELEASE = "release destinations"
    GIVE = "give destinations to teams"
    AUDIT = "read the audit"
    HOSTS = "see the hosts of drivers, cordon and drain them, and vouch that one is gone"


LOOKS: Final = frozenset({Action.LOOK_AROUND, Action.READ, Action.VALIDATE, Action.AUDIT})
"""The actions that write nothing."""
LEAST: Final[Mapping[Action, access_pb2.Role.ValueType]] = {
    Action.LOOK_AROUND: _ANYBODY,
    Action.READ: access_pb2.ROLE_VIEWER,
    Action.VALIDATE: access_pb2.ROLE_VIEWER,
    Action.CHANGE: access_pb2.ROLE_EDITOR,
    Action.PLAY: access_pb2.ROLE_VIEWER,
    Action.SILENCE: access_pb2.ROLE_EDITOR,
    Action.DELETE: _OWNER,
    Action.MEMBERS: _OWNER,
    Action.ACCOUNTS: _OWNER,
    Action.SINKS: _OWNER,
    Action.CATALOGUE: _ADMINISTRATOR,
    Action.TEAMS: _ADMINISTRATOR,
    Action.GRANTS: _ADMINISTRATOR,
    Action.RELEASE: _OWNER,
    Action.GIVE: _ADMINISTRATOR,
    Action.AUDIT: _OWNER,
    Action.HOSTS: _ADMINISTRATOR,
}
"""The least role that an action needs. Everybody who is authenticated may do what needs none."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Permission to do something, or a refusal with what is missing and who can grant it."""

    allowed: bool
    reason: str
    """UPPER_SNAKE, for programs."""
    detail: str
    """One sentence for a person."""
    metadata: Mapping[str, str]
    """The parts of the sentence, for programs."""


def may(principal: Principal, action: Action, team: str, fleet: Fleet) -> Decision:
    """Decide whether a principal may do this in a team; `team` is PLATFORM for what belongs to none."""
    if is_administrator(principal, fleet):
        return _allow("ADMINISTRATOR", f"{principal.name} is an administrator")
    if principal.account and principal.account not in fleet.catalogue.accounts:
        text = f"there is no service account {principal.account}, or no more"
        return Decision(False, "ACCOUNT_REVOKED", text, {"principal": principal.name})
    least = LEAST[action]
    if least == _ANYBODY:
        return _allow("AUTHENTICATED", "everybody who is authenticated may")
    if least != _ADMINISTRATOR and team != PLATFORM:
        has = role(principal, team, fleet)
        if has >= least:
            return _allow("ROLE", f"{principal.name} is {word(has)} of team {team}")
    return _refuse(principal, action, team if least != _ADMINISTRATOR else PLATFORM, fleet)


def change_on(clusters: Iterable[str], fleet: Fleet) -> Action:
    """Return PLAY for clusters that all are playgrounds, if there are any, and else CHANGE."""
    entries = [fleet.clusters.get(cluster) for cluster in clusters]
    plays = bool(entries) and all(entry is not None and entry.value.playground for entry in entries)
    return Action.PLAY if plays else Action.CHANGE


def may_read(principal: Principal, team: str, stream: str, fleet: Fleet) -> Decision:
    """Decide whether daggers of a team may read a stream, by who asks for one and by its grant."""
    grant = fleet.catalogue.grants.get(stream)
    restricted = _reads_platform(stream, fleet) if grant is None else grant.value.restricted
    if not restricted or (grant is not None and team in grant.value.teams):
        return _allow("GRANTED", f"team {team} may read stream {stream}")
    if is_administrator(principal, fleet):
        return _allow("ADMINISTRATOR", f"{principal.name} is an administrator")
    who = administrators(fleet.catalogue)
    text = f"stream {stream} is restricted, and not granted to team {team}: {who} can grant it"
    return Decision(
        False, "STREAM_RESTRICTED", text, {"stream": stream, "team": team, "principal": principal.name}
    )


def may_send(
    principal: Principal, name: str, spec: spec_pb2.DaggerSpec, fleet: Fleet, places: Sequence[Place]
) -> Decision:
    """Decide whether a specification's own secrets may be where they are, and go where it sends them.

    What the dagger sends already it goes on sending. Registered secrets are left to the rule book.
    """
    if is_administrator(principal, fleet):
        return _allow("ADMINISTRATOR", f"{principal.name} is an administrator")
    living = fleet.living(name)
    already = [] if living is None else [secret[1:] for secret in own_secrets(fleet, name, living.spec)]
    for place, reference, to in own_secrets(fleet, name, spec):
        if (reference, to) in already or allowed(places, reference, spec.team, to):
            continue
        text = (
            f"team {spec.team} may not have the secret of {place} sent to {to} from where it is: an owner can"
            " register it, in a place that an administrator allows"
        )
        metadata = {"principal": principal.name, "team": spec.team, "field": place, "address": to}
        return Decision(False, "SECRET_PLACE", text, metadata)
    return _allow("PLACE", f"team {spec.team} may have these secrets sent there")


def _reads_platform(stream: str, fleet: Fleet) -> bool:
    """Tell whether a stream has topics of the platform, which have everything of every team."""
    entry = fleet.streams.get(stream)
    return entry is not None and any(map(topics.is_platform, entry.value.topics))


def may_sample(principal: Principal, stream: str, fleet: Fleet) -> Decision:
    """Decide whether a principal may see records of a stream: as viewer of a team that may read it."""
    if is_administrator(principal, fleet):
        return _allow("ADMINISTRATOR", f"{principal.name} is an administrator")
    teams = [
        team for team in sorted(fleet.catalogue.teams) if may(principal, Action.READ, team, fleet).allowed
    ]
    decisions = [may_read(principal, team, stream, fleet) for team in teams]
    if not decisions:
        needs = f"a role in a team that may read it, which {administrators(fleet.catalogue)} can grant"
        text = f"{principal.name} may not see records of stream {stream}: that needs {needs}"
        return Decision(False, "ROLE_MISSING", text, {"principal": principal.name, "stream": stream})
    return next((decision for decision in decisions if decision.allowed), decisions[0])


def is_administrator(principal: Principal, fleet: Fleet) -> bool:
    """Tell whether everything is allowed to a principal."""
    return principal.administrator or role(principal, PLATFORM, fleet) == _ADMINISTRATOR


def role(principal: Principal, team: str, fleet: Fleet) -> access_pb2.Role.ValueType:
    """Return the greatest role that a principal has in a team, by name or by a group; 0: none."""
    entry = fleet.catalogue.teams.get(team)
    if entry is None:
        return _ANYBODY
    names = principal.names
    return max((member.role for member in entry.value.members if member.principal in names), default=_ANYBODY)


def has_role(principal: Principal, fleet: Fleet) -> bool:
    """Tell whether a principal has a role in any team, or of the platform."""
    return principal.administrator or any(role(principal, team, fleet) for team in fleet.catalogue.teams)


def word(role: int) -> str:
    """Write a role as people do: viewer, editor, owner, administrator."""
    value = access_pb2.Role.DESCRIPTOR.values_by_number.get(role)
    return value.name.removeprefix("ROLE_").lower() if value else str(role)


def _allow(reason: str, detail: str) -> Decision:
    return Decision(True, reason, detail, {})


def _refuse(principal: Principal, action: Action, team: str, fleet: Fleet) -> Decision:
    least, who = LEAST[action], administrators(fleet.catalogue)
    needed = _ADMINISTRATOR if team == PLATFORM else least
    metadata = {"principal": principal.name, "action": action.name, "role": word(needed), "team": team}
    if team == PLATFORM:
        where = "" if least == _ADMINISTRATOR else " of no team"
        text = f"{principal.name} may not {action}{where}: that needs an administrator, which {who} can make"
        return Decision(False, "ROLE_MISSING", text, metadata)
    where = f"team {team}"
    if team not in fleet.catalogue.teams:
        text = f"{principal.name} may not {action} of {where}, which is not registered: {who} can do that"
        return Decision(False, "TEAM_UNKNOWN", text, metadata)
    owners = [
        member.principal for member in fleet.catalogue.teams[team].value.members if member.role == _OWNER
    ]
    who = f"an owner ({some(owners, SHOWN)})" if owners else who
    needs = f"the role {word(least)}, which {who} can grant"
    text = f"{principal.name} may not {action} of {where}: that needs {needs}"
    return Decision(False, "ROLE_MISSING", text, {**metadata, "granted_by": ",".join(owners[:SHOWN])})
