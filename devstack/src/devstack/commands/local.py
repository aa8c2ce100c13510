"""`daggers local`: the embedded stack."""

import sys
import time
from collections.abc import Mapping
from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Annotated

import typer

from cli.checked_settings import read
from cli.errors import RefusedError
from cli.framework.deletion import Yes, agreed, asks
from cli.framework.group import group
from cli.framework.machine import refusal
from cli.framework.session import Session, command
from cli.framework.standard_streams import OutputError
from cli.framework.usage_errors import UsageErrors
from devstack import remembered, state
from devstack.down import down as stop_stack
from devstack.down import runs
from devstack.dump import dump as dump_of
from devstack.dump import line
from devstack.places import refuse_unusable
from devstack.processes import StackProcess, ignoring_signals
from devstack.remembered import INSTALLATION
from devstack.settings import StackSettings
from devstack.state import Influx, Stack
from devstack.status import status as status_of
from devstack.tokens import Access
from devstack.tools.install import Tools, install
from devstack.up import is_up, plan, selected_names, tail
from devstack.up import up as start_stack

local = group()
WATCH_S = 0.5


class Alone(StrEnum):
    """A part of the stack that can be started alone: the first two need no other one, the rest need Kafka."""

    KAFKA = "kafka"
    INFLUXDB = "influxdb"
    GATEWAY = "gateway"
    ALERT_RECEIVER = "alert-receiver"
    HEALTH_MONITOR = "health-monitor"
    PORTAL = "portal"


InfluxUrl = Annotated[str | None, typer.Option(help="Use this InfluxDB in place of the embedded one.")]
InfluxTokenFile = Annotated[Path | None, typer.Option(help="File with the token of that InfluxDB.")]
InfluxOrg = Annotated[str | None, typer.Option(help='Organisation; "-" for InfluxDB 1.8.')]
InfluxBucket = Annotated[str | None, typer.Option(help='Bucket; "database/policy" for InfluxDB 1.8.')]


@command(local, "setup", example="daggers local setup")
def setup(session: Session) -> None:
    """Install what the embedded stack runs on (Kafka, InfluxDB, Java), once; later runs take seconds."""
    started = time.monotonic()
    tools = _tools(session)
    document = {
        "java_home": str(tools.java_home),
        "kafka_jars": str(tools.kafka_jars),
        "spark_home": str(tools.spark_home),
        "influxd": str(tools.influxd),
    }
    session.out.print_result(document, f"tools are ready ({time.monotonic() - started:.1f} s)")


@command(local, "up", example="daggers local up --detach")
def up(
    session: Session,
    detach: Annotated[
        bool, typer.Option("--detach", help="Return when it is up, and leave it running.")
    ] = False,
    only: Annotated[
        Alone | None,
        typer.Option(
            help="Start this part alone: kafka or influxdb to look at its data or restore the log, another"
            " one to bring it back beside those that run."
        ),
    ] = None,
    access: Annotated[
        Access | None,
        typer.Option(
            help="enforce: calls of the gateway need its administrator's token, which commands show by"
            " themselves; observe: every program of this machine is its administrator. Default: as it was;"
            " a new stack enforces."
        ),
    ] = None,
    influx_url: InfluxUrl = None,
    influx_token_file: InfluxTokenFile = None,
    influx_org: InfluxOrg = None,
    influx_bucket: InfluxBucket = None,
) -> None:
    """Start the stack, or its missing parts, and register the cluster `local`.

    Without --detach it runs until Ctrl-C or SIGTERM, then stops everything.
    """
    own = _own_influx(influx_url, influx_token_file, influx_org, influx_bucket)
    folder = folder_of(session)
    stack, was_up = start(session, folder, own, access=access, only=only)
    title = f"{only} of the stack" if only else "the stack"
    if was_up:
        _remember(session, folder)
        session.out.show(status_of(stack), lambda _: _say(session, stack, f"{title} is already running"))
        return
    try:
        _remember(session, folder)
        session.out.show(status_of(stack), lambda _: _say(session, stack, f"{title} is up"))
        if not detach:
            _stay(session, stack)
    except (KeyboardInterrupt, OutputError) as end:
        if detach:
            raise
        with ignoring_signals():
            stop(session, folder)
        if isinstance(end, OutputError):
            raise


def start(
    session: Session,
    folder: Path,
    own: Influx | None = None,
    *,
    access: Access | None = None,
    monitor_env: Mapping[str, str] = MappingProxyType({}),
    only: str | None = None,
) -> tuple[Stack, bool]:
    """Start the stack of a directory; also whether it was up before.

    access: None leaves a stack the one it has; a new one enforces.
    monitor_env: settings of the health monitor that differ from its defaults.
    only: name of the one part to start, while the others run or are left alone.

    Raises: RefusedError.
    """
    out = session.out
    refuse_unusable("the state directory", folder)
    refuse_unusable("the Python that is used", Path(sys.executable), "install it elsewhere")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with state.lock(folder):
            stack = plan(folder, own, access, installation=INSTALLATION)
            was_up = is_up(stack, only)
            if not was_up:
                tools = _tools(session, with_influxd="influxdb" in selected_names(stack, only))
                stack = start_stack(stack, tools, out.steps, monitor_env, only)
    except OSError as error:
        raise refusal(error, folder) from error
    return stack, was_up


def _remember(session: Session, folder: Path) -> None:
    """Make the stack of a directory the default."""
    try:
        remembered.remember(session.settings.state_home, folder, INSTALLATION)
    except OSError as error:
        raise refusal(error) from error


