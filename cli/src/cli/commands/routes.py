"""`daggers routes`: who is told of a team's alerts, in which groups, and when."""

import difflib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from daggers.v1 import alerts_pb2, gateway_pb2

from cli.errors import RefusedError
from cli.framework.arguments import File, FileFlag, one_file
from cli.framework.deletion import Yes, agreed, confirm
from cli.framework.gateway import Gateway, in_words
from cli.framework.group import group
from cli.framework.session import Session, command
from cli.output.json_views.answers import to_json
from cli.output.printer import Printer
from cli.output.visible import printable
from daggerclient import InvalidFileError
from daggerclient.routesdocument import to_document
from daggerclient.times import iso

routes = group()
FLAGS = {"team": "TEAM", "message": "--message", "expected_revision": "--to"}
Team = Annotated[str, typer.Argument(metavar="TEAM", help="Name of the team.")]
Message = Annotated[str, typer.Option("--message", "-m", help="Reason, for `daggers routes history`.")]


@command(routes, "apply", example="daggers routes apply pricing-routes.yaml")
def apply(session: Session, file: File = None, flag: FileFlag = None, message: Message = "") -> None:
    """Set the routes of a team to those of a file (`kind: routes`).

    Needs the right to edit in the team. Open alerts stay where they are; those that fire from then on go by
    the new routes. A file that says what is there changes nothing.
    """
    answer = _apply(session, one_file(file, flag), message, check=False)
    revision = answer.revision
    verb = "are applied" if answer.changed else "were there already"
    sentence = f"routes of team {revision.team} {verb} (revision {revision.revision})"
    session.out.print_result(to_json(answer), sentence)


@command(routes, "plan", example="daggers routes plan pricing-routes.yaml")
def plan(session: Session, file: File = None, flag: FileFlag = None) -> None:
    """Show what `daggers routes apply` would change, and which open alerts would move; write nothing."""
    path = one_file(file, flag)
    answer = _apply(session, path, "", check=True)
    with session.connect(FLAGS) as gateway:
        before = _find_newest(gateway, answer.revision.team)
    changes = _compare(before, answer.revision)

    def text(out: Printer) -> None:
        out.lines(changes or ["nothing would change"])
        for moved in answer.rerouted:
            after = ", ".join(moved.after) or "the platform's receivers"
            alert = f"{moved.alert.dagger} [{moved.alert.id}]"
            out.line(
                f"open alert {alert} would go to {after}, and went to {', '.join(moved.before) or 'nobody'}"
            )

    session.out.show(to_json(answer) | {"differences": changes}, text)


@command(routes, "get", example="daggers routes get pricing > pricing-routes.yaml")
def get(
    session: Session,
    team: Team,
    revision: Annotated[
        int | None, typer.Option("--revision", min=1, help="Revision to show; default: the newest.")
    ] = None,
) -> None:
    """Show the routes of a team as the file that makes them."""
    with session.connect(FLAGS) as gateway:
        selected = _find(gateway, team, revision)
    session.out.show(to_json(selected), lambda out: out.lines(_write(selected)))


@command(routes, "list", example="daggers routes list")
def list_routes(session: Session) -> None:
    """List the teams that have routes, with the newest revision of each."""
    with session.connect(FLAGS) as gateway:
        revisions = _list(gateway, "")
    _show_table(session.out, revisions, "no team has routes: all are told at once")


@command(routes, "history", example="daggers routes history pricing")
def history(session: Session, team: Team) -> None:
    """List the revisions of a team's routes, newest first."""
    with session.connect(FLAGS) as gateway:
        revisions = _list(gateway, team)
    _show_table(session.out, revisions, f"team {team} never had routes")


@command(routes, "rollback", example="daggers routes rollback pricing --to 3 --yes")
def rollback(
    session: Session,
    team: Team,
    to: Annotated[int, typer.Option("--to", min=1, help="Revision to restore.")],
    message: Message = "",
    yes: Yes = False,
) -> None:
    """Restore an earlier revision of a team's routes, as a new revision. Ask first on a terminal."""
    with session.connect(FLAGS) as gateway:
        newest, old = _find_newest(gateway, team), _find(gateway, team, to)
        if not old.HasField("routes"):
            raise RefusedError(
                f"revision {to} took the routes away: `daggers routes delete {team}` does that"
            )
        for line in _compare(newest, old):
            session.out.note(line)
        agreed(session, f"Roll the routes of {team} back to revision {to}?", yes=yes)
        request = gateway_pb2.ApplyRoutesRequest(
            team=team,
            routes=old.routes,
            message=message or f"rollback to revision {to}",
            expected_revision=newest.revision if newest else 0,
        )
        answer = gateway.call(gateway.alerts.ApplyRoutes, request)
    sentence = f"routes of team {team} are those of revision {to} (revision {answer.revision.revision})"
    session.out.print_result(to_json(answer), sentence)


