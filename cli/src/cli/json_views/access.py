"""Teams, service accounts, and which teams may read a stream."""

from typing import Any

from daggers.v1 import access_pb2

from daggerclient.teamfile import role_name
from daggerclient.times import iso


def team(what: access_pb2.Team) -> dict[str, Any]:
    """A team."""
    members = [{"principal": each.principal, "role": role_name(each.role)} for each in what.members]
    return {"name": what.name, "contact": what.contact, "members": members}


def account(what: access_pb2.ServiceAccount) -> dict[str, Any]:
    """A service account, and the tokens it has."""
    tokens = [
        {"id": each.id, "expire_time": iso(each.expire_time) if each.HasField("expire_time") else None}
        for each in what.tokens
    ]
    return {"name": what.name, "team": what.team, "description": what.description, "tokens": tokens}


def grant(what: access_pb2.StreamGrant) -> dict[str, Any]:
    """Which teams may read a stream."""
    return {"stream": what.stream, "restricted": what.restricted, "teams": list(what.teams)}
