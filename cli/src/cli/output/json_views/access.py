"""Teams and what they own, service accounts, and which teams may read a stream."""

from typing import Any

from daggers.v1 import access_pb2, gateway_pb2

from daggerclient.teamfile import quotas_shown, receivers_shown, role_name
from daggerclient.times import iso


def team(what: access_pb2.Team) -> dict[str, Any]:
    """A team."""
    members = [{"principal": member.principal, "role": role_name(member.role)} for member in what.members]
    quotas = quotas_shown(what.quotas)
    return {
        "name": what.name,
        "contact": what.contact,
        "members": members,
        "receivers": receivers_shown(what.receivers),
        "quotas": quotas,
    }


def usage(name: str, what: gateway_pb2.GetTeamUsageResponse) -> dict[str, Any]:
    """What a team uses of its quotas, and what its daggers cost."""
    return {
        "team": name,
        "quotas": [
            {
                "name": use.name,
                "used": use.used,
                "soft": use.quota.soft if use.quota.HasField("soft") else None,
                "hard": use.quota.hard if use.quota.HasField("hard") else None,
            }
            for use in what.uses
        ],
        "daggers": [{"name": dagger.dagger, **cost(dagger)} for dagger in what.daggers],
        "sequence": what.sequence,
    }


def cost(spent: gateway_pb2.DaggerCost) -> dict[str, Any]:
    """What a dagger costs."""
    return {
        "age_s": spent.age.ToTimedelta().total_seconds() if spent.HasField("age") else None,
        "launch_memory_mib": spent.launch_memory_mib,
        "cpu_seconds": spent.cpu_seconds,
        "cpu_seconds_per_day": spent.cpu_seconds_per_day,
        "memory_bytes": spent.memory_bytes,
        "records": spent.records,
        "records_per_day": spent.records_per_day,
        "state_bytes": spent.state_bytes,
        "records_per_second": spent.records_per_second,
        "rows_per_minute": spent.rows_per_minute,
    }


def account(what: access_pb2.ServiceAccount) -> dict[str, Any]:
    """A service account, and the tokens it has."""
    tokens = [
        {"id": token.id, "expire_time": iso(token.expire_time) if token.HasField("expire_time") else None}
        for token in what.tokens
    ]
    return {"name": what.name, "team": what.team, "description": what.description, "tokens": tokens}


def grant(what: access_pb2.StreamGrant) -> dict[str, Any]:
    """Which teams may read a stream."""
    return {
        "stream": what.stream,
        "restricted": what.restricted,
        "teams": list(what.teams),
        "read_sensitive": list(what.read_sensitive),
    }


def conflict(what: gateway_pb2.DestinationConflict) -> dict[str, Any]:
    """A dagger that writes to what another team owns."""
    return {
        "dagger": what.dagger,
        "team": what.team,
        "destination": what.destination,
        "owned": destination(what.owned),
    }


def sensitive_conflict(what: gateway_pb2.SensitiveConflict) -> dict[str, Any]:
    """A dagger that goes by a sensitive field which who asked for it does not see, and where."""
    return {
        "dagger": what.dagger,
        "team": what.team,
        "updater": what.updater,
        "stream": what.stream,
        "path": what.path,
        "field": what.field,
        "line": what.line or None,
        "column": what.column or None,
    }


def destination(what: access_pb2.Destination) -> dict[str, Any]:
    """What sinks write to, and whose it is."""
    return {"name": what.name, "team": what.team}