@command(routes, "delete", example="daggers routes delete pricing --yes")
def delete(
    session: Session,
    team: Team,
    message: Message = "",
    yes: Yes = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check only, and delete nothing.")] = False,
) -> None:
    """Delete the routes of a team: its receivers are notified at once again. Asks first on a terminal.

    `daggers routes rollback` restores them.
    """
    if not dry_run:
        confirm(session, f"routes of team {team}", yes=yes)
    request = gateway_pb2.DeleteRoutesRequest(team=team, message=message, validate_only=dry_run)
    with session.connect(FLAGS) as gateway:
        answer = gateway.call(gateway.alerts.DeleteRoutes, request)
    verb = "can be deleted" if dry_run else "are deleted"
    session.out.print_result(to_json(answer), f"routes of team {team} {verb}")


def _apply(session: Session, path: Any, message: str, *, check: bool) -> gateway_pb2.ApplyRoutesResponse:
    """Apply or check a file. Raises: RefusedError, with the places of what is wrong in the file."""
    from cli.files.dagger_file import read_file  # what reads files takes long to load
    from daggerclient import routesfile

    try:
        file = routesfile.parse(read_file(path), str(path))
    except InvalidFileError as error:
        raise in_words(error) from error
    request = gateway_pb2.ApplyRoutesRequest(
        team=file.team, routes=file.routes, message=message, validate_only=check
    )
    with session.connect({"message": "--message", "team": "name"}) as gateway:
        try:
            return gateway.call(gateway.alerts.ApplyRoutes, request)
        except RefusedError as refusal:
            findings = [_place(finding, file.places, str(path)) for finding in refusal.findings]
            raise RefusedError(
                refusal.message, reason=refusal.reason, findings=findings, detail=refusal.detail
            ) from refusal


def _place(finding: Mapping[str, Any], places: Mapping[str, tuple[int, int]], path: str) -> dict[str, Any]:
    """Convert a finding of the gateway to one about the file: its key, line and column."""
    key = finding["field"].removeprefix("routes").removeprefix(".").replace("continues", "continue")
    where = places.get(key) or places.get(key.rpartition(".")[0])
    placed = {"line": where[0], "column": where[1]} if where else {}
    return {**finding, "field": key or finding["field"], "file": path, **placed}


def _list(gateway: Gateway, team: str) -> list[gateway_pb2.RoutesRevision]:
    pages = gateway.pages(gateway.alerts.ListRoutes, gateway_pb2.ListRoutesRequest(team=team))
    return [revision for page in pages for revision in page.revisions]


def _find_newest(gateway: Gateway, team: str) -> gateway_pb2.RoutesRevision | None:
    return next(iter(_list(gateway, team)), None)


def _find(gateway: Gateway, team: str, revision: int | None) -> gateway_pb2.RoutesRevision:
    """Return a revision, or the newest. Raises: RefusedError, where there is none."""
    revisions = _list(gateway, team)
    for entry in revisions:
        if revision in (None, entry.revision):
            return entry
    if not revisions:
        raise RefusedError(f"team {team} has no routes: its receivers are told at once", reason="NOT_FOUND")
    oldest = revisions[-1].revision
    raise RefusedError(
        f"revision {revision} of the routes of {team} is not remembered: they go from {oldest} to"
        f" {revisions[0].revision}",
        reason="UNKNOWN_VERSION",
    )


def _show_table(out: Printer, revisions: Sequence[gateway_pb2.RoutesRevision], empty: str) -> None:
    rows = [
        (
            entry.team,
            str(entry.revision),
            iso(entry.time),
            entry.actor or "anonymous",
            str(_count(entry.routes)) if entry.HasField("routes") else "deleted",
            printable(entry.message),
        )
        for entry in revisions
    ]
    columns = ("TEAM", "REVISION", "TIME", "WHO", "ROUTES", "WHY")
    out.show([to_json(entry) for entry in revisions], lambda out: out.table(columns, rows, empty=empty))


def _count(route: alerts_pb2.AlertRoute) -> int:
    return 1 + sum(map(_count, route.routes))


def _compare(before: gateway_pb2.RoutesRevision | None, after: gateway_pb2.RoutesRevision) -> list[str]:
    """Return the lines of the file that differ, with + and -."""
    old = _write(before) if before is not None and before.HasField("routes") else []
    return [line for line in difflib.unified_diff(old, _write(after), n=2, lineterm="") if not _is_head(line)]


def _is_head(line: str) -> bool:
    return line.startswith(("---", "+++", "@@"))


def _write(revision: gateway_pb2.RoutesRevision) -> list[str]:
    """Write the file that makes a revision, line by line."""
    import yaml  # takes long to load

    if not revision.HasField("routes"):
        return [f"# team {revision.team} has no routes any more"]
    document = to_document(revision.team, revision.routes)
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120).splitlines()
