"""The log is the only truth: what was made from it can be dropped, and what comes twice changes nothing."""

from pathlib import Path

import pytest
from confluent_kafka import Producer
from conftest import Stack
from daggers.v1 import gateway_pb2
from tests.integration.bookings import Bookings
from tests.integration.cli import Cli
from tests.integration.faults import down, driver, records, until, up

from daggerclient import Client

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def name(stack: Stack, cli: Cli, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A dagger that runs."""
    name, file = Bookings(stack.kafka, cli).dagger(tmp_path_factory.mktemp("log"))
    cli("apply", "-f", file, "--wait")
    return name


def test_every_control_record_delivered_again_changes_nothing(stack: Stack, cli: Cli, name: str) -> None:
    before, running = dump(cli), driver(stack, name).keys()
    producer = Producer({"bootstrap.servers": stack.kafka})
    history = records(stack.kafka, "daggers.control")

    for record in history:
        producer.produce("daggers.control", record.value(), record.key(), headers=record.headers())
    assert producer.flush(30) == 0
    last = records(stack.kafka, "daggers.control")[-1].offset()
    until(lambda: folded(stack) >= last)

    assert len(history) > 5
    assert dump(cli) == before
    assert driver(stack, name).keys() == running


@pytest.mark.long
def test_projections_that_were_dropped_are_rebuilt_byte_for_byte(stack: Stack, cli: Cli, name: str) -> None:
    cli("stop", name, "--wait")
    before = dump(cli)

    down(stack)
    files = list(stack.state_dir.glob("gateway.sqlite*"))
    for file in files:
        file.unlink()
    up(stack)
    after = dump(cli)
    cli("delete", name, "--wait")

    assert Path(stack.state_dir / "gateway.sqlite") in files
    assert f'"name": "{name}"' in before
    assert after == before


def folded(stack: Stack) -> int:
    """How far the gateway has read the control topic."""
    with Client(stack.gateway, token_file=stack.token_file) as client:
        return client.call(client.catalog.ListClusters, gateway_pb2.ListClustersRequest()).sequence


def dump(cli: Cli) -> str:
    """The projection's rows. They follow the log by half a second; a list waits for them."""
    cli("list")
    return cli.try_("local", "dump").out
