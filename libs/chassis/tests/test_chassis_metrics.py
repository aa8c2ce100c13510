"""What a service tells Prometheus: calls by method and status, gauges as they are at a scrape, and where."""

from __future__ import annotations

import asyncio
import urllib.request
from collections.abc import AsyncIterator, Iterator

import grpc
import pytest
from daggers.v1 import gateway_pb2 as pb
from daggers.v1 import gateway_pb2_grpc as rpc
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from chassis.endpoint import CannotBind
from chassis.errors import ApiError
from chassis.interceptors import interceptor
from chassis.metrics import Metric, Metrics

LEVEL = Metric("daggers_test_level", "gauge", "How high.", ("place",))
GET = "/daggers.v1.DaggerService/GetDagger"


class Daggers(rpc.DaggerServiceServicer):
    """Answers, refuses, or breaks, as the name asks."""

    async def GetDagger(self, request: pb.GetDaggerRequest, _: object) -> pb.GetDaggerResponse:  # noqa: N802
        if request.name == "broken":
            raise RuntimeError("broken")
        if request.name == "missing":
            raise ApiError(
                grpc.StatusCode.NOT_FOUND, "NOT_FOUND", "there is no such dagger", {"name": "missing"}
            )
        return pb.GetDaggerResponse()

    async def WatchEvents(  # noqa: N802
        self, request: pb.WatchEventsRequest, _: object
    ) -> AsyncIterator[pb.WatchEventsResponse]:
        yield pb.WatchEventsResponse()
        await asyncio.Event().wait()


async def scrape(port: int) -> dict[tuple[str, tuple[str, ...]], float]:
    """Every sample by its name, and the values of its labels by theirs, as OpenMetrics' parser reads it."""

    def read() -> str:
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/metrics", headers={"Accept": "application/openmetrics-text"}
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            text: str = answer.read().decode()
        return text

    families = text_string_to_metric_families(await asyncio.to_thread(read))
    return {
        (sample.name, tuple(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


@pytest.fixture
def metrics() -> Metrics:
    return Metrics("chassis")


async def test_calls_are_counted_by_method_and_status_and_open_ones_while_they_last(metrics: Metrics) -> None:
    server = grpc.aio.server(interceptors=[interceptor(pb.DESCRIPTOR, counted=metrics.calls())])
    rpc.add_DaggerServiceServicer_to_server(Daggers(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with (
        metrics.serving("127.0.0.1:0", list) as asked,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        stub = rpc.DaggerServiceStub(channel)
        for name in ("there", "there", "missing", "broken"):
            try:
                await stub.GetDagger(pb.GetDaggerRequest(name=name), timeout=30)
            except grpc.aio.AioRpcError:
                assert name != "there"
        watch = stub.WatchEvents(pb.WatchEventsRequest())
        await watch.read()
        told = await scrape(asked)
        watch.cancel()
    await server.stop(None)

    assert {code: told["daggers_calls_total", (code, GET)] for code in ("OK", "NOT_FOUND", "INTERNAL")} == {
        "OK": 2,
        "NOT_FOUND": 1,
        "INTERNAL": 1,
    }
    assert told["daggers_open_calls", ("/daggers.v1.DaggerService/WatchEvents",)] == 1
    assert told["daggers_open_calls", (GET,)] == 0
    assert told["daggers_call_duration_seconds_count", (GET,)] == 4


async def test_gauges_are_asked_for_at_each_scrape(metrics: Metrics) -> None:
    levels = iter([1.0, 2.5])

    def gauges() -> Iterator[GaugeMetricFamily]:
        yield LEVEL.family({("cellar",): next(levels)})

    async with metrics.serving("127.0.0.1:0", gauges) as port:
        told = [await scrape(port), await scrape(port)]

    assert [each["daggers_test_level", ("cellar",)] for each in told] == [1.0, 2.5]


async def test_every_service_says_which_it_is_and_what_its_process_takes(metrics: Metrics) -> None:
    async with metrics.serving("127.0.0.1:0", list) as port:
        told = await scrape(port)

    assert [labels[0] for name, labels in told if name == "daggers_service_info"] == ["chassis"]
    assert told["process_resident_memory_bytes", ()] > 0


async def test_without_an_address_nothing_listens(metrics: Metrics) -> None:
    async with metrics.serving("", list) as port:
        pass

    assert port == 0


async def test_a_taken_address_is_one_clear_error(metrics: Metrics) -> None:
    async with metrics.serving("127.0.0.1:0", list) as port:
        with pytest.raises(CannotBind, match=f"cannot serve metrics on 127.0.0.1:{port}"):
            async with Metrics("chassis").serving(f"127.0.0.1:{port}", list):
                pass


async def test_an_address_is_free_again_when_the_block_ends(metrics: Metrics) -> None:
    async with metrics.serving("127.0.0.1:0", list) as port:
        pass

    async with Metrics("chassis").serving(f"127.0.0.1:{port}", list) as again:
        assert again == port
