"""The services of the embedded stack: how they are started, and when they are ready."""

import shlex
import sys
from pathlib import Path

import grpc
from daggers.v1 import alerts_pb2, gateway_pb2, spec_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc

from chassis.files import make_private
from cli.environment import environment
from cli.framework.gateway import Gateway
from daggerspec import folders
from daggerspec.topics import ALERTS
from devstack import ports, tokens
from devstack.state import Stack
from devstack.tools.install import Tools
from devstack.topictail import tail

CLUSTER = "local"
SPARK_MASTER = "local[2]"
PROBE_S = 2.0
RECENT_ALERTS = 500
# Of this machine's own receiver, which checks none; PagerDuty's have 32 characters.
ROUTING_KEY = "daggers-local-stack-routing-key-"
# What the monitor is told has this prefix; its limits are numbers, all else is whom it tells.
MONITOR = "DAGGERS_MONITOR_"
LIMITS = ("_S", "_PERCENT", "_RECORDS")
# What people try here writes to databases of this machine.
LOOPBACK = {"DAGGERS_ALLOWED_NETWORKS": "127.0.0.0/8, ::1/128"}


def gateway_command() -> list[str]:
    """Return the gateway's command line."""
    return [sys.executable, "-m", "api_gateway"]


def gateway_environment(stack: Stack) -> dict[str, str]:
    """Return the gateway's settings."""
    references = {"DAGGERS_GATEWAY_REFERENCE_PLACES": folders.as_list([str(stack.state_dir / "references")])}
    secrets = {"DAGGERS_SECRET_PLACES": _secret_places(stack)}
    usual = {**references, **secrets, **LOOPBACK, **_folders(stack), **_environment()}
    return {**usual, **tokens.gateway_environment(stack)} | {
        "DAGGERS_GATEWAY_KAFKA_BOOTSTRAP_SERVERS": stack.kafka,
        "DAGGERS_GATEWAY_BIND": stack.gateway,
        "DAGGERS_GATEWAY_HEALTH_BIND": stack.health,
        "DAGGERS_GATEWAY_DATABASE_URL": f"sqlite:///{stack.projection}",
        "DAGGERS_HOST_TOKEN_FILE": str(tokens.host_token(stack)),
    }


def files_folder(stack: Stack) -> Path:
    """Return the folder where sinks may write files."""
    return stack.state_dir / "files"


def secrets_folder(stack: Stack) -> Path:
    """Return the folder where every team may have its secrets; nobody else than its owner reads it."""
    return make_private(stack.state_dir / "secrets")


def _folders(stack: Stack) -> dict[str, str]:
    return {"DAGGERS_ALLOWED_FOLDERS": folders.as_list([str(files_folder(stack))])}


def _secret_places(stack: Stack) -> str:
    return f"{shlex.quote(str(secrets_folder(stack)))} '*' '*'"


def gateway_ready(stack: Stack) -> bool:
    """Tell whether the gateway says that it serves."""
    with grpc.insecure_channel(stack.health, options=[("grpc.enable_http_proxy", 0)]) as channel:
        try:
            health = health_pb2_grpc.HealthStub(channel)
            answer = health.Check(health_pb2.HealthCheckRequest(), timeout=PROBE_S)  # type: ignore[attr-defined] # the stubs leave it out
        except grpc.RpcError:
            return False
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


def portal_command() -> list[str]:
    """Return the portal's command line."""
    return [sys.executable, "-m", "portal"]


def portal_environment(stack: Stack) -> dict[str, str]:
    """Return the portal's settings: of the user's none, for its gateway is this stack's."""
    own = {name: value for name, value in _environment().items() if not name.startswith("DAGGERS_PORTAL_")}
    return {**own, **tokens.portal_environment(stack)} | {
        "DAGGERS_PORTAL_BIND": f"127.0.0.1:{stack.ports['portal']}",
        "DAGGERS_PORTAL_GATEWAY": stack.gateway,
        "DAGGERS_PORTAL_STATE_DIR": str(stack.state_dir / "portal"),
    }


def portal_ready(stack: Stack) -> bool:
    """Tell whether the portal listens."""
    return ports.is_open(stack.ports["portal"])


def scheduler_command() -> list[str]:
    """Return the scheduler's command line."""
    return [sys.executable, "-m", "scheduler"]


