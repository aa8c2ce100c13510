"""Start the embedded stack: what is missing of it, in order, each part ready before the next."""

import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from daggers.v1 import gateway_pb2

from chassis.files import make_private
from cli.environment import environment
from cli.errors import CliError, RefusedError
from cli.framework.gateway import Gateway
from cli.output.progress import Report, Steps
from devstack import broker, influxdb, ports, processes, services, state, tokens
from devstack.process_table import listening_ports
from devstack.processes import StackProcess
from devstack.state import Influx, Stack
from devstack.tokens import Access
from devstack.tools.install import Tools

POLL_S = 0.1
READY_S = 90.0
GRACE_S = 20.0
TAIL_LINES, TAIL_BYTES = 15, 16_384
PORTS = ("kafka", "controller", "influx", "influx_rpc", "gateway", "health", "alerts", "portal")


@dataclass(frozen=True)
class StackPart:
    """One process of the stack.

    prepare: writes its files, before it is started.
    words, env: its command line and environment.
    ready: whether it serves; asked again and again.
    port: where it listens; 0 when it does not.
    folder: where it works; None: beside its log.
    """

    name: str
    prepare: Callable[[], None]
    words: Callable[[], Sequence[str]]
    env: Mapping[str, str]
    ready: Callable[[], bool]
    port: int = 0
    folder: Path | None = None


def is_up(stack: Stack, only: str | None = None) -> bool:
    """Tell whether every process of the stack runs, or the one named by `only`."""
    return all(stack.running(name) for name in selected_names(stack, only))


def process_names(stack: Stack) -> tuple[str, ...]:
    """Return the names of the processes that make up the stack, in the order of starting."""
    database = () if stack.own_influx else ("influxdb",)
    return ("kafka", *database, "gateway", "scheduler", "alert-receiver", "health-monitor", "portal")


def selected_names(stack: Stack, only: str | None) -> tuple[str, ...]:
    """Return the names of the processes that are asked for. Raises: RefusedError."""
    names = process_names(stack)
    if only is None:
        return names
    if only not in names:
        raise RefusedError(f"the stack in {stack.state_dir} has no {only} of its own: it uses yours")
    return (only,)


def plan(
    state_dir: Path,
    own_influx: Influx | None,
    access: Access | None = None,
    *,
    installation: Path | None = None,
) -> Stack:
    """Plan the stack of a directory as it should be now: its ports kept where they are held or free.

    own_influx: the user's InfluxDB; None leaves a running stack the one it has, else means the embedded one.
    access: None leaves a stack the one it has; a new one enforces.
    installation: who starts what does not run of it, and owns it from then on.
    Raises: RefusedError beside another stack that runs there.
    """
    stored = state.load(state_dir)
    before = stored or Stack(state_dir)
    alive = tuple(process for process in before.processes if process.alive())
    if {process.pid for process in processes.find_marked(state_dir)} - {
        process.pid for process in before.processes
    }:
        raise RefusedError(
            f"a stack runs whose files in {state_dir} are gone: stop it first by `daggers local down`",
            reason="STILL_RUNNING",
        )
    if alive and own_influx is None:
        own_influx = before.own_influx
    if alive and before.own_influx != own_influx:
        raise RefusedError(
            f"the stack in {state_dir} runs with another InfluxDB: stop it first by `daggers local down`"
        )
    running = {process.name for process in alive}
    _settle(before, access or (tokens.access(before) if stored else Access.ENFORCE), running)
    keep = {name: port for name, port in before.ports.items() if _owner(name) in running}
    chosen = ports.choose([name for name in PORTS if name not in keep], before.ports)
    return Stack(state_dir, keep | chosen, alive, own_influx, installation)


def _settle(stack: Stack, access: Access, alive: Set[str]) -> None:
    """Raises: RefusedError beside a gateway that runs otherwise."""
    if access is not tokens.access(stack) and "gateway" in alive:
        raise RefusedError(
            f"the stack in {stack.state_dir} runs with --access {tokens.access(stack)}: stop it first by"
            " `daggers local down`"
        )
    tokens.become(stack, access)


def up(
    stack: Stack,
    tools: Tools,
    steps: Steps,
    monitor_env: Mapping[str, str] = MappingProxyType({}),
    only: str | None = None,
) -> Stack:
    """Start what does not run, and register the cluster `local`. On failure, what was started is stopped.

    monitor_env: settings of the health monitor that differ from its defaults.
    only: name of the one part to start, while the others run or are left alone.
    Raises RefusedError with the last lines of the log of what did not start.
    """
    started: list[StackProcess] = []
    names = selected_names(stack, only)
    try:
        for part in _parts(stack, tools, monitor_env):
            if part.name not in names or stack.running(part.name):
                continue
            part.prepare()
            with steps.step(part.name) as report:
                log = stack.log(part.name)
                make_private(log.parent)
                begin = log.stat().st_size if log.exists() else 0
                process = processes.start(
                    part.name,
                    part.words(),
                    stack=stack.state_dir,
                    log=log,
                    env=part.env,
                    folder=part.folder,
                )
                started.append(process)
                stack = stack.with_process(process)
                state.save(stack)
                _await_ready(part, process, begin, report)
        if only is None:
            with Gateway(stack.gateway, token_file=stack.token_file) as gateway:
                services.register_cluster(gateway, stack)
    except BaseException:
        with processes.ignoring_signals():
            processes.stop(reversed(started), grace_s=GRACE_S)
            gone = {process.pid for process in started}
            left = tuple(process for process in stack.processes if process.pid not in gone)
            state.save(replace(stack, processes=left))
        raise
    return stack


