"""`daggers team`: who owns daggers together, who is in it, and what it owns."""

from typing import Annotated

import typer
from daggers.v1 import access_pb2, gateway_pb2

from cli.files.dagger_file import read_file
from cli.framework.arguments import File, FileFlag, one_file
from cli.framework.deletion import DryRun, Yes, delete
from cli.framework.gateway import in_words
from cli.framework.group import group
from cli.framework.session import Session, command
from cli.output import team_usage as team_usage
from cli.output.entries import Entries
from cli.output.json_views.answers import to_json
from cli.output.printer import Printer
from daggerclient import InvalidFileError, teamfile
from daggerclient.teamfile import role_name

teams = group()


def _row(team: access_pb2.Team) -> tuple[str, ...]:
    members = ", ".join(f"{member.principal} ({role_name(member.role)})" for member in team.members)
    return team.name, team.contact or "-", members or "-"


TEAMS = Entries(("NAME", "CONTACT", "MEMBERS"), _row, "no teams yet")
DESTINATIONS: Entries[access_pb2.Destination] = Entries(
    ("DESTINATION", "TEAM"), lambda owned: (owned.name, owned.team), "no team owns any"
)
CONFLICTS: Entries[gateway_pb2.DestinationConflict] = Entries(
    ("DAGGER", "TEAM", "WRITES TO", "OWNER"),
    lambda conflict: (conflict.dagger, conflict.team, conflict.destination, conflict.owned.team),
    "no dagger writes to what another team owns",
)
SENSITIVE: Entries[gateway_pb2.SensitiveConflict] = Entries(
    ("DAGGER", "TEAM", "READS", "AT", "ASKED FOR BY"),
    lambda conflict: (
        conflict.dagger,
        conflict.team,
        f"{conflict.path} of {conflict.stream}",
        f"{conflict.field}:{conflict.line}:{conflict.column}" if conflict.line else conflict.field,
        conflict.updater,
    ),
    "",
)
Destination = Annotated[
    str,
    typer.Argument(
        metavar="DESTINATION",
        help="KIND://SERVER/CONTAINER/NAME, as `daggers team destinations` writes it; a trailing"
        " * takes every destination with that prefix.",
    ),
]


@command(teams, "apply", example="daggers team apply pricing.yaml")
def apply(session: Session, file: File = None, flag: FileFlag = None) -> None:
    """Register the team of a file (`kind: team`), or update it to match the file, members included."""
    path = one_file(file, flag)
    try:
        team = teamfile.parse(read_file(path), str(path))
    except InvalidFileError as error:
        raise in_words(error) from error
    with session.connect({"team.name": "name", "team.contact": "contact"}) as gateway:
        request = gateway_pb2.RegisterTeamRequest(team=team)
        answer = gateway.call(gateway.access.RegisterTeam, request)
    document = TEAMS.document(answer.team, answer)
    session.out.print_result(document, f"team {team.name} is registered (version {answer.version})")


@command(teams, "list", example="daggers team list")
def list_teams(session: Session) -> None:
    """List teams; members are shown for those that you are in."""
    with session.connect() as gateway:
        registered = gateway.teams()
    TEAMS.show_all(session.out, registered)


@command(teams, "get", example="daggers team get pricing")
def get_team(
    session: Session,
    name: Annotated[str, typer.Argument(help="Name of a team; default: the administrators.")] = "",
) -> None:
    """Show a team and its version."""
    with session.connect({"name": "NAME"}) as gateway:
        answer = gateway.call(gateway.access.GetTeam, gateway_pb2.GetTeamRequest(name=name))
    TEAMS.show(session.out, answer.team, answer)


@command(teams, "usage", example="daggers team usage pricing")
def usage(session: Session, name: Annotated[str, typer.Argument(help="Name of a team.")]) -> None:
    """Show how much of its quotas a team uses, and what each of its daggers costs in a day.

    Count of each dagger its running driver, since its launch; -o wide has every column.
    """
    with session.connect({"team": "NAME"}) as gateway:
        answer = gateway.call(gateway.access.GetTeamUsage, gateway_pb2.GetTeamUsageRequest(team=name))

    def text(out: Printer) -> None:
        out.table(team_usage.QUOTA_COLUMNS, team_usage.quotas(answer.uses), empty="")
        out.line("")
        columns = team_usage.COST_WIDE if out.wide else team_usage.COST_COLUMNS
        out.table(
            columns, team_usage.costs(answer.daggers, wide=out.wide), empty=f"team {name} has no daggers"
        )

    session.out.show({"team": name} | to_json(answer), text)