def scheduler_environment(stack: Stack, tools: Tools) -> dict[str, str]:
    """Return the scheduler's settings. Secrets are the user's environment: SecretRefs may name any of it."""
    return (
        {"DAGGERS_SECRET_PLACES": _secret_places(stack), **tokens.scheduler_environment(stack)}
        | LOOPBACK
        | _folders(stack)
        | _environment()
        | {
            "DAGGERS_SCHEDULER_KAFKA_BOOTSTRAP_SERVERS": stack.kafka,
            "DAGGERS_SCHEDULER_STATE_DIR": str(stack.state_dir),
            "JAVA_HOME": str(tools.java_home),
            "DAGGERS_SCHEDULER_SPARK_HOME": str(tools.spark_home),
            "DAGGERS_HOST_TOKEN_FILE": str(tokens.host_token(stack)),
        }
    )


def scheduler_leads(gateway: Gateway, since: int) -> bool:
    """Tell whether a scheduler has claimed leadership after the sequence `since`."""
    request = gateway_pb2.WatchEventsRequest(since_sequence=since, until_end=True)
    return any(step.event.type.endswith(".SchedulerStarted") for step in gateway.watch(request))


def receiver_command(stack: Stack) -> list[str]:
    """Return the alert receiver's command line."""
    return [sys.executable, "-m", "health_monitor.receiver", "--port", str(stack.ports["alerts"])]


def receiver_environment() -> dict[str, str]:
    """Return the alert receiver's environment."""
    return _environment()


def receiver_ready(stack: Stack) -> bool:
    """Tell whether the alert receiver listens."""
    return ports.is_open(stack.ports["alerts"])


def monitor_command() -> list[str]:
    """Return the health monitor's command line."""
    return [sys.executable, "-m", "health_monitor"]


def monitor_environment(stack: Stack) -> dict[str, str]:
    """Return the health monitor's settings: the user's limits; alerts go to this stack's receiver alone."""
    receiver = f"127.0.0.1:{stack.ports['alerts']}"
    own = {
        name: value
        for name, value in _environment().items()
        if not name.startswith(MONITOR) or name.endswith(LIMITS)
    }
    return {"DAGGERS_LEADER_TIMEOUT_S": "5"} | own | {
        "DAGGERS_MONITOR_KAFKA_BOOTSTRAP_SERVERS": stack.kafka,
        "DAGGERS_MONITOR_SLACK_URL": f"http://{receiver}/slack",
        "DAGGERS_MONITOR_PAGERDUTY_URL": f"http://{receiver}/v2/enqueue",
        "DAGGERS_MONITOR_PAGERDUTY_ROUTING_KEY": ROUTING_KEY,
        "DAGGERS_MONITOR_STATE_DIR": str(stack.state_dir / "health-monitor"),
        "DAGGERS_ALLOWED_HOSTS": receiver,
    }  # fmt: skip


def monitor_claims(stack: Stack) -> frozenset[str]:
    """Return the health monitors that have claimed leadership of late, each by its own identity."""
    kind = alerts_pb2.MonitorStarted.DESCRIPTOR.full_name.encode()
    return frozenset(
        alerts_pb2.MonitorStarted.FromString(message.value() or b"").monitor_id
        for message in tail(stack.kafka, ALERTS, RECENT_ALERTS)
        if ("ce_type", kind) in (message.headers() or ())
    )


def register_cluster(gateway: Gateway, stack: Stack) -> bool:
    """Register the cluster `local` as this stack is now; False when it stands so already."""
    influx = stack.influx
    token = spec_pb2.SecretRef(file=influx.token_file) if influx.token_file else None
    cluster = spec_pb2.Cluster(
        name=CLUSTER,
        kafka=spec_pb2.KafkaAddress(bootstrap_servers=stack.kafka),
        spark_master=SPARK_MASTER,
        influx=spec_pb2.InfluxAddress(url=influx.url, org=influx.org, bucket=influx.bucket, token=token),
    )
    if cluster in gateway.clusters():
        return False
    gateway.register_cluster(cluster)
    return True


def _environment() -> dict[str, str]:
    # without it non-ASCII names become "?" in children
    return environment(LC_ALL="C.UTF-8", PYTHONUNBUFFERED="1")
