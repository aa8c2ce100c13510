"""Every method by every role, in one's own team and in another: who may call it. Run, it writes the file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from daggers.v1 import access_pb2, events_pb2, gateway_pb2, spec_pb2
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass
from libs.access.tests import destinations

from access import Principal
from access.methods import decide
from eventlog.testing import given
from fleet import Fleet

FILE: Final = Path(__file__).with_name("matrix.md")
META: Final = events_pb2.RequestMeta(actor="root")
PRINCIPALS: Final = {
    "nobody": Principal("user:nobody"),
    "viewer": Principal("user:viewer"),
    "editor": Principal("user:editor"),
    "owner": Principal("user:owner"),
    "administrator": Principal("user:administrator"),
    "token file": Principal("root", administrator=True),
}
TEAMS: Final = {"own": "pricing", "other": "delivery"}
HEAD: Final = """# Who may call what
Each role is held in the team `pricing`. `own` is a request about it, `other` one about the team `delivery`.
Some are shown less of an answer: names, teams, clusters and phases are everybody's, the rest is the team's.

Made by `make access-doc`.
"""
THERE: Final = """## On a playground
What is otherwise where a dagger runs on a cluster that is registered as a playground, and is to run on one.
"""


def methods() -> Iterator[MethodDescriptor]:
    """Every method of every service that a gateway serves."""
    files = (gateway_pb2.DESCRIPTOR, *gateway_pb2.DESCRIPTOR.public_dependencies)
    for service in (service for file in files for service in file.services_by_name.values()):
        yield from service.methods


def path(method: MethodDescriptor) -> str:
    """As gRPC names it."""
    return f"/{method.containing_service.full_name}/{method.name}"


PLAYGROUND: Final = spec_pb2.Cluster(name="playground", playground=True)


def fleet(cluster: str = "") -> Fleet:
    """Two teams, each with a dagger, an account, a secret, a sink and a destination; somebody of each role in
    one. Their daggers run on `cluster`.
    """
    made = Fleet()
    members = [access_pb2.Member(principal=f"user:{name}", role=role) for role, name in enumerate(ROLES, 1)]
    events: list[Any] = [
        events_pb2.ClusterRegistered(meta=META, cluster=PLAYGROUND),
        events_pb2.RoleGranted(meta=META, principal="user:administrator", role=access_pb2.ROLE_ADMINISTRATOR),
        *(
            events_pb2.TeamRegistered(
                meta=META, team=access_pb2.Team(name=team, members=members if team == "pricing" else [])
            )
            for team in TEAMS.values()
        ),
        *(
            events_pb2.DaggerRequested(
                meta=META, name=f"{team}_counts", spec=spec_pb2.DaggerSpec(team=team, cluster=cluster)
            )
            for team in TEAMS.values()
        ),
        *(
            events_pb2.ServiceAccountCreated(
                meta=META,
                account=access_pb2.ServiceAccount(name=f"{team}-bot", team=team),
                role=access_pb2.ROLE_VIEWER,
            )
            for team in TEAMS.values()
        ),
        *(
            events_pb2.SecretRegistered(meta=META, secret=spec_pb2.Secret(name=f"{team}-secret", team=team))
            for team in TEAMS.values()
        ),
        *(
            events_pb2.SinkRegistered(
                meta=META, sink=spec_pb2.RegisteredSink(name=f"{team}-sink", teams=[team])
            )
            for team in TEAMS.values()
        ),
        *(
            events_pb2.DestinationGiven(
                meta=META, destination={"name": NAMES["Destination"].format(team), "team": team}
            )
            for team in TEAMS.values()
        ),
    ]
    for record in given(*events):
        assert made.apply(record).changed, record
    return made


NAMES: Final = {
    "ServiceAccount": "{}-bot",
    "Secret": "{}-secret",
    "Sink": "{}-sink",
    "Destination": "influx://influx:8086/{}/counts",
}
"""What the requests of methods are about whose names end so."""
ROLES: Final = ("viewer", "editor", "owner")


def request(method: MethodDescriptor, team: str, cluster: str = "") -> Any:
    """A request of this method about something of a team; a specification is for `cluster`."""
    made: Any = GetMessageClass(method.input_type)()
    fields = method.input_type.fields_by_name
    named = next((name for end, name in NAMES.items() if method.name.endswith(end)), "{}_counts").format(team)
    for field in ("name", "dagger"):
        if field in fields and fields[field].message_type is None:
            setattr(made, field, named)
    if method.name == "ExpireSilence":
        made.id = f"{team}/1f3c9a0b52"
    if "alerts" in fields and fields["alerts"].message_type is not None:
        made.alerts.dagger = named
    if "secret" in fields:
        made.secret.team = team
    if "sink" in fields and fields["sink"].message_type is not None:
        made.sink.teams.append(team)
    if "destination" in fields:
        made.destination.name, made.destination.team = named, team
    if "spec" in fields:
        made.spec.team, made.spec.cluster = team, cluster
    if "team" in fields and fields["team"].message_type is None:
        made.team = team
    return made


def rows(cluster: str = "") -> list[str]:
    """A row for each method, where daggers run on this cluster."""
    known, lines = fleet(cluster), []
    for method in sorted(methods(), key=path):
        cells = [f"{method.containing_service.name}.{method.name}"]
        for principal in PRINCIPALS.values():
            for team in TEAMS.values():
                decision = decide(principal, path(method), request(method, team, cluster), known)
                cells.append("yes" if decision.allowed else "·")
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def matrix() -> str:
    """The table, and what is otherwise on a playground."""
    head = ["method", *(f"{role}, {whose}" for role in PRINCIPALS for whose in TEAMS)]
    table = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    everywhere = rows()
    there = [row for row in rows(PLAYGROUND.name) if row not in everywhere]
    parts = [HEAD, *table, *everywhere, "", THERE, *table, *there, "", destinations.table()]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    FILE.write_text(matrix())
    sys.stdout.write(f"{FILE}\n")
