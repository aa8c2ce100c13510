"""A team as it is written in YAML: `kind: team`, its name, where it is reached, who is in it and as what,
who is told of alerts, how much its daggers may take, whether they share drivers' processes, and when
conditions of theirs are alerts.

kind: team
name: pricing
contact: "#pricing"
members:
  - {user: ada@example.org, role: owner}
  - {group: analysts, role: viewer}
receivers:
  - slack: {url: pricing-slack}
  - email: {url: mail-server, to: on-call@example.org, sender: daggers@example.org}
quotas:
  daggers: {soft: 40, hard: 50}
  memory: {hard: 64g}
isolation: shared
share: platform
conditions:
  no_progress: {limit: 10m, hold: 1m}
"""

from collections.abc import Iterable
from typing import Any

import yaml
from daggers.v1 import access_pb2

from daggerclient.daggerfile import conditions
from daggerclient.daggerfile.forms import MEMORY, Form
from daggerclient.daggerfile.reader import Reader
from daggerclient.daggerfile.sinks import secret, shown_secret
from daggerclient.daggerfile.table import ISOLATION
from daggerclient.entryfile import begin_entry, finish_entry
from daggerspec import receivers

KIND = "team"
KEYS = ("contact", "members", "receivers", "quotas", "isolation", "share", "conditions")
SHARES = ("team", "platform")
"""With whom its daggers share processes: with each other, or with those of all teams that say so."""
COUNT = Form(lambda reader, node, path: reader.integer(node, path, most=2**53), lambda value: value)
QUOTAS = {
    "daggers": ("daggers", COUNT),
    "drivers": ("drivers", COUNT),
    "memory": ("memory_mib", MEMORY),
    "executor_cores": ("executor_cores", COUNT),
    "records_per_second": ("records_per_second", COUNT),
    "rows_per_minute": ("rows_per_minute", COUNT),
    "preview_seconds_per_hour": ("preview_seconds_per_hour", COUNT),
}
"""The key of each quota in a file: its field, and how its bounds are written."""
WHO = ("user", "group", "account")
ROLES = {
    "viewer": access_pb2.ROLE_VIEWER,
    "editor": access_pb2.ROLE_EDITOR,
    "owner": access_pb2.ROLE_OWNER,
}


def parse(text: str, file: str) -> access_pb2.Team:
    """Parse the team of a file. Raises InvalidFileError with everything that is wrong with it."""
    reader, _, values = begin_entry(text, file, KIND, KEYS)
    team = access_pb2.Team()
    if "name" in values:
        team.name = reader.text(values["name"], "name")
    if "contact" in values:
        team.contact = reader.text(values["contact"], "contact")
    if "members" in values:
        for path, item in reader.items(values["members"], "members", of="members"):
            _member(reader, item, path, team)
    if "receivers" in values:
        for path, item in reader.items(values["receivers"], "receivers", of="receivers"):
            _receiver(reader, item, path, team)
    if "quotas" in values:
        _quotas(reader, values["quotas"], team)
    if "isolation" in values:
        team.isolation = ISOLATION.read(reader, values["isolation"], "isolation")
    if "share" in values:
        team.shares_platform = reader.choice(values["share"], "share", SHARES) == "platform"
    if "conditions" in values:
        for label, entry in conditions.read(reader, values["conditions"], "conditions").items():
            team.conditions[label].CopyFrom(entry)
    finish_entry(reader)
    return team


def _quotas(reader: Reader, node: yaml.Node, team: access_pb2.Team) -> None:
    team.quotas.SetInParent()
    for key, value in reader.mapping(node, "quotas", tuple(QUOTAS)).items():
        field, form = QUOTAS[key]
        quota: access_pb2.Quota = getattr(team.quotas, field)
        for bound, limit in reader.mapping(value, f"quotas.{key}", ("soft", "hard")).items():
            setattr(quota, bound, form.read(reader, limit, f"quotas.{key}.{bound}"))


def _receiver(reader: Reader, node: yaml.Node, path: str, team: access_pb2.Team) -> None:
    kinds = reader.mapping(node, path, receivers.names())
    if len(kinds) > 1:
        reader.fail(node, path, "WRONG_TYPE", f"{path} must have one of {', '.join(receivers.names())}")
    for kind, settings in kinds.items():
        secrets = receivers.secrets(kind)
        keys = (*secrets, *receivers.settings(kind))
        receiver = team.receivers.add(kind=kind)
        values = reader.mapping(settings, f"{path}.{kind}", keys, receivers.list_required(kind))
        for key, value in values.items():
            where = f"{path}.{kind}.{key}"
            if key in secrets:
                receiver.secrets[key].CopyFrom(secret(reader, value, where))
            else:
                receiver.settings[key] = reader.text(value, where)


def _member(reader: Reader, node: yaml.Node, path: str, team: access_pb2.Team) -> None:
    values = reader.mapping(node, path, (*WHO, "role"), ("role",))
    kinds = [kind for kind in WHO if kind in values]
    if len(kinds) != 1:
        reader.fail(node, path, "WRONG_TYPE", f"{path} must have one of {', '.join(WHO)}")
    elif "role" in values:
        name = reader.text(values[kinds[0]], f"{path}.{kinds[0]}")
        role = reader.choice(values["role"], f"{path}.role", tuple(ROLES))
        team.members.add(principal=f"{kinds[0]}:{name}", role=ROLES[role])


def to_document(team: access_pb2.Team) -> dict[str, Any]:
    """Make the document of a team: the inverse of `parse`."""
    document: dict[str, Any] = {"kind": KIND, "name": team.name}
    if team.contact:
        document["contact"] = team.contact
    if team.members:
        document["members"] = [_show_member(member) for member in team.members]
    if team.receivers:
        document["receivers"] = receivers_shown(team.receivers)
    quotas = quotas_shown(team.quotas)
    document |= {"quotas": quotas} if quotas else {}
    if team.isolation:
        document["isolation"] = ISOLATION.show(team.isolation)
    document |= {"share": "platform"} if team.shares_platform else {}
    return document | ({"conditions": conditions.show(team.conditions)} if team.conditions else {})


def receivers_shown(team_receivers: Iterable[access_pb2.TeamReceiver]) -> list[dict[str, Any]]:
    """Make the list of receivers of a team's document."""
    return [
        {
            receiver.kind: {key: shown_secret(receiver.secrets[key]) for key in sorted(receiver.secrets)}
            | dict(sorted(receiver.settings.items()))
        }
        for receiver in team_receivers
    ]


def quotas_shown(quotas: access_pb2.Quotas) -> dict[str, Any]:
    """Make the mapping of quotas of a team's document, without those that have no bound."""
    document = {}
    for key, (field, form) in QUOTAS.items():
        quota: access_pb2.Quota = getattr(quotas, field)
        bounds = {
            bound: form.show(getattr(quota, bound)) for bound in ("soft", "hard") if quota.HasField(bound)
        }
        if bounds:
            document[key] = bounds
    return document


def _show_member(member: access_pb2.Member) -> dict[str, str]:
    kind, _, name = member.principal.partition(":")
    return {kind: name, "role": role_name(member.role)}


def role_name(role: int) -> str:
    """Return a role as it is written; its number if this version has no name for it."""
    value = access_pb2.Role.DESCRIPTOR.values_by_number.get(role)
    return value.name.removeprefix("ROLE_").lower() if value else str(role)