def tail(log: Path, begin: int = 0) -> str:
    """Return the last lines of a log behind the byte `begin`; empty when there are none."""
    try:
        with log.open("rb") as file:
            file.seek(max(begin, log.stat().st_size - TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-TAIL_LINES:])


def _parts(stack: Stack, tools: Tools, monitor_env: Mapping[str, str]) -> list[StackPart]:
    kafka = StackPart(
        "kafka",
        lambda: broker.prepare(stack, tools),
        lambda: broker.command(stack, tools),
        environment(),
        lambda: broker.ready(stack),
        stack.ports["kafka"],
        broker.folder(stack),
    )
    influx = StackPart(
        "influxdb",
        lambda: influxdb.prepare(stack),
        lambda: influxdb.command(stack, tools),
        environment(),
        lambda: influxdb.ready(stack),
        stack.ports["influx"],
    )
    gateway = StackPart(
        "gateway",
        lambda: None,
        services.gateway_command,
        services.gateway_environment(stack),
        lambda: services.gateway_ready(stack),
        stack.ports["gateway"],
    )
    leadership = _Leadership(stack)
    scheduler = StackPart(
        "scheduler",
        leadership.remember,
        services.scheduler_command,
        services.scheduler_environment(stack, tools),
        leadership.taken,
    )
    receiver = StackPart(
        "alert-receiver",
        lambda: None,
        lambda: services.receiver_command(stack),
        services.receiver_environment(),
        lambda: services.receiver_ready(stack),
        stack.ports["alerts"],
    )
    claims = _MonitorClaims(stack)
    monitor = StackPart(
        "health-monitor",
        claims.remember,
        services.monitor_command,
        {**services.monitor_environment(stack), **monitor_env},
        claims.new,
    )
    portal = StackPart(
        "portal",
        lambda: None,
        services.portal_command,
        services.portal_environment(stack),
        lambda: services.portal_ready(stack),
        stack.ports["portal"],
    )
    return [kafka, influx, gateway, scheduler, receiver, monitor, portal]


class _MonitorClaims:
    """Tell whether the health monitor that is being started has come to lead."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._before: frozenset[str] = frozenset()

    def remember(self) -> None:
        self._before = services.monitor_claims(self._stack)

    def new(self) -> bool:
        return bool(services.monitor_claims(self._stack) - self._before)


class _Leadership:
    """Tell whether the scheduler that is being started has come to lead."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._before = -1

    def remember(self) -> None:
        with Gateway(self._stack.gateway, token_file=self._stack.token_file) as gateway:
            answer = gateway.call(gateway.catalog.ListClusters, gateway_pb2.ListClustersRequest())
        self._before = answer.sequence

    def taken(self) -> bool:
        with Gateway(self._stack.gateway, token_file=self._stack.token_file) as gateway:
            return services.scheduler_leads(gateway, self._before)


def _await_ready(part: StackPart, process: StackProcess, begin: int, report: Report) -> None:
    start = time.monotonic()
    while not (part.ready() and _listens(part, process)):
        waited = time.monotonic() - start
        if not process.alive():
            raise _did_not_start(part, process, begin, "ended at once")
        if waited > READY_S:
            raise _did_not_start(part, process, begin, f"was not ready after {READY_S:.0f} s")
        report(f"({waited:.0f} s)")
        time.sleep(POLL_S)


def _listens(part: StackPart, process: StackProcess) -> bool:
    """Tell whether what is ready is this process: another stack's may have taken the port before it."""
    members = process.members() if part.port else []
    return not part.port or any(part.port in listening_ports(member) for member in members)


def _did_not_start(part: StackPart, process: StackProcess, begin: int, failure: str) -> CliError:
    last = tail(Path(process.log), begin)
    return RefusedError(
        f"{part.name} {failure}; its log is {process.log}",
        reason="NOT_STARTED",
        findings=[{"code": "LAST_LOG_LINES", "field": part.name, "message": last}] if last else [],
    )


def _owner(port: str) -> str:
    owners = {
        "controller": "kafka",
        "health": "gateway",
        "influx": "influxdb",
        "influx_rpc": "influxdb",
        "alerts": "alert-receiver",
    }
    return owners.get(port, port)
