"""`daggers reference`: tables that queries look things up in (DartGet, DartContains)."""

from enum import StrEnum
from typing import Annotated

import typer
from daggers.v1 import gateway_pb2, spec_pb2

from cli.framework.deletion import DryRun, Yes, delete
from cli.framework.group import group
from cli.framework.session import Session, command
from cli.output.entries import Entries
from cli.output.json_views.answers import to_json

references = group()
FLAGS = {
    "reference.name": "NAME",
    "reference.format": "--format",
    "reference.location": "--location",
}


def _row(table: spec_pb2.ReferenceTable) -> tuple[str, ...]:
    return table.name, to_json(table)["format"], table.location


REFERENCES = Entries(("NAME", "FORMAT", "LOCATION"), _row, "no reference tables yet")


class TableFormat(StrEnum):
    """Formats of a reference table's file."""

    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


@command(
    references,
    "register",
    example="daggers reference register cities --format csv --location /srv/tables/cities.csv",
)
def register(
    session: Session,
    name: Annotated[str, typer.Argument(help="Name of the table, as queries write it.")],
    form: Annotated[TableFormat, typer.Option("--format", help="Format of the file.")],
    location: Annotated[
        str,
        typer.Option(
            help="Absolute path on the drivers' host, or http(s) URL, in a place that the gateway's"
            " DAGGERS_GATEWAY_REFERENCE_PLACES allows; a local stack allows the folder `references` of its"
            " state directory."
        ),
    ],
) -> None:
    """Register a reference table, or replace it. Daggers that use it read it again from time to time."""
    value = spec_pb2.ReferenceTable.Format.Value(f"FORMAT_{form.name}")
    table = spec_pb2.ReferenceTable(name=name, format=value, location=location)
    with session.connect(FLAGS) as gateway:
        answer = gateway.call(
            gateway.catalog.RegisterReference, gateway_pb2.RegisterReferenceRequest(reference=table)
        )
    document = REFERENCES.document(answer.reference, answer)
    session.out.print_result(document, f"reference table {name} is registered (version {answer.version})")


@command(references, "list", example="daggers reference list")
def list_references(session: Session) -> None:
    """List registered reference tables."""
    with session.connect() as gateway:
        registered = gateway.references()
    REFERENCES.show_all(session.out, registered)


@command(references, "get", example="daggers reference get cities")
def get_reference(
    session: Session, name: Annotated[str, typer.Argument(help="Name of a registered table.")]
) -> None:
    """Show a reference table and its version."""
    with session.connect() as gateway:
        answer = gateway.call(gateway.catalog.GetReference, gateway_pb2.GetReferenceRequest(name=name))
    REFERENCES.show(session.out, answer.reference, answer)


@command(references, "delete", example="daggers reference delete cities --yes")
def delete_reference(
    session: Session,
    name: Annotated[str, typer.Argument(help="Name of a registered table.")],
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Delete a reference table. Refused while the query of a dagger names it. Asks first on a terminal."""
    request = gateway_pb2.DeleteReferenceRequest(name=name)
    delete(session, "DeleteReference", request, kind="reference table", name=name, yes=yes, dry_run=dry_run)
