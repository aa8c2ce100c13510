"""`daggers secret` and `daggers sink`: registered sinks, and the secrets that they need."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from daggers.v1 import gateway_pb2, spec_pb2

from cli.errors import MisusedError, RefusedError
from cli.files.dagger_file import one_dagger, read_file, validate_file, with_place
from cli.framework.arguments import File, FileFlag, one_file
from cli.framework.deletion import DryRun, Yes, delete
from cli.framework.gateway import in_words
from cli.framework.group import group
from cli.framework.session import Session, command
from cli.output.entries import Entries
from cli.output.json_views import sinks as views
from cli.output.json_views.answers import to_json
from cli.output.json_views.findings import finding
from daggerclient import InvalidFileError, sinkfile
from daggerclient.findings import headline
from daggerspec.nearest import hint, nearest
from daggerspec.registered import addresses
from daggerspec.sinks import kind_of, kinds, load, names

secrets = group()
sinks = group()
T = TypeVar("T")
TEST_S = 300.0
"""Longest time of all steps of a test, in seconds."""
_REFUSED = 1
Name = Annotated[str, typer.Argument(help="Name of the entry.")]
Kind = Annotated[str | None, typer.Argument(help="Kind of sinks.")]


def _secret_row(secret: spec_pb2.Secret) -> tuple[str, ...]:
    place = to_json(secret)["place"]
    where = " ".join(f"{kind}:{name}" for kind, name in place.items()) if isinstance(place, dict) else "-"
    return secret.name, secret.team or "-", where, ", ".join(secret.addresses)


def _sink_row(sink: spec_pb2.RegisteredSink) -> tuple[str, ...]:
    kind = kind_of(sink.sink)
    if kind is None:
        return sink.name, "-", "-", "-"
    first, *_ = addresses(load(kind).KEYS)
    where = first.value(getattr(sink.sink, kind))
    return sink.name, kind, where, ", ".join(sink.teams) or "all"


SECRETS = Entries(("NAME", "TEAM", "PLACE", "ADDRESSES"), _secret_row, "no secrets yet")
SINKS = Entries(("NAME", "KIND", "WHERE", "TEAMS"), _sink_row, "no registered sinks yet")


def _read(read: Callable[[str, str], T], file: Path | None, flag: Path | None) -> T:
    """Read the resource of a file. Raises: CliError."""
    path = one_file(file, flag)
    try:
        return read(read_file(path), str(path))
    except InvalidFileError as error:
        raise in_words(error) from error


@command(secrets, "apply", example="daggers secret apply crm-token.yaml")
def apply_secret(session: Session, file: File = None, flag: FileFlag = None) -> None:
    """Register the secret of a file (`kind: secret`), or replace it: its place, never its value."""
    secret = _read(sinkfile.secret, file, flag)
    flags = {f"secret.{name}": name for name in ("name", "team", "place", "addresses")}
    with session.connect(flags) as gateway:
        request = gateway_pb2.RegisterSecretRequest(secret=secret)
        answer = gateway.call(gateway.sinks.RegisterSecret, request)
    document = SECRETS.document(answer.secret, answer)
    session.out.print_result(document, f"secret {secret.name} is registered (version {answer.version})")


@command(secrets, "list", example="daggers secret list")
def list_secrets(session: Session) -> None:
    """List secrets; places are shown for those of your teams."""
    with session.connect() as gateway:
        registered = gateway.secrets()
    SECRETS.show_all(session.out, registered)


@command(secrets, "get", example="daggers secret get crm-token")
def get_secret(session: Session, name: Name) -> None:
    """Show a secret and its version."""
    with session.connect({"name": "NAME"}) as gateway:
        answer = gateway.call(gateway.sinks.GetSecret, gateway_pb2.GetSecretRequest(name=name))
    SECRETS.show(session.out, answer.secret, answer)


@command(secrets, "delete", example="daggers secret delete crm-token --yes")
def delete_secret(session: Session, name: Name, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Delete a secret. Refused while a cluster, a sink or a dagger names it. Asks first on a terminal."""
    request = gateway_pb2.DeleteSecretRequest(name=name)
    delete(
        session, "DeleteSecret", request, kind="secret", name=name, yes=yes, dry_run=dry_run, service="sinks"
    )


