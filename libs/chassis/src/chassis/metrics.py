"""Metrics of a service for Prometheus: each is declared once; calls are counted, gauges are read at scrapes.

A label has few values, which are fixed in the code: methods, statuses, phases, topics. Names of daggers and
callers and addresses are no labels; heartbeats tell about single daggers (`telemetry`, WatchVitals).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import Any, Final

import grpc
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    start_http_server,
)
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.registry import Collector

from chassis.binding import host_and_port
from chassis.endpoint import CannotBind
from chassis.interceptors import Call, Concern

_SCRAPE_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric, as it is told and documented."""

    name: str
    kind: str
    """counter, exposed with the suffix `_total`; gauge; histogram; info, with `_info`."""
    description: str
    """One sentence, and the unit if the name has none."""
    labels: tuple[str, ...] = ()

    def family(self, values: Mapping[Any, float] | float) -> GaugeMetricFamily:
        """Build a gauge: values by label values, tuples of text; one value without labels."""
        family = GaugeMetricFamily(self.name, self.description, labels=self.labels)
        for labels, value in values.items() if isinstance(values, Mapping) else [((), values)]:
            family.add_metric(labels, value)
        return family


SERVICE: Final = Metric(
    "daggers_service", "info", "Which service this is, and its version.", ("service", "version")
)
CALLS: Final = Metric("daggers_calls", "counter", "Calls that ended, by their status.", ("method", "code"))
OPEN_CALLS: Final = Metric(
    "daggers_open_calls", "gauge", "Calls that go on now; watches are some.", ("method",)
)
CALL_SECONDS: Final = Metric(
    "daggers_call_duration_seconds", "histogram", "How long unary calls took.", ("method",)
)
LOG_SEQUENCE: Final = Metric(
    "daggers_log_sequence", "gauge", "Offset of the newest record that is folded.", ("topic",)
)
LOG_DAMAGED: Final = Metric(
    "daggers_log_damaged",
    "gauge",
    "1 when the log is not the one that was read before, or shorter.",
    ("topic",),
)
DECLARED: Final = (SERVICE, CALLS, OPEN_CALLS, CALL_SECONDS, LOG_SEQUENCE, LOG_DAMAGED)

Gauges = Callable[[], Iterable[GaugeMetricFamily]]


class Metrics:
    """Everything that one service tells; `counter` counts, `serving` is where it is asked for."""

    def __init__(self, service: str) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        Info(SERVICE.name, SERVICE.description, registry=self.registry).info(
            {"service": service, "version": version(service)}
        )

    def counter(self, metric: Metric) -> Counter:
        """Register a counter of this service."""
        return Counter(metric.name, metric.description, metric.labels, registry=self.registry)

    def calls(self) -> Concern:
        """Counts and times calls, for `chassis.interceptors.interceptor`."""
        ended, going = (
            self.counter(CALLS),
            Gauge(OPEN_CALLS.name, OPEN_CALLS.description, OPEN_CALLS.labels, registry=self.registry),
        )
        lasted = Histogram(
            CALL_SECONDS.name, CALL_SECONDS.description, CALL_SECONDS.labels, registry=self.registry
        )
        # Methods and codes are few; the library locks and writes text at each look.
        going_of, ended_of, lasted_of = cache(going.labels), cache(ended.labels), cache(lasted.labels)

        @contextmanager
        def count_call(call: Call) -> Iterator[None]:
            begun = time.perf_counter()
            going_of(call.method).inc()
            code = "CANCELLED"
            try:
                yield
                code = "OK"
            except grpc.aio.AbortError:
                code = _code(call)
                raise
            finally:
                going_of(call.method).dec()
                ended_of(call.method, code).inc()
                if call.unary:
                    lasted_of(call.method).observe(time.perf_counter() - begun)

        return count_call

    @asynccontextmanager
    async def serving(self, bind: str, gauges: Gauges) -> AsyncIterator[int]:
        """Answer /metrics at host:port while the block runs; answers the port. Nowhere when `bind` is empty.

        `gauges` is asked at each scrape, in the loop of the service: a loop that hangs fails the scrape.
        Raises: CannotBind.
        """
        if not bind:
            yield 0
            return
        collector = _GaugeCollector(gauges, asyncio.get_running_loop())
        self.registry.register(collector)
        host, port = host_and_port(bind)
        try:
            server, thread = start_http_server(port, host.strip("[]"), self.registry)
        except OSError as error:
            raise CannotBind(f"cannot serve metrics on {bind}: {error.strerror}") from error
        try:
            yield server.server_port
        finally:
            await asyncio.to_thread(server.shutdown)
            server.server_close()
            await asyncio.to_thread(thread.join)


class _GaugeCollector(Collector):
    """Collector that reads gauges at each scrape."""

    def __init__(self, gauges: Gauges, loop: asyncio.AbstractEventLoop) -> None:
        self._gauges, self._loop = gauges, loop

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Describe nothing: registration must not read the gauges."""
        return iter(())

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Read the gauges on the service's event loop. Raises: TimeoutError."""

        async def ask() -> list[GaugeMetricFamily]:
            return list(self._gauges())

        return iter(asyncio.run_coroutine_threadsafe(ask(), self._loop).result(_SCRAPE_S))


def _code(call: Call) -> str:
    """Return the name of the status that ended a call."""
    code = call.context.code()
    return next((status.name for status in grpc.StatusCode if code in (status, status.value[0])), "UNKNOWN")
