"""A request that Kafka takes without saying so: asked again under its id, or told to be unknown."""

import asyncio
import math
from collections.abc import Callable
from typing import Any

import grpc
import pytest
from daggers.v1 import gateway_pb2, spec_pb2
from tests.contracts.logs import TroubledLog

from chassis.endpoint import Endpoint
from cli.errors import UnreachableError
from cli.framework.gateway import Gateway
from eventlog import Draft, LogUnavailable

CLUSTER = spec_pb2.Cluster(name="other", kafka=spec_pb2.KafkaAddress(bootstrap_servers="127.0.0.1:1"))
NAME = "orders_by_city"


class Broker:
    """One that may go away: what is appended then lands when it is back, unacknowledged."""

    def __init__(self) -> None:
        self.log = TroubledLog()
        self.log.before = self._unless_away
        self.away_s = 0.0
        """How long it is away from the next append on; 0: it is there."""
        self._back: asyncio.Task[None] | None = None

    async def _unless_away(self, draft: Draft) -> None:
        if self.away_s and self._back is None:
            self._back = asyncio.create_task(self._land(draft, self.away_s))
        if self._back is not None:
            raise LogUnavailable("nobody answers")

    async def _land(self, draft: Draft, away_s: float) -> None:
        await asyncio.sleep(min(away_s, 3600))
        self._back, self.away_s = None, 0.0
        await self.log.append(draft)


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def gateway(serve: Callable[..., int], broker: Broker) -> str:
    """Address of a gateway on that log."""
    return f"127.0.0.1:{serve(Endpoint('127.0.0.1:0'), lambda: broker.log)}"


def test_a_request_that_lands_late_succeeds_once_and_says_meanwhile_why_it_waits(
    gateway: str, broker: Broker
) -> None:
    said: list[str] = []
    broker.away_s = 2.0
    with Gateway(gateway, warn=said.append) as connected:
        answer = connected.register_cluster(CLUSTER)
        clusters = connected.clusters()

    assert ([cluster.name for cluster in clusters], answer.sequence) == (["other"], 0)
    assert said == [
        "Kafka did not acknowledge the request: it may have been taken all the same,"
        " asking again under its id"
    ]


def test_a_request_that_stays_unacknowledged_has_an_unknown_outcome_and_says_how_to_look(
    gateway: str, broker: Broker, shell: Any, dagger_file: str
) -> None:
    shell.fill()
    shell("apply", "-f", shell.file("orders.yaml", dagger_file))
    broker.away_s = math.inf
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
