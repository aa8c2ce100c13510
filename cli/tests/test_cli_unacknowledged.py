"""A request that Kafka takes without saying so: asked again under its id, or told to be unknown."""

import asyncio
import math
from collections.abc import Callable
from typing import Any

import grpc
import pytest
from daggers.v1 import gateway_pb2, spec_pb2

from api_gateway.server import Door
from cli.errors import UnreachableError
from cli.gateway import Gateway
from eventlog import Draft, LogUnavailable
from eventlog.memory import MemoryLog

CLUSTER = spec_pb2.Cluster(name="other", kafka=spec_pb2.KafkaAddress(bootstrap_servers="127.0.0.1:1"))
NAME = "orders_by_city"


class LateLog(MemoryLog):
    """A log whose broker goes away: what is appended then lands when it is back, unacknowledged."""

    def __init__(self) -> None:
        super().__init__()
        self.away_s = 0.0
        """How long the broker is away from the next append on; 0: it is there."""
        self._back: asyncio.Task[None] | None = None

    async def append(self, draft: Draft) -> None:
        """Raises LogUnavailable while the broker is away."""
        if self.away_s and self._back is None:
            self._back = asyncio.create_task(self._land(draft, self.away_s))
        if self._back is not None:
            raise LogUnavailable("nobody answers")
        await super().append(draft)

    async def _land(self, draft: Draft, away_s: float) -> None:
        await asyncio.sleep(min(away_s, 3600))
        await super().append(draft)
        self._back, self.away_s = None, 0.0


@pytest.fixture
def log() -> LateLog:
    return LateLog()


@pytest.fixture
def gateway(serve: Callable[..., int], log: LateLog) -> str:
    """Address of a gateway on that log."""
    return f"127.0.0.1:{serve(Door('127.0.0.1:0', drain_s=5), lambda: log)}"


def test_a_request_that_lands_late_succeeds_once_and_says_meanwhile_why_it_waits(
    gateway: str, log: LateLog
) -> None:
    said: list[str] = []
    log.away_s = 2.0
    with Gateway(gateway, warn=said.append) as connected:
        answer = connected.register_cluster(CLUSTER)
        clusters = connected.clusters()

    assert ([each.name for each in clusters], answer.sequence) == (["other"], 0)
    assert said == [
        "Kafka did not acknowledge the request: it may have been taken all the same,"
        " asking again under its id"
    ]


def test_a_request_that_stays_unacknowledged_has_an_unknown_outcome_and_says_how_to_look(
    gateway: str, log: LateLog, shell: Any, dagger_file: str
) -> None:
    shell.fill()
    shell("apply", "-f", shell.file("orders.yaml", dagger_file))
    log.away_s = math.inf
    with Gateway(gateway, patience_s=0) as connected, pytest.raises(UnreachableError) as ended:
        connected.call(connected.daggers.StopDagger, gateway_pb2.StopDaggerRequest(name=NAME))

    error = ended.value
    assert (error.exit_code, error.reason) == (3, "OUTCOME_UNKNOWN")
    assert error.message == (
        "the outcome is unknown: Kafka did not acknowledge the request, and it may still take effect;"
        f" `daggers get {NAME}` shows whether it did"
    )
    assert error.detail["request_id"]


def test_a_gateway_that_was_never_reached_took_nothing() -> None:
    with Gateway("127.0.0.1:1") as connected, pytest.raises(UnreachableError) as ended:
        connected.register_cluster(CLUSTER)

    assert ended.value.reason == grpc.StatusCode.UNAVAILABLE.name
