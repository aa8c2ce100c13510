"""Settings that are gone, and what stands in their place: a service that finds one set does not start.

Until 0.3.0, which takes the table away: a setting that is silently without effect is found out too late.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

_HEALTH: Final = "unset it: the limit is a constant, in Limits of libs/fleet/src/fleet/health/degradation.py"

REMOVED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "DAGGERS_GATEWAY_CONNECTIONS_PER_ADDRESS": "set DAGGERS_CONNECTIONS_PER_ADDRESS instead",
        "DAGGERS_GATEWAY_DRAIN_S": "unset it: calls have 10 seconds after SIGTERM",
        "DAGGERS_GATEWAY_HOST_TOKEN_FILE": "set DAGGERS_HOST_TOKEN_FILE instead",
        "DAGGERS_GATEWAY_OIDC_SCOPE": "set DAGGERS_OIDC_SCOPE instead",
        "DAGGERS_GATEWAY_OUTWARD_PROXY": "set DAGGERS_OUTWARD_PROXY instead",
        "DAGGERS_GATEWAY_SECRET_PLACES": "set DAGGERS_SECRET_PLACES instead",
        "DAGGERS_GATEWAY_STREAMS": "unset it: a principal has 100 streams open at most",
        "DAGGERS_GATEWAY_STREAMS_WITHOUT_ROLE": (
            "unset it: a principal without a role has 10 streams open at most"
        ),
        "DAGGERS_GATEWAY_WRITES_PER_SECOND": (
            "set DAGGERS_GATEWAY_REQUESTS_PER_SECOND instead: a tenth of them may write"
        ),
        "DAGGERS_SCHEDULER_BATCH_RECORDS": "unset it: 10,000 records do not wait",
        "DAGGERS_SCHEDULER_BATCH_WAIT_S": "unset it: records wait for 20 seconds",
        "DAGGERS_SCHEDULER_DRAIN_TIMEOUT_S": "unset it: a driver has 60 seconds for its last batch",
        "DAGGERS_SCHEDULER_DRIVER_MEMORY_MIB": "set driver_memory in the daggers that need more than 768 MiB",
        "DAGGERS_SCHEDULER_HOST_TOKEN_FILE": "set DAGGERS_HOST_TOKEN_FILE instead",
        "DAGGERS_SCHEDULER_JAVA_HOME": "set JAVA_HOME instead",
        "DAGGERS_SCHEDULER_LEADER_TIMEOUT_S": "set DAGGERS_LEADER_TIMEOUT_S instead",
        "DAGGERS_SCHEDULER_LOG_LEVEL": "unset it: nothing is logged below INFO",
        "DAGGERS_SCHEDULER_OUTWARD_PROXY": "set DAGGERS_OUTWARD_PROXY instead",
        "DAGGERS_SCHEDULER_PREVIEW_IDLE_S": "unset it: the process ends after 300 seconds without a preview",
        "DAGGERS_SCHEDULER_SECRET_PLACES": "set DAGGERS_SECRET_PLACES instead",
        "DAGGERS_SCHEDULER_START_TIMEOUT_S": "unset it: a driver has 600 seconds for its first heartbeat",
        "DAGGERS_MONITOR_INPUT_GAP_S": "set conditions: {no_input: {limit: …}} of the team platform instead",
        "DAGGERS_MONITOR_LAG_PERCENT": _HEALTH,
        "DAGGERS_MONITOR_LAG_RECORDS": _HEALTH,
        "DAGGERS_MONITOR_LAG_WINDOW_S": _HEALTH,
        "DAGGERS_MONITOR_LATE_PERCENT": _HEALTH,
        "DAGGERS_MONITOR_LEADER_TIMEOUT_S": "set DAGGERS_LEADER_TIMEOUT_S instead",
        "DAGGERS_MONITOR_OUTWARD_PROXY": "set DAGGERS_OUTWARD_PROXY instead",
        "DAGGERS_MONITOR_OVERDUE_S": _HEALTH,
        "DAGGERS_MONITOR_QUARANTINE_PERCENT": (
            "set conditions: {quarantine_rate: {limit: …}} of the team platform instead"
        ),
        "DAGGERS_MONITOR_QUARANTINE_RECORDS": _HEALTH,
        "DAGGERS_MONITOR_RESTARTS": _HEALTH,
        "DAGGERS_MONITOR_RESTARTS_WITHIN_S": _HEALTH,
        "DAGGERS_MONITOR_SHARE_S": _HEALTH,
        "DAGGERS_MONITOR_SILENCE_S": _HEALTH,
        "DAGGERS_MONITOR_WATCHDOG_URL": (
            "write it into a file and name that in DAGGERS_MONITOR_WATCHDOG_URL_FILE"
        ),
        "DAGGERS_PORTAL_CONNECTIONS_PER_ADDRESS": "set DAGGERS_CONNECTIONS_PER_ADDRESS instead",
        "DAGGERS_PORTAL_DRAIN_S": "unset it: calls have 5 seconds after SIGTERM",
        "DAGGERS_PORTAL_IDLE_S": "unset it: a session ends 8 hours after its last use",
        "DAGGERS_PORTAL_LIFE_S": "unset it: a session ends 24 hours after its login",
        "DAGGERS_PORTAL_OIDC_SCOPE": "set DAGGERS_OIDC_SCOPE instead",
        "DAGGERS_RECEIVER_HOST": "unset it: the receiver listens on 127.0.0.1",
        "DAGGERS_RECEIVER_PORT": "start the receiver with --port instead",
    }
)
"""The variable, and what to do instead. 0.1.0 read them."""


def removed_problems(prefix: str, environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield each removed variable that begins with `prefix` and is set, with what to do instead.

    An empty variable is not set.
    """
    for name, instead in REMOVED.items():
        if name.startswith(prefix) and environment.get(name):
            yield name, f"is no setting any more: {instead}"