@command(local, "status", example="daggers local status -o json")
def status(session: Session) -> None:
    """Show where the parts of the stack are, and which of them run.

    The token of the embedded InfluxDB is shown.
    """
    stack = read_stack(session)
    document = status_of(stack)

    def text(_: object) -> None:
        out = session.out
        places = [
            ("state directory", document["state_dir"]),
            ("kafka", document["kafka"]["bootstrap_servers"]),
            ("gateway", document["gateway"]["address"]),
            ("gateway token", document["gateway"]["token_file"] or "none is asked for"),
            ("portal", document["portal"]["url"] or "starts with the next up"),
            ("influx", document["influx"]["url"]),
            ("influx token", document["influx"]["token"] or "your own"),
        ]
        out.table(("", ""), places, empty="")
        rows = [
            (p["name"], p["pid"], " ".join(map(str, p["ports"])) or "-", p["log"])
            for p in document["processes"]
        ]
        out.table(
            ("PROCESS", "PID", "PORTS", "LOG"), rows, empty="nothing runs; `daggers local up` starts it"
        )

    session.out.show(document, text)


@command(local, "dump", example="daggers local dump | sha256sum")
def dump(session: Session) -> None:
    """Print every row of the gateway's projection, sorted: the same control topic gives the same bytes."""
    rows = dump_of(read_stack(session))

    def text(_: object) -> None:
        for row in rows:
            session.out.line(line(row))

    session.out.show(rows, text)


@command(local, "down", example="daggers local down")
def down(session: Session, yes: Yes = False) -> None:
    """Stop the stack and every driver it runs.

    Its data stays, and the next `up` goes on with it. A stack that the command of another checkout started is
    stopped after a question, or with --yes.
    """
    folder = folder_of(session)
    _may_stop(session, folder, yes=yes)
    stopped = stop(session, folder)
    sentence = f"the stack in {folder} is {'stopped' if stopped else 'not running'}"
    session.out.print_result({"state_dir": str(folder), "stopped": stopped}, sentence)


def _may_stop(session: Session, folder: Path, *, yes: bool) -> None:
    """Ask before another installation's stack is stopped. Raises: RefusedError, also where nobody answers."""
    owner = remembered.other_owner(folder, INSTALLATION)
    if yes or owner is None or not runs(folder):
        return
    whose = f"the stack in {folder} was started from {owner}"
    if not asks(session):
        raise RefusedError(f"{whose}: `--yes` stops it all the same", reason="NOT_YOURS")
    agreed(session, f"{whose[0].upper()}{whose[1:]}. Stop it?", yes=False, otherwise="nothing was stopped")


def stop(session: Session, folder: Path) -> bool:
    """Stop the stack of a directory; False when nothing of it ran."""
    # without its directory there is nothing to lock; its processes may run all the same
    with state.lock(folder) if folder.is_dir() else nullcontext():
        return stop_stack(folder, session.out.steps)


def folder_of(session: Session) -> Path:
    """Return the state directory that a command means."""
    return remembered.resolve_state_dir(session.state_dir, session.settings.state_home, INSTALLATION)


def read_stack(session: Session) -> Stack:
    """Read the stack that a command means. Raises RefusedError when it was never started."""
    return state.require(folder_of(session))


def _tools(session: Session, *, with_influxd: bool = True) -> Tools:
    settings = read(StackSettings)
    return install(settings.tools_dir, settings.java_home, session.out.steps, with_influxd=with_influxd)


def _own_influx(
    url: str | None, token_file: Path | None, org: str | None, bucket: str | None
) -> Influx | None:
    errors = UsageErrors()
    if url is None:
        alone = {"--influx-token-file": token_file, "--influx-org": org, "--influx-bucket": bucket}
        for flag in filter(alone.get, alone):
            errors.add(flag, "goes with --influx-url")
    else:
        if not url.startswith(("http://", "https://")):
            errors.add("--influx-url", "must begin with http:// or https://")
        if not bucket:
            errors.add("--influx-bucket", "is missing: which bucket of that InfluxDB is to be used?")
    if token_file is not None and not token_file.is_file():
        errors.add("--influx-token-file", f"there is no file {token_file}")
    errors.refuse()
    if url is None or bucket is None:
        return None
    token = str(token_file.resolve()) if token_file else None
    return Influx(url.rstrip("/"), org or "-", bucket, token)


def _say(session: Session, stack: Stack, title: str) -> None:
    out = session.out
    out.line(f"{title}: {stack.state_dir}")
    rows = [("kafka", stack.kafka), ("gateway", stack.gateway), ("influx", stack.influx.url)]
    if stack.token_file:
        rows.insert(2, ("gateway token", str(stack.token_file)))
    if stack.portal:
        rows.append(("portal", stack.portal))
    out.table(("", ""), rows, empty="")


def _stay(session: Session, stack: Stack) -> None:
    """Tell of what ends by itself, until a `local down` from elsewhere or the directory's end."""
    note = session.out.note
    note("Ctrl-C stops it")
    reported: set[StackProcess] = set()
    while True:
        busy = state.busy(stack.state_dir)  # asked first: an `up` or `down` says itself what it ends
        now = state.load(stack.state_dir)
        if now is None:
            note(f"{stack.state_dir} is gone, so what ran there is stopped")
            stop(session, stack.state_dir)
            return
        if not now.processes:
            return
        for process in () if busy else now.processes:
            if not process.alive() and process not in reported:
                reported.add(process)
                note(f"{process.name} has ended; `daggers local up` starts it again; its last lines:")
                note(tail(Path(process.log)))
        time.sleep(WATCH_S)
