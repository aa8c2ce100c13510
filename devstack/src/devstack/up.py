"""Start the embedded stack: what is missing of it, in order, and side by side where no part needs another."""

import time
from collections.abc import Mapping, Sequence, Set
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from chassis.files import make_private
from cli.errors import CliError, RefusedError
from cli.framework.gateway import Gateway
from cli.output.progress import Report, Steps
from devstack import ports, processes, services, state, tokens
from devstack.parts import StackPart, order_parts
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


def is_up(stack: Stack, only: str | None = None) -> bool:
    """Tell whether every process of the stack runs, or the one named by `only`."""
    return all(stack.running(name) for name in selected_names(stack, only))


def process_names(stack: Stack) -> tuple[str, ...]:
    """Return the names of the processes that make up the stack, in the order of starting."""
    database = () if stack.own_influx else ("influxdb",)
    return ("kafka", *database, "gateway", "alert-receiver", "scheduler", "health-monitor", "portal")


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
        for side_by_side in order_parts(stack, tools, monitor_env):
            starts = []
            for part in side_by_side:
                if part.name in names and not stack.running(part.name):
                    starts.append(_start(part, stack))
                    started.append(starts[-1].process)
                    stack = stack.with_process(starts[-1].process)
                    state.save(stack)
            _await_ready(starts, steps)
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


@dataclass(frozen=True)
class _Start:
    """A part that has been started.

    log_begin: position in its log at which this start begins, in bytes.
    """

    part: StackPart
    process: StackProcess
    log_begin: int


def _start(part: StackPart, stack: Stack) -> _Start:
    part.prepare()
    log = stack.log(part.name)
    make_private(log.parent)
    begin = log.stat().st_size if log.exists() else 0
    process = processes.start(
        part.name, part.words(), stack=stack.state_dir, log=log, env=part.env, folder=part.folder
    )
    return _Start(part, process, begin)


def _await_ready(starts: Sequence[_Start], steps: Steps) -> None:
    """Wait until all of them serve. Raises RefusedError with the last lines of a log."""
    since = time.monotonic()
    with ExitStack() as all_steps:
        waiting: list[tuple[_Start, ExitStack, Report]] = []
        for start in starts:
            step = all_steps.enter_context(ExitStack())
            waiting.append((start, step, step.enter_context(steps.step(start.part.name))))
        while waiting:
            waited = time.monotonic() - since
            for start, step, report in tuple(waiting):
                if _is_ready(start, waited):
                    step.close()
                    waiting.remove((start, step, report))
                else:
                    report(f"({waited:.0f} s)")
            if waiting:
                time.sleep(POLL_S)


def _is_ready(start: _Start, waited: float) -> bool:
    """Tell whether it serves. Raises RefusedError where it has ended, or waited too long."""
    if start.part.ready() and _listens(start.part, start.process):
        return True
    if not start.process.alive():
        raise _did_not_start(start, "ended at once")
    if waited > READY_S:
        raise _did_not_start(start, f"was not ready after {READY_S:.0f} s")
    return False


def _listens(part: StackPart, process: StackProcess) -> bool:
    """Tell whether what is ready is this process: another stack's may have taken the port before it."""
    members = process.members() if part.port else []
    return not part.port or any(part.port in listening_ports(member) for member in members)


def _did_not_start(start: _Start, failure: str) -> CliError:
    name, log = start.part.name, start.process.log
    last = tail(Path(log), start.log_begin)
    return RefusedError(
        f"{name} {failure}; its log is {log}",
        reason="NOT_STARTED",
        findings=[{"code": "LAST_LOG_LINES", "field": name, "message": last}] if last else [],
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
