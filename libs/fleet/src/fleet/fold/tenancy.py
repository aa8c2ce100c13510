"""Changes that events make to teams and their roles, service accounts, grants and destinations. Pure.

Teams, accounts and grants stand in the catalogue, each whole and with its version. The platform is the team
without a name: its members are the administrators. What a role may do is in `access`.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias, get_args

from daggers.v1 import access_pb2, events_pb2
from google.protobuf.message import Message

from fleet.fold.answers import Code, Refusal, about, missing, some, version_mismatch
from fleet.fold.catalogue import Catalogue

PLATFORM: Final = ""
"""The team whose members are administrators."""
ACCOUNT: Final = "account:"
"""Prefix of a principal that is a service account."""
TOKENS: Final = 2
"""Tokens that an account has at most: the newest, and the one whose place it takes."""
SHOWN: Final = 5
"""Names that a sentence has at most."""
_IN_TEAMS: Final = (access_pb2.ROLE_VIEWER, access_pb2.ROLE_EDITOR, access_pb2.ROLE_OWNER)

Change: TypeAlias = (
    events_pb2.TeamRegistered
    | events_pb2.RoleGranted
    | events_pb2.RoleRevoked
    | events_pb2.ServiceAccountCreated
    | events_pb2.ServiceAccountRotated
    | events_pb2.GrantChanged
    | events_pb2.DestinationGiven
)
CHANGES: Final[tuple[type[Message], ...]] = get_args(Change)
CatalogueChange: TypeAlias = tuple[str, str, Any]
"""Change of the catalogue: kind, name and new value."""


def subject(event: Change) -> str:
    """Return the name of the team, account, stream or destination that an event is about."""
    match event:
        case events_pb2.TeamRegistered():
            return event.team.name
        case events_pb2.RoleGranted() | events_pb2.RoleRevoked():
            return event.team
        case events_pb2.ServiceAccountCreated():
            return event.account.name
        case events_pb2.ServiceAccountRotated():
            return event.name
        case events_pb2.GrantChanged():
            return event.grant.stream
        case events_pb2.DestinationGiven():
            return event.destination.name


def apply(catalogue: Catalogue, event: Change, sequence: int, time: datetime) -> int | Refusal:
    """Apply an event; return the version of what it is about, or why it is refused."""
    changes = decide(catalogue, event, time)
    if isinstance(changes, Refusal):
        return changes
    versions = [catalogue.put(kind, name, value, sequence) for kind, name, value in changes]
    return versions[0]


def decide(catalogue: Catalogue, event: Change, time: datetime) -> list[CatalogueChange] | Refusal:
    """Return the changes of an event at `time`, that of its subject first; or why it is refused."""
    kind, name = _KINDS[type(event)], subject(event)
    if event.meta.HasField("expected_version"):
        expected, actual = event.meta.expected_version, catalogue.version(kind, name)
        refusal = version_mismatch(kind, name, expected, actual)
        if refusal is not None:
            return refusal
    match event:
        case events_pb2.TeamRegistered():
            return _register_team(catalogue, event.team)
        case events_pb2.RoleGranted():
            return _grant_role(catalogue, event.team, event.principal, event.role)
        case events_pb2.RoleRevoked():
            return _revoke_role(catalogue, event.team, event.principal)
        case events_pb2.ServiceAccountCreated():
            return _create_account(catalogue, event)
        case events_pb2.ServiceAccountRotated():
            return _rotate_token(catalogue, event, time)
        case events_pb2.GrantChanged():
            return _change_grant(catalogue, event.grant)
        case events_pb2.DestinationGiven():
            return _give_destination(catalogue, event.destination)


def _register_team(catalogue: Catalogue, team: access_pb2.Team) -> list[CatalogueChange] | Refusal:
    if team.name == PLATFORM:
        return missing("team", team.name)
    # The last word on each of them.
    members = {member.principal: member for member in team.members}.values()
    for member in members:
        refusal = _refuse_role(catalogue, team.name, member.principal, member.role)
        if refusal is not None:
            return refusal
    return [("team", team.name, _with_members(team, members))]


def _grant_role(
    catalogue: Catalogue, team: str, principal: str, role: access_pb2.Role.ValueType
) -> list[CatalogueChange] | Refusal:
    current = _team(catalogue, team)
    if current is None:
        return missing("team", team)
    return _refuse_role(catalogue, team, principal, role) or [
        ("team", team, _with_role(current, principal, role))
    ]


def _refuse_role(
    catalogue: Catalogue, team: str, principal: str, role: access_pb2.Role.ValueType
) -> Refusal | None:
    """Refuse a role that a team cannot give, or an account that does not exist: a grant creates none."""
    if role not in ((access_pb2.ROLE_ADMINISTRATOR,) if team == PLATFORM else _IN_TEAMS):
        where = f"team {team}" if team else "the platform"
        text, metadata = f"role {role} cannot be had in {where}", {**about("team", team), "role": str(role)}
        return Refusal(Code.INVALID_ARGUMENT, "INVALID_ROLE", text, metadata)
    account = principal.removeprefix(ACCOUNT)
    if account != principal and account not in catalogue.accounts:
        return missing("account", account)
    return None


def _revoke_role(catalogue: Catalogue, team: str, principal: str) -> list[CatalogueChange] | Refusal:
    current = _team(catalogue, team)
    if current is None:
        return missing("team", team)
    if principal not in (member.principal for member in current.members):
        where = f"team {team}" if team else "the platform"
        metadata = {**about("team", team), "principal": principal}
        return Refusal(Code.NOT_FOUND, "NO_ROLE", f"{principal} has no role in {where}", metadata)
    return [
        (
            "team",
            team,
            _with_members(current, (member for member in current.members if member.principal != principal)),
        )
    ]


def _create_account(
    catalogue: Catalogue, event: events_pb2.ServiceAccountCreated
) -> list[CatalogueChange] | Refusal:
    account = event.account
    refusal = version_mismatch("account", account.name, 0, catalogue.version("account", account.name))
    if refusal is not None:
        return refusal
    if event.role not in _IN_TEAMS:
        text = "a service account is a viewer, an editor or an owner"
        return Refusal(Code.INVALID_ARGUMENT, "INVALID_ROLE", text, about("account", account.name))
    current = _team(catalogue, account.team) if account.team else None
    if current is None:
        return missing("team", account.team)
    member = _with_role(current, ACCOUNT + account.name, event.role)
    return [("account", account.name, account), ("team", account.team, member)]


def _rotate_token(
    catalogue: Catalogue, event: events_pb2.ServiceAccountRotated, time: datetime
) -> list[CatalogueChange] | Refusal:
    entry = catalogue.accounts.get(event.name)
    if entry is None:
        return missing("account", event.name)
    account = access_pb2.ServiceAccount()
    account.CopyFrom(entry.value)
    tokens = [event.token]
    for token in account.tokens:
        end = token.expire_time if token.HasField("expire_time") else event.overlap_until
        if _instant(end) > _instant(event.overlap_until):
            end = event.overlap_until
        if _instant(end) > _microseconds(time):
            expiring = access_pb2.AccountToken(id=token.id, salt=token.salt, hash=token.hash, expire_time=end)
            tokens.append(expiring)
    del account.tokens[:]
    account.tokens.extend(tokens[:TOKENS])
    return [("account", event.name, account)]


def _change_grant(catalogue: Catalogue, grant: access_pb2.StreamGrant) -> list[CatalogueChange] | Refusal:
    if grant.stream not in catalogue.streams:
        return missing("stream", grant.stream)
    for team in grant.teams:
        if team not in catalogue.teams or team == PLATFORM:
            return missing("team", team)
    for principal in grant.read_sensitive:
        account = principal.removeprefix(ACCOUNT)
        if account != principal and account not in catalogue.accounts:
            return missing("account", account)
    sorted_ = access_pb2.StreamGrant(
        stream=grant.stream,
        restricted=grant.restricted,
        teams=sorted(set(grant.teams)),
        read_sensitive=sorted(set(grant.read_sensitive)),
    )
    return [("grant", grant.stream, sorted_)]


def _give_destination(
    catalogue: Catalogue, destination: access_pb2.Destination
) -> list[CatalogueChange] | Refusal:
    if destination.team == PLATFORM or destination.team not in catalogue.teams:
        return missing("team", destination.team)
    return [("destination", destination.name, destination)]


def administrators(catalogue: Catalogue) -> str:
    """Describe whom to ask: an administrator, with the first names where there are any."""
    entry = catalogue.teams.get(PLATFORM)
    names = [member.principal for member in entry.value.members] if entry else []
    return f"an administrator ({some(names, SHOWN)})" if names else "an administrator"


def _with_role(team: access_pb2.Team, principal: str, role: access_pb2.Role.ValueType) -> access_pb2.Team:
    others = [member for member in team.members if member.principal != principal]
    return _with_members(team, [*others, access_pb2.Member(principal=principal, role=role)])


def _with_members(team: access_pb2.Team, members: Iterable[access_pb2.Member]) -> access_pb2.Team:
    """Return a copy of a team with these members, sorted by principal."""
    copy = access_pb2.Team()
    copy.CopyFrom(team)
    del copy.members[:]
    copy.members.extend(sorted(members, key=lambda member: member.principal))
    return copy


def _team(catalogue: Catalogue, name: str) -> access_pb2.Team | None:
    entry = catalogue.teams.get(name)
    if entry is None:
        return access_pb2.Team() if name == PLATFORM else None
    return entry.value


def _instant(time: Any) -> int:
    """Return microseconds since 1970. A timestamp in the log may be out of the range of datetime."""
    return int(time.seconds * 1_000_000 + time.nanos // 1_000)


def _microseconds(time: datetime) -> int:
    return round((time - datetime.fromtimestamp(0, UTC)).total_seconds() * 1_000_000)


_KINDS: Final[dict[type[Message], str]] = {
    events_pb2.TeamRegistered: "team",
    events_pb2.RoleGranted: "team",
    events_pb2.RoleRevoked: "team",
    events_pb2.ServiceAccountCreated: "account",
    events_pb2.ServiceAccountRotated: "account",
    events_pb2.GrantChanged: "grant",
    events_pb2.DestinationGiven: "destination",
}
