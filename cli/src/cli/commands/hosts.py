"""`daggers host`: lists the hosts of drivers, cordons and drains them, and confirms that one is gone."""

import time
import uuid
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final

import typer
from daggers.v1 import events_pb2, gateway_pb2

from cli.errors import RefusedError
from cli.framework.arguments import Timeout
from cli.framework.deletion import Yes, agreed
from cli.framework.gateway import Gateway
from cli.framework.group import group
from cli.framework.session import Session, command
from cli.output.entries import Entries
from cli.output.json_views.answers import silence_s, to_json
from cli.output.printer import Printer
from daggerclient.times import iso

hosts = group()
Name = Annotated[str, typer.Argument(help="Name of a host, as `daggers host list` shows it.")]
Message = Annotated[str, typer.Option(help="Reason, for those who come after: kept in the log.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would follow.")]
FLAGS = {"name": "NAME", "message": "--message"}
WAIT_S: Final = 3600.0
_LOOK_S: Final = 1.0
_PASSING: Final = "NOT_SETTLED"
"""Reason of a dagger that stays only until something else about it is done."""


def _format_state(host: gateway_pb2.Host) -> str:
    """Return `gone`, `leads` or `stands by`, and whether it is cordoned or drained."""
    state = "gone" if host.HasField("gone") else "leads" if host.leads else "stands by"
    if not host.HasField("cordon"):
        return state
    return f"{state}, {'drained' if host.cordon.drains else 'cordoned'}"


def _build_row(host: gateway_pb2.Host) -> tuple[str, ...]:
    # Hosts whose scheduler is older than HostRegistered have no resources in the log.
    registered, is_registered = host.registered, host.HasField("registered")
    return (
        host.name,
        _format_state(host),
        str(host.daggers),
        str(host.room_left) if host.HasField("room_left") else "-",
        str(registered.cores) if is_registered else "-",
        f"{registered.memory_mib} MiB" if is_registered else "-",
        ("shared" if registered.shared_checkpoints else "its own disk") if is_registered else "-",
        iso(host.heard_time) if host.HasField("heard_time") else "-",
    )


