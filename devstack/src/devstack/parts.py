"""Parts of the embedded stack: each one's command line, environment and sign that it serves."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from daggers.v1 import gateway_pb2

from cli.environment import environment
from cli.framework.gateway import Gateway
from devstack import broker, influxdb, services
from devstack.state import Stack
from devstack.tools.install import Tools


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


def order_parts(stack: Stack, tools: Tools, monitor_env: Mapping[str, str]) -> list[list[StackPart]]:
    """Return the parts of the stack in the order of starting: those of a list start side by side, once those
    before it are ready.

    monitor_env: settings of the health monitor that differ from its defaults.
    """
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
    return [[kafka, influx], [gateway, receiver], [scheduler, monitor, portal]]


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
