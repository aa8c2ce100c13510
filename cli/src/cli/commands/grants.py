"""`daggers grant`: roles in teams, and the teams that may read a stream."""

from enum import StrEnum
from typing import Annotated

import typer
from daggers.v1 import access_pb2, gateway_pb2

from cli.commands.teams import TEAMS
from cli.errors import MisusedError
from cli.framework.gateway import Gateway
from cli.framework.group import group
from cli.framework.session import Session, command
from cli.output.entries import Entries

grants = group()
Who = Annotated[str, typer.Argument(metavar="PRINCIPAL", help="user:NAME, group:NAME or account:NAME.")]
Team = Annotated[str, typer.Option(help="The team; none for the role administrator.")]
FLAGS = {"principal": "PRINCIPAL", "team": "--team", "role": "ROLE"}


class GrantedRole(StrEnum):
    """Role that is granted."""

    VIEWER = "viewer"
    EDITOR = "editor"
    OWNER = "owner"
    ADMINISTRATOR = "administrator"


def _row(grant: access_pb2.StreamGrant) -> tuple[str, ...]:
    teams = (", ".join(grant.teams) or "none") if grant.restricted else "all"
    return grant.stream, teams, ", ".join(grant.read_sensitive) or "-"


GRANTS = Entries(("STREAM", "TEAMS", "SENSITIVE FIELDS"), _row, "every team may read every stream")


@command(grants, "role", example="daggers grant role user:ada@example.org owner --team pricing")
def role(
    session: Session,
    principal: Who,
    role: Annotated[
        GrantedRole, typer.Argument(metavar="ROLE", help="viewer, editor, owner or administrator.")
    ],
    team: Team = "",
) -> None:
    """Add somebody to a team, or change their role in it; or make somebody an administrator."""
    if (role is GrantedRole.ADMINISTRATOR) == bool(team):
        raise MisusedError("--team: name one for viewer, editor and owner, and none for administrator")
    value = access_pb2.Role.Value(f"ROLE_{role.name}")
    request = gateway_pb2.GrantRoleRequest(team=team, principal=principal, role=value)
    with session.connect(FLAGS) as gateway:
        answer = gateway.call(gateway.access.GrantRole, request)
    where = f"team {team}" if team else "the platform"
    session.out.print_result(TEAMS.document(answer.team, answer), f"{principal} is {role} of {where}")


@command(grants, "revoke", example="daggers grant revoke user:ada@example.org --team pricing")
def revoke(session: Session, principal: Who, team: Team = "") -> None:
    """Remove somebody from a team; without --team, from the administrators."""
    with session.connect(FLAGS) as gateway:
        request = gateway_pb2.RevokeRoleRequest(team=team, principal=principal)
        answer = gateway.call(gateway.access.RevokeRole, request)
    where = f"team {team}" if team else "the platform"
    session.out.print_result(
        TEAMS.document(answer.team, answer), f"{principal} has no role in {where} any more"
    )


@command(grants, "stream", example="daggers grant stream bookings --team pricing --team riders")
def stream(
    session: Session,
    name: Annotated[str, typer.Argument(help="Name of a registered stream.")],
    team: Annotated[
        list[str] | None, typer.Option(help="Team that may read it, and no other; may be repeated.")
    ] = None,
    everybody: Annotated[bool, typer.Option("--all", help="Let all teams read it.")] = False,
    nobody: Annotated[bool, typer.Option("--none", help="Let no team read it.")] = False,
) -> None:
    """Set which teams may read a stream. Daggers that read it already go on."""
    if [bool(team), everybody, nobody].count(True) != 1:
        raise MisusedError("say either --team, --all or --none")
    flags = {"grant.stream": "NAME", "grant.teams": "--team"}
    with session.connect(flags) as gateway:
        grant = _find_grant(gateway, name)
        grant.restricted, grant.teams[:] = not everybody, team or ()
        request = gateway_pb2.SetStreamGrantRequest(grant=grant)
        answer = gateway.call(gateway.access.SetStreamGrant, request)
    who = _row(answer.grant)[1]
    session.out.print_result(GRANTS.document(answer.grant, answer), f"stream {name} is read by: {who}")


@command(grants, "sensitive", example="daggers grant sensitive bookings --to user:ada@example.org")
def sensitive(
    session: Session,
    name: Annotated[str, typer.Argument(help="Name of a registered stream.")],
    to: Annotated[
        list[str] | None,
        typer.Option(help="user:NAME, group:NAME or account:NAME, and nobody else; may be repeated."),
    ] = None,
    nobody: Annotated[bool, typer.Option("--none", help="Let only administrators see them.")] = False,
) -> None:
    """Set who sees the sensitive fields of a stream, and may have values made of them written to sinks."""
    if bool(to) == nobody:
        raise MisusedError("say either --to or --none")
    with session.connect({"grant.stream": "NAME", "grant.read_sensitive": "--to"}) as gateway:
        grant = _find_grant(gateway, name)
        grant.read_sensitive[:] = to or ()
        request = gateway_pb2.SetStreamGrantRequest(grant=grant)
        answer = gateway.call(gateway.access.SetStreamGrant, request)
    who = ", ".join(("administrators", *answer.grant.read_sensitive))
    session.out.print_result(
        GRANTS.document(answer.grant, answer), f"sensitive fields of stream {name} are seen by: {who}"
    )


def _find_grant(gateway: Gateway, stream: str) -> access_pb2.StreamGrant:
    """Return the present grant of a stream; an empty one where there is none."""
    grants = (grant for grant in gateway.grants() if grant.stream == stream)
    return next(grants, access_pb2.StreamGrant(stream=stream))


@command(grants, "list", example="daggers grant list")
def list_grants(session: Session) -> None:
    """List which teams may read which streams; all teams may read a stream that is not listed."""
    with session.connect() as gateway:
        granted = gateway.grants()
    GRANTS.show_all(session.out, granted)
