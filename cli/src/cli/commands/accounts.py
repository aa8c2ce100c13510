"""`daggers account`: what programs call the gateway as."""

from enum import StrEnum
from typing import Annotated

import typer
from daggers.v1 import access_pb2, gateway_pb2

from cli.framework.deletion import DryRun, Yes, delete
from cli.framework.group import group
from cli.framework.instants import span
from cli.framework.session import Session, command
from cli.output.entries import Entries
from cli.output.json_views.answers import to_json
from daggerclient.teamfile import ROLES
from daggerclient.times import iso

accounts = group()
AccountName = Annotated[str, typer.Argument(help="Name of the account.")]
Lifetime = Annotated[
    str, typer.Option(metavar="SPAN", help="Lifetime of the token, such as 90d; default: no end.")
]
FLAGS = {"name": "NAME", "team": "--team", "description": "--for", "lifetime": "--lifetime"}


class TeamRole(StrEnum):
    """Role of a service account in its team."""

    VIEWER = "viewer"
    EDITOR = "editor"
    OWNER = "owner"


def _row(account: access_pb2.ServiceAccount) -> tuple[str, ...]:
    ends = [iso(token.expire_time) if token.HasField("expire_time") else "never" for token in account.tokens]
    return account.name, account.team, ", ".join(ends) or "-", account.description or "-"


ACCOUNTS = Entries(("NAME", "TEAM", "TOKENS END", "FOR"), _row, "no service accounts yet")


@command(
    accounts,
    "create",
    example="daggers account create ci-deploys --team pricing --role editor --lifetime 90d",
)
def create(
    session: Session,
    name: AccountName,
    team: Annotated[str, typer.Option(help="Team whose owners rotate and revoke it.")],
    role: Annotated[TeamRole, typer.Option(help="Role in that team.")],
    purpose: Annotated[str, typer.Option("--for", metavar="TEXT", help="Description of its purpose.")] = "",
    lifetime: Lifetime = "",
) -> None:
    """Create a service account and print its token, this once."""
    request = gateway_pb2.CreateServiceAccountRequest(
        name=name, team=team, role=ROLES[role], description=purpose
    )
    if lifetime:
        request.lifetime.FromTimedelta(span("--lifetime", lifetime))
    with session.connect(FLAGS) as gateway:
        answer = gateway.call(gateway.access.CreateServiceAccount, request)
    _print(session, answer)


@command(accounts, "rotate", example="daggers account rotate ci-deploys --overlap 1d")
def rotate(
    session: Session,
    name: AccountName,
    overlap: Annotated[
        str,
        typer.Option(
            metavar="SPAN", help="How long the previous token stays valid, such as 1d; default: not at all."
        ),
    ] = "",
    lifetime: Lifetime = "",
) -> None:
    """Give a service account a new token and print it, this once."""
    request = gateway_pb2.RotateServiceAccountRequest(name=name)
    if overlap:
        request.overlap.FromTimedelta(span("--overlap", overlap))
    if lifetime:
        request.lifetime.FromTimedelta(span("--lifetime", lifetime))
    with session.connect({**FLAGS, "overlap": "--overlap"}) as gateway:
        answer = gateway.call(gateway.access.RotateServiceAccount, request)
    _print(session, answer)


@command(accounts, "revoke", example="daggers account revoke ci-deploys --yes")
def revoke(session: Session, name: AccountName, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Revoke a service account: its tokens are no longer valid. Ask first on a terminal."""
    delete(
        session,
        "RevokeServiceAccount",
        gateway_pb2.RevokeServiceAccountRequest(name=name),
        kind="service account",
        name=name,
        yes=yes,
        dry_run=dry_run,
        service="access",
        verb="Revoke",
        done="revoked",
    )


@command(accounts, "list", example="daggers account list --team pricing")
def list_accounts(
    session: Session, team: Annotated[str, typer.Option(help="Only those of this team.")] = ""
) -> None:
    """List the service accounts of your teams."""
    with session.connect() as gateway:
        registered = gateway.accounts(team)
    ACCOUNTS.show_all(session.out, registered)


def _print(
    session: Session,
    answer: gateway_pb2.CreateServiceAccountResponse | gateway_pb2.RotateServiceAccountResponse,
) -> None:
    """Print the token alone on stdout, so that it can be written to a file, and a note on stderr."""
    document = to_json(answer.account) | {"token": answer.token, "sequence": answer.sequence}
    session.out.show(document, lambda out: out.line(answer.token))
    session.out.note("this token is shown once, and kept nowhere: `daggers account rotate` makes another")
