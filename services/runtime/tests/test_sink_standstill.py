"""Sinks that are reached and say nothing, or no more amid a request: a machine that stands still keeps its
connections open.
"""

from __future__ import annotations

import re
import socket
import time
from typing import Final

import pytest
from daggers.v1 import spec_pb2
from services.runtime.tests.sink_contract import COUNTS, Bench, batch, having, many
from tests.proxy import Proxy
from tests.standstill import serving, standing_still

from runtime import sinks
from runtime.clients import sending
from runtime.errors import TemporaryError
from runtime.sinks import Target

pytestmark = [pytest.mark.integration, pytest.mark.long]
ROWS: Final = 6_000
OUTAGE_S: Final = 60
SLACK_S: Final = 30
"""For what goes on beside the tests."""


@pytest.fixture(autouse=True)
def _own_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "PATIENCE_S", 5.0)  # as it is where nothing is tested


@pytest.fixture
def bench(request: pytest.FixtureRequest) -> Bench:
    """Of each kind that a test names."""
    return Bench(request.param, request)


def hurried(resolved: spec_pb2.ResolvedSink) -> spec_pb2.ResolvedSink:
    """The same sink, whose requests take no longer than some seconds, where it lets that be said."""
    own = getattr(resolved.sink, resolved.sink.WhichOneof("kind") or "")
    for field in ("timeout", "deadline"):
        if field in own.DESCRIPTOR.fields_by_name:
            getattr(own, field).FromSeconds(5)
    return resolved


def port(resolved: spec_pb2.ResolvedSink) -> int:
    """Where the sink's server listens on this machine."""
    found = re.search(r"127\.0\.0\.1:(\d+)|\bport: (\d+)", str(resolved))
    assert found is not None
    return int(found[1] or found[2])


def waits(target: Target) -> bool:
    """Whether who asks is told that it takes no rows now."""
    try:
        sinks.probe(target)
    except TemporaryError:
        return True
    return False


@pytest.mark.parametrize("bench", having("at"), indirect=True)
def test_a_sink_that_accepts_connections_and_says_nothing_is_waited_for_and_loses_nothing(
    bench: Bench,
) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=100) as mute:
        silent = bench.case.at(bench.resolved, mute.getsockname()[1])
        away = bench.aimed(hurried(silent))
        sinks.check(away)  # silence is no reason not to start
        with pytest.raises(TemporaryError):
            sinks.open_writer(away).write(batch(COUNTS), 0)
        assert waits(away)
    bench.write(COUNTS)

    assert bench.read() == COUNTS


@pytest.mark.parametrize("bench", having("at"), indirect=True)
def test_a_connection_that_breaks_amid_a_request_loses_no_row(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.sinks.kafka.DELIVERY_TIMEOUT_MS", 20_000)
    with Proxy(port(bench.resolved), kafka=bench.resolved.sink.HasField("kafka")) as way:
        bench.target = bench.aimed(hurried(bench.case.at(bench.resolved, way.port)))
        sinks.check(bench.target)
        way.cut_after(5_000)
        with pytest.raises(TemporaryError):
            bench.write(many(ROWS))
        way.open()
        bench.write(many(ROWS))

    assert bench.read() == many(ROWS)


@pytest.mark.parametrize("bench", having("SERVES_APART"), indirect=True)
def test_a_server_that_stands_still_for_a_minute_is_given_up_and_has_each_row_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.sinks.kafka.DELIVERY_TIMEOUT_MS", 20_000)
    bench.target = bench.aimed(hurried(bench.resolved))
    rows = list(many(ROWS).items())
    first, second = batch(dict(rows[: ROWS // 2])), batch(dict(rows[ROWS // 2 :]))
    writer = sinks.open_writer(bench.target)
    assert writer.write(first, 0).refused in ([], ())
    with standing_still(serving(port(bench.resolved))):
        began = time.monotonic()
        with pytest.raises(TemporaryError):
            writer.write(second, 0)
        given_up = time.monotonic() - began
        assert waits(bench.target)
        time.sleep(max(OUTAGE_S - (time.monotonic() - began), 0))  # so long it stands still
    back = time.monotonic()
    while waits(bench.target):
        assert time.monotonic() - back < SLACK_S
        time.sleep(0.2)  # polling a server; bounded by the deadline
    bench.write(many(ROWS))

    assert given_up < OUTAGE_S
    assert bench.read() == many(ROWS)