HOSTS = Entries(
    ("NAME", "STATE", "DAGGERS", "ROOM", "CORES", "MEMORY", "CHECKPOINTS", "HEARD"),
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
    """Show one host: its room in daggers like those it has, its daggers, and what a drain has moved.

    For administrators.
    """
    with session.connect(FLAGS) as gateway:
        answer = gateway.call(gateway.fleet.GetHost, gateway_pb2.GetHostRequest(name=name))
    document = _build_document(answer)

    def print_text(out: Printer) -> None:
        out.table(HOSTS.columns, [_build_row(answer.host)], empty="")
        if answer.host.HasField("gone"):
            gone = answer.host.gone
            why = f": {gone.message}" if gone.message else ""
            out.line(f"gone since {iso(gone.time)}, says {gone.actor or '?'}{why}")
        for sentence in (*describe_registration(answer.host.registered), *describe_cordon(answer.host)):
            out.line(sentence)
        rows = [(dagger.name, dagger.team, gateway_pb2.Phase.Name(dagger.phase)) for dagger in answer.daggers]
        out.table(("DAGGER", "TEAM", "PHASE"), rows, empty="no dagger has a driver there")
        if answer.host.cordon.drains:
            for sentence in describe_stays(answer.daggers):
                out.line(sentence)

    session.out.show(document, print_text)


def _build_document(answer: Any) -> dict[str, Any]:
    """Return the document of an answer that has a host and its daggers."""
    return to_json(answer.host) | {
        "on_it": list(map(to_json, answer.daggers)),
        "sequence": answer.sequence,
    }


@command(hosts, "cordon", example='daggers host cordon machine-2 --message "new kernel tonight"')
def cordon(session: Session, name: Name, message: Message = "") -> None:
    """Stop placing daggers on a host; what runs there goes on. For administrators.

    A dagger whose driver ends there is launched on another host, and there again only when no other has room.
    Stops a drain that goes on. Ends with `daggers host uncordon`, not with a boot.
    """
    request = gateway_pb2.CordonHostRequest(name=name, message=message, request_id=uuid.uuid4().hex)
    with session.connect(FLAGS) as gateway:
        answer = gateway.call(gateway.fleet.CordonHost, request)
    session.out.print_result(_build_document(answer), f"host {name} is cordoned: nothing new is placed there")


@command(hosts, "uncordon", example="daggers host uncordon machine-2")
def uncordon(session: Session, name: Name, message: Message = "") -> None:
    """Let a host take launches again: end a cordon, or a drain. For administrators.

    A dagger that a drain has told to stop finishes that; all others stay where they are.
    """
    request = gateway_pb2.UncordonHostRequest(name=name, message=message, request_id=uuid.uuid4().hex)
    with session.connect(FLAGS) as gateway:
        answer = gateway.call(gateway.fleet.UncordonHost, request)
    session.out.print_result(_build_document(answer), f"host {name} takes launches again")


@command(hosts, "drain", example="daggers host drain machine-2 --wait")
def drain(
    session: Session,
    name: Name,
    message: Message = "",
    yes: Yes = False,
    dry_run: DryRun = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until nothing more can move.")] = False,
    timeout: Timeout = WAIT_S,
) -> None:
    """Move the daggers of a host to other hosts: one after another, critical ones last.

    For administrators. Nothing new is placed there. Each finishes its batch, and goes on elsewhere from its
    checkpoint. Says by name what cannot move, and why. `daggers host show` says how long each was silent;
    `uncordon` stops it. With --wait ends when nothing more can move: exits with 0 when the host is empty,
    else 1.
    """
    request = gateway_pb2.DrainHostRequest(name=name, message=message, validate_only=True)
    with session.connect(FLAGS) as gateway:
        answer = gateway.call(gateway.fleet.DrainHost, request)
        for sentence in describe_drain(name, answer.daggers):
            session.out.note(sentence)
        if dry_run:
            session.out.print_result(
                _build_document(answer) | {"dry_run": True}, f"host {name} can be drained"
            )
            return
        agreed(session, f"Drain host {name}?", yes=yes)
        request.validate_only, request.request_id = False, uuid.uuid4().hex
        answer = gateway.call(gateway.fleet.DrainHost, request)
        latest = _follow_drain(session, gateway, name, answer.sequence, timeout) if wait else answer
    if wait and latest.daggers:
        for sentence in describe_stays(latest.daggers):
            session.out.note(sentence)
        names = ", ".join(dagger.name for dagger in latest.daggers)
        raise RefusedError(f"host {name} is not empty: {names}", reason="NOT_DRAINED")
    sentence = "is empty" if wait else f"is drained: `daggers host show {name}` tells how far it is"
    session.out.print_result(_build_document(latest) | {"dry_run": False}, f"host {name} {sentence}")


def _follow_drain(
    session: Session, gateway: Gateway, name: str, sequence: int, timeout_s: float
) -> gateway_pb2.GetHostResponse:
    """Report each move until no dagger can move, or the time is over; return the host then."""
    request = gateway_pb2.GetHostRequest(name=name, min_sequence=sequence)
    end, reported = time.monotonic() + timeout_s, 0
    while True:
        answer = gateway.call(gateway.fleet.GetHost, request)
        done = [move for move in answer.host.cordon.moves if move.HasField("first_commit")]
        for move in done[reported:]:
            session.out.note(describe_move(move))
        reported = len(done)
        is_still = all(
            dagger.HasField("stays") and dagger.stays.reason != _PASSING for dagger in answer.daggers
        )
        if is_still and len(done) == len(answer.host.cordon.moves):
            return answer
        if time.monotonic() >= end or not answer.host.cordon.drains:
            return answer
        time.sleep(_LOOK_S)


def describe_move(move: gateway_pb2.HostMove) -> str:
    """Return where a dagger has moved, and how long it was silent."""
    silence = silence_s(move)
    if silence is not None:
        return f"{move.dagger} runs on {move.to_host or '?'}: {silence:.1f} s between two batches"
    if move.to_host:
        return f"{move.dagger} starts on {move.to_host}"
    return f"{move.dagger} {'has stopped' if move.HasField('last_commit') else 'finishes its batch'}"


def describe_registration(registered: events_pb2.HostRegistered) -> Iterator[str]:
    """Yield the labels of a host, and what it lacks of what daggers may need."""
    if registered.labels:
        yield f"labels: {', '.join(f'{key}={value}' for key, value in sorted(registered.labels.items()))}"
    if registered.lacks:
        yield f"lacks: {', '.join(registered.lacks)}"


def describe_cordon(host: gateway_pb2.Host) -> Iterator[str]:
    """Yield who cordoned or drained a host and why, and each move."""
    if not host.HasField("cordon"):
        return
    cordon = host.cordon
    why = f": {cordon.message}" if cordon.message else ""
    state = "drained" if cordon.drains else "cordoned"
    yield f"{state} since {iso(cordon.time)}, by {cordon.actor or '?'}{why}"
    yield from map(describe_move, cordon.moves)


def describe_stays(daggers: Sequence[gateway_pb2.HostedDagger]) -> Iterator[str]:
    """Yield by name what cannot move, and why."""
    for dagger in daggers:
        if dagger.HasField("stays"):
            yield f"{dagger.name} stays: {dagger.stays.detail} ({dagger.stays.reason})"


def describe_drain(host: str, daggers: Sequence[gateway_pb2.HostedDagger]) -> Iterator[str]:
    """Yield what a drain would move, in its order, and what it would not."""
    moves = sorted(
        (dagger for dagger in daggers if not dagger.HasField("stays")),
        key=lambda dagger: (dagger.critical, dagger.name),
    )
    if not daggers:
        yield f"no dagger has a driver on host {host}"
    if moves:
        yield f"moved one after another: {', '.join(dagger.name for dagger in moves)}"
    yield from describe_stays(daggers)


@command(hosts, "confirm-gone", example='daggers host confirm-gone machine-2 --message "its disk is dead"')
def confirm_gone(
    session: Session,
    name: Name,
    message: Annotated[str, typer.Option(help="Why you know: kept in the log.")] = "",
    yes: Yes = False,
    dry_run: DryRun = False,
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
    document = _build_document(answer) | {"dry_run": dry_run}
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