@command(sinks, "apply", example="daggers sink apply crm.yaml")
def apply_sink(session: Session, file: File = None, flag: FileFlag = None) -> None:
    """Register the sink of a file (`kind: sink`), or replace it: for daggers from their next launch on."""
    sink = _read(sinkfile.sink, file, flag)
    flags = {"sink.name": "name", "sink.teams": "teams", "sink.limit": "limit", "sink.by_team": "by_team"}
    if kind := kind_of(sink.sink):
        keys = addresses(load(kind).KEYS)
        flags |= {f"sink.sink.{kind}.{key.field}": f"{kind}.{key.name}" for key in keys}
        for number, parts in enumerate(sink.by_team):
            flags |= {
                f"sink.by_team[{number}].sink.{kind}.{key.field}": f"by_team.{parts.team}.{key.name}"
                for key in keys
            }
    with session.connect(flags) as gateway:
        request = gateway_pb2.RegisterSinkRequest(sink=sink)
        answer = gateway.call(gateway.sinks.RegisterSink, request)
    document = SINKS.document(answer.sink, answer)
    session.out.print_result(document, f"sink {sink.name} is registered (version {answer.version})")


@command(sinks, "list", example="daggers sink list")
def list_sinks(session: Session) -> None:
    """List registered sinks."""
    with session.connect() as gateway:
        registered = gateway.registered_sinks()
    SINKS.show_all(session.out, registered)


@command(sinks, "get", example="daggers sink get crm")
def get_sink(session: Session, name: Name) -> None:
    """Show a registered sink and its version."""
    with session.connect({"name": "NAME"}) as gateway:
        answer = gateway.call(gateway.sinks.GetSink, gateway_pb2.GetSinkRequest(name=name))
    SINKS.show(session.out, answer.sink, answer)


