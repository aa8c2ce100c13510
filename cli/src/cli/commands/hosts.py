"""`daggers host`: lists the hosts of drivers, and confirms that one is gone."""

from collections.abc import Iterator, Sequence
from typing import Annotated

import typer
from daggers.v1 import gateway_pb2

from cli.framework.deletion import Yes, agreed
from cli.framework.group import group
from cli.framework.session import Session, command
from cli.output.entries import Entries
from cli.output.json_views.answers import to_json
from cli.output.printer import Printer
from daggerclient.times import iso

hosts = group()
Name = Annotated[str, typer.Argument(help="Name of a host, as `daggers host list` shows it.")]
FLAGS = {"name": "NAME", "message": "--message"}


def _format_state(host: gateway_pb2.Host) -> str:
    """Return `gone`, `leads` or `stands by`."""
    if host.HasField("gone"):
        return "gone"
    return "leads" if host.leads else "stands by"


def _build_row(host: gateway_pb2.Host) -> tuple[str, ...]:
    # Hosts whose scheduler is older than HostRegistered have no resources in the log.
    registered, is_registered = host.registered, host.HasField("registered")
    return (
        host.name,
        _format_state(host),
        str(host.daggers),
        str(registered.cores) if is_registered else "-",
        f"{registered.memory_mib} MiB" if is_registered else "-",
        ("shared" if registered.shared_checkpoints else "its own disk") if is_registered else "-",
        iso(host.heard_time) if host.HasField("heard_time") else "-",
    )


HOSTS = Entries(
    ("NAME", "STATE", "DAGGERS", "CORES", "MEMORY", "CHECKPOINTS", "HEARD"),
    _build_row,
    "no scheduler has said where it runs",
)


@command(hosts, "list", example="daggers host list")
def list_hosts(session: Session) -> None:
    """List every host that the log knows, with what it has. For administrators."""
    with session.connect() as gateway:
        answer = gateway.call(gateway.fleet.ListHosts, gateway_pb2.ListHostsRequest())
    HOSTS.show_all(session.out, answer.hosts)


@command(hosts, "show", example="daggers host show machine-2")
def show(session: Session, name: Name) -> None:
    """Show one host, and the daggers that have a driver there, or may have one. For administrators."""
    with session.connect(FLAGS) as gateway:
        answer = gateway.call(gateway.fleet.GetHost, gateway_pb2.GetHostRequest(name=name))
    document = to_json(answer.host) | {
        "on_it": list(map(to_json, answer.daggers)),
        "sequence": answer.sequence,
    }

    def print_text(out: Printer) -> None:
        out.table(HOSTS.columns, [_build_row(answer.host)], empty="")
        if answer.host.HasField("gone"):
            gone = answer.host.gone
            why = f": {gone.message}" if gone.message else ""
            out.line(f"gone since {iso(gone.time)}, says {gone.actor or '?'}{why}")
        rows = [(dagger.name, dagger.team, gateway_pb2.Phase.Name(dagger.phase)) for dagger in answer.daggers]
        out.table(("DAGGER", "TEAM", "PHASE"), rows, empty="no dagger has a driver there")

    session.out.show(document, print_text)


@command(hosts, "confirm-gone", example='daggers host confirm-gone machine-2 --message "its disk is dead"')
def confirm_gone(
    session: Session,
    name: Name,
    message: Annotated[str, typer.Option(help="Why you know: kept in the log.")] = "",
    yes: Yes = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would follow.")] = False,
) -> None:
    """Confirm that a host is gone for good, so that its daggers are launched on another one.

    For administrators. Refused while the host is heard. Says first which daggers keep their state and which
    begin anew, and asks on a terminal. Without a shared checkpoint root nothing stops a driver that lives
    there after all: switch the machine off first.
    """
    request = gateway_pb2.ConfirmHostGoneRequest(name=name, message=message, validate_only=True)
    with session.connect(FLAGS) as gateway:
        answer = gateway.call(gateway.fleet.ConfirmHostGone, request)
        for sentence in describe_consequences(name, answer.daggers):
            session.out.note(sentence)
        if not dry_run:
            agreed(session, f"Is host {name} gone?", yes=yes)
            request = gateway_pb2.ConfirmHostGoneRequest(name=name, message=message, epoch=answer.host.epoch)
            answer = gateway.call(gateway.fleet.ConfirmHostGone, request)
    document = to_json(answer.host) | {
        "on_it": list(map(to_json, answer.daggers)),
        "sequence": answer.sequence,
        "dry_run": dry_run,
    }
    session.out.print_result(document, f"host {name} {'can be' if dry_run else 'is'} confirmed to be gone")


def describe_consequences(host: str, daggers: Sequence[gateway_pb2.HostedDagger]) -> Iterator[str]:
    """Yield a sentence for each group of daggers: those that keep their state, and those that begin anew."""
    keep = [dagger.name for dagger in daggers if dagger.keeps_state]
    anew = [dagger.name for dagger in daggers if not dagger.keeps_state]
    if not daggers:
        yield f"no dagger has a driver on host {host}: nothing is launched"
    if keep:
        yield (
            f"launched elsewhere, from the checkpoints that all hosts reach: {', '.join(keep)}; whoever still"
            " lives there is fenced by the lease"
        )
    if anew:
        yield (
            f"launched elsewhere without their checkpoints, which are on that host's disk: {', '.join(anew)}."
            " Each reads from its `start`: with `latest`, what came while it was away and what its open"
            " windows had is lost; with `earliest` or an instant, rows are written again over the old ones,"
            " as far back as Kafka has records"
        )