@command(teams, "delete", example="daggers team delete pricing --yes")
def delete_team(
    session: Session,
    name: Annotated[str, typer.Argument(help="Name of a team.")],
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Delete a team. Refused while a dagger, account or destination is of it. Asks first on a terminal."""
    request = gateway_pb2.DeleteTeamRequest(name=name)
    delete(session, "DeleteTeam", request, kind="team", name=name, yes=yes, dry_run=dry_run, service="access")


@command(teams, "destinations", example="daggers team destinations --team pricing")
def list_destinations(
    session: Session, team: Annotated[str, typer.Option(help="Only those of this team.")] = ""
) -> None:
    """List the destinations of sinks, and the team that owns each.

    No other team's daggers may write to an owned destination. The first dagger that writes somewhere makes it
    its team's. It stays so when that dagger is deleted, until it is released or given to another team.
    """
    with session.connect() as gateway:
        owned = gateway.destinations(team)
    DESTINATIONS.show_all(session.out, owned)


@command(teams, "conflicts", example="daggers team conflicts --team pricing")
def list_conflicts(
    session: Session,
    team: Annotated[str, typer.Option(help="Only conflicts of this team's daggers and destinations.")] = "",
) -> None:
    """List the daggers that write to a destination of another team.

    They run on, and are refused at their next edit. Give the destination to one of the teams (`daggers team
    give`), or let one of them write elsewhere. Daggers that use a sensitive field which their editors may not
    see are listed, too: grant it (`daggers grant sensitive`), or have somebody with the grant edit them.
    """
    request = gateway_pb2.ListDestinationConflictsRequest(team=team)
    with session.connect({"team": "--team"}) as gateway:
        answer = gateway.call(gateway.access.ListDestinationConflicts, request)
    conflicts, sensitive = list(answer.conflicts), list(answer.sensitive)

    def text(out: Printer) -> None:
        if conflicts or not sensitive:
            out.table(CONFLICTS.columns, map(CONFLICTS.row, conflicts), empty=CONFLICTS.empty)
        if sensitive:
            out.table(SENSITIVE.columns, map(SENSITIVE.row, sensitive), empty=SENSITIVE.empty)

    views = [*map(to_json, conflicts), *map(to_json, sensitive)]
    session.out.show(views, text)


@command(teams, "give", example="daggers team give 'influx://influx:8086/rows/pricing_*' pricing")
def give(
    session: Session,
    destination: Destination,
    team: Annotated[str, typer.Argument(metavar="TEAM", help="New owner.")],
) -> None:
    """Make a team the owner of a destination: one without an owner, or another team's.

    Only administrators may. Daggers of another team that write there run on, and are refused at their next
    edit.
    """
    owned = access_pb2.Destination(name=destination, team=team)
    with session.connect({"destination.name": "DESTINATION", "destination.team": "TEAM"}) as gateway:
        answer = gateway.call(
            gateway.access.GiveDestination, gateway_pb2.GiveDestinationRequest(destination=owned)
        )
    document = DESTINATIONS.document(answer.destination, answer)
    session.out.print_result(document, f"{destination} is team {team}'s (version {answer.version})")


@command(teams, "release", example="daggers team release influx://influx:8086/rows/fares --yes")
def release(
    session: Session,
    destination: Destination,
    yes: Yes = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check whether it can be released, and release nothing.")
    ] = False,
) -> None:
    """Release a destination that no dagger writes to: the first team that writes there owns it.

    Only owners of the team may. Its content stays, and is then shown to the next team. Ask first on a
    terminal.
    """
    request = gateway_pb2.ReleaseDestinationRequest(name=destination)
    delete(
        session,
        "ReleaseDestination",
        request,
        kind="destination",
        name=destination,
        yes=yes,
        dry_run=dry_run,
        service="access",
        verb="Release",
        done="released",
    )