@command(sinks, "delete", example="daggers sink delete crm --yes")
def delete_sink(session: Session, name: Name, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Delete a registered sink. Refused while a dagger names it. Asks first on a terminal."""
    request = gateway_pb2.DeleteSinkRequest(name=name)
    delete(session, "DeleteSink", request, kind="sink", name=name, yes=yes, dry_run=dry_run, service="sinks")


Dagger = Annotated[str, typer.Argument(metavar="NAME", help="Name of the dagger.")]
OwnSink = Annotated[str, typer.Argument(metavar="SINK", help="Name of one of its sinks.")]


@command(sinks, "pause", example="daggers sink pause completed_bookings crm")
def pause(session: Session, name: Dagger, sink: OwnSink) -> None:
    """Let the rows of one sink wait, up to 1 GiB and the time of its rule; the other sinks go on."""
    with session.connect({"name": "NAME", "sink": "SINK"}) as gateway:
        request = gateway_pb2.PauseSinkRequest(name=name, sink=sink)
        answer = gateway.call(gateway.daggers.PauseSink, request)
    session.out.print_result(
        {"sequence": answer.sequence}, f"rows of {name} for {sink} wait until it is resumed"
    )


@command(sinks, "resume", example="daggers sink resume completed_bookings crm")
def resume(session: Session, name: Dagger, sink: OwnSink) -> None:
    """Write the rows of a paused sink again: what waits first, in order."""
    with session.connect({"name": "NAME", "sink": "SINK"}) as gateway:
        request = gateway_pb2.ResumeSinkRequest(name=name, sink=sink)
        answer = gateway.call(gateway.daggers.ResumeSink, request)
    session.out.print_result({"sequence": answer.sequence}, f"rows of {name} for {sink} are written again")


@command(sinks, "test", example="daggers sink test crm")
def try_sink(
    session: Session,
    name: Annotated[str | None, typer.Argument(help="Name of a registered sink.")] = None,
    flag: Annotated[
        Path | None,
        typer.Option("-f", "--file", help="Dagger file, whose sinks are tested in place of NAME."),
    ] = None,
    send_one: Annotated[
        bool, typer.Option("--send-one", help="Write a test row to each sink of the file, too.")
    ] = False,
) -> None:
    """Test a registered sink, or those of a dagger file, from a host of drivers, step by step.

    Try secrets, addresses, the connection, its certificates, and what the sink answers. Nothing is written
    without --send-one. Exit with 1 when a step fails. -o json gives one JSON document a line.
    """
    if (name is None) == (flag is None):
        raise MisusedError("NAME or --file FILE: name one of them")
    if send_one and flag is None:
        raise MisusedError("--send-one goes with --file FILE: a registered sink says where it is, not what")
    request = gateway_pb2.TestSinkRequest(sink=name or "", send_one=send_one)
    one = None
    if flag is not None:
        one = one_dagger(session, flag, "tried")
        request.name = one.name
        request.spec.CopyFrom(one.spec)
    failed: list[str] = []
    with session.connect({"sink": "NAME"}) as gateway:
        try:
            for answer in gateway.stream(gateway.sinks.TestSink, request, deadline_s=TEST_S):
                if answer.step.outcome != gateway_pb2.SinkStep.OUTCOME_OK:
                    failed.append(answer.step.sink)
                _show_step(session, answer.step)
        except RefusedError as refusal:
            if refusal.findings and one is not None:
                raise with_place(refusal, one, str(flag)) from refusal
            raise
    if failed:
        session.out.note(f"{', '.join(dict.fromkeys(failed))} cannot be written to")
        raise typer.Exit(_REFUSED)


@command(sinks, "ddl", example="daggers sink ddl -f trips.yaml")
def show_ddl(
    session: Session,
    name: Annotated[str | None, typer.Argument(help="Name of a dagger.")] = None,
    flag: Annotated[Path | None, typer.Option("-f", "--file", help="Dagger file, in place of NAME.")] = None,
) -> None:
    """Print the SQL that creates what the sinks of a dagger write to: tables, indices, tables of marks.

    Use it where a sink may not create tables itself (`create_table`): it is what that runs, and what psql
    takes. No database is called.
    """
    if (name is None) == (flag is None):
        raise MisusedError("NAME or --file FILE: name one of them")
    if flag is not None:
        examined = validate_file(session, read_file(flag), str(flag))
        examined.check()
        ddl_by_dagger = examined.ddl
    else:
        ddl_by_dagger = {str(name): _ddl_of(session, str(name))}
    documents = [
        {"dagger": dagger, "sink": sink.sink, "statements": list(sink.statements)}
        for dagger, ddl in ddl_by_dagger.items()
        for sink in ddl
    ]
    session.out.show(documents, lambda out: out.lines(_script(documents)))
    if not documents:
        session.out.note("no sink needs anything to be made by SQL")


def _ddl_of(session: Session, name: str) -> Sequence[gateway_pb2.SinkDdl]:
    """Return the statements that a dagger's sinks need. Raises: RefusedError where it can no longer be
    validated.
    """
    with session.connect() as gateway:
        request = gateway_pb2.ValidateRequest(name=name, spec=gateway.get(name).spec)
        answer = gateway.call(gateway.daggers.Validate, request)
    findings = map(finding, answer.findings)
    if errors := [one for one in findings if one["severity"] == "error"]:
        raise RefusedError(f"{name}: {headline(errors)}", reason="INVALID_SPEC", findings=errors)
    return answer.ddl


def _script(documents: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for sink in documents:
        yield f"-- {sink['sink']} of {sink['dagger']}"
        yield from (f"{statement};" for statement in sink["statements"])


def _show_step(session: Session, step: gateway_pb2.SinkStep) -> None:
    if session.out.json:
        session.out.document(to_json(step))
        return
    is_well = step.outcome == gateway_pb2.SinkStep.OUTCOME_OK
    why = "" if is_well else f"{step.reason}: "
    session.out.line(f"{'✓' if is_well else '✗'} {step.sink}  {step.what:<8} {why}{step.detail}")


@command(sinks, "kinds", example="daggers sink kinds postgres")
def list_kinds(session: Session, kind: Kind = None) -> None:
    """List the kinds of sinks with what each promises and needs, or the keys of one in a dagger file."""
    if kind is None:
        listed = [views.kind_document(name, kind) for name, kind in kinds().items()]
        rows = [(kind["kind"], kind["guarantee"], *_does(kind), kind["about"]) for kind in listed]
        columns = ("KIND", "GUARANTEE", "EARLY", "AT ONCE", "NEEDS", "ABOUT")
        session.out.show(listed, lambda out: out.table(columns, rows, empty=""))
        return
    if kind not in names():
        others = hint(nearest(kind, names()), f": there are {', '.join(names())}")
        raise MisusedError(f"there is no kind {kind}{others}")
    document = views.kind_document(kind, load(kind))
    keys = [(key["key"], key["needed"], key["about"]) for key in document["keys"]]
    session.out.show(document, lambda out: out.table(("KEY", "NEEDED", "ABOUT"), keys, empty="no keys"))


def _does(kind: dict[str, Any]) -> tuple[str, str, str]:
    """Format whether rows may be updated, the limit of one request, and the required keys."""
    rows, size = kind["max_rows"], kind["max_bytes"]
    most = [f"{rows:,} row{'' if rows == 1 else 's'}"] if rows else []
    most += [f"{size / 1024 / 1024:g} MiB"] if size else []
    needs = ", ".join(_required_keys(kind["keys"])) or "-"
    return "yes" if kind["emit_early"] else "no", ", ".join(most) or "-", needs


def _required_keys(keys: Sequence[dict[str, Any]]) -> list[str]:
    """Return the required keys of a kind. Keys of an optional mapping, as `auth`, are required only within
    it.
    """
    required: list[str] = []
    for key in keys:
        owner = key["key"].rpartition(".")[0]
        if key["needed"] == "yes" and (not owner or owner in required):
            required.append(key["key"])
    return [key for key in required if not any(other.startswith(f"{key}.") for other in required)]
