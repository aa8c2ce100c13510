"""The services of the embedded stack: how they are started, and when they are ready."""

import sys

import grpc
from daggers.v1 import gateway_pb2, spec_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc

from cli.environment import environment
from cli.gateway import Gateway
from cli.local.state import Stack
from cli.local.tools.install import Tools

CLUSTER = "local"
SPARK_MASTER = "local[2]"
PROBE_S = 2.0


def gateway_command() -> list[str]:
    """The gateway's command line."""
    return [sys.executable, "-m", "api_gateway"]


def gateway_environment(stack: Stack) -> dict[str, str]:
    """The gateway's settings."""
    return _environment() | {
        "DAGGERS_GATEWAY_KAFKA_BOOTSTRAP_SERVERS": stack.kafka,
        "DAGGERS_GATEWAY_BIND": stack.gateway,
        "DAGGERS_GATEWAY_DATABASE_URL": f"sqlite:///{stack.state_dir / 'gateway.sqlite'}",
    }


def gateway_ready(stack: Stack) -> bool:
    """Whether the gateway says that it serves."""
    with grpc.insecure_channel(stack.gateway) as channel:
        try:
            health = health_pb2_grpc.HealthStub(channel)
            answer = health.Check(health_pb2.HealthCheckRequest(), timeout=PROBE_S)  # type: ignore[attr-defined] # the stubs leave it out
        except grpc.RpcError:
            return False
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


def scheduler_command() -> list[str]:
    """The scheduler's command line."""
    return [sys.executable, "-m", "scheduler"]


def scheduler_environment(stack: Stack, tools: Tools) -> dict[str, str]:
    """The scheduler's settings. Its secrets are the user's environment: SecretRefs may name any of it."""
    return _environment() | {
        "DAGGERS_SCHEDULER_KAFKA_BOOTSTRAP_SERVERS": stack.kafka,
        "DAGGERS_SCHEDULER_STATE_DIR": str(stack.state_dir),
        "DAGGERS_SCHEDULER_JAVA_HOME": str(tools.java_home),
    }


def scheduler_leads(gateway: Gateway, since: int) -> bool:
    """Whether a scheduler has claimed leadership after the sequence `since`."""
    request = gateway_pb2.WatchEventsRequest(since_sequence=since, until_end=True)
    return any(step.event.type.endswith(".SchedulerStarted") for step in gateway.watch(request))


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
