"""How long a warm check of a 50-line query takes: by the library alone, and by Validate over gRPC.

    .venv/bin/python bench/validate.py [--runs N]

The gateway is the real one, in this process, over a log in memory: the time is that of the call as a client
on this machine sees it, with the wire, the specification, the catalogue and the processes that check. Every
run changes the query, so that nothing may be remembered from the run before. The first 20 runs are not
counted.

Last, what others feel while one caller has six texts of 240 KB checked all the time.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import itertools
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import grpc
import structlog
from daggers.v1 import gateway_pb2 as pb
from daggers.v1 import gateway_pb2_grpc, spec_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from machine import header

from api_gateway.quarantine.memory import MemoryQuarantine
from api_gateway.server import serving
from api_gateway.state.projection import Projection
from api_gateway.validate.query_check_pool import check_processes
from chassis.endpoint import Endpoint
from cli.files.proto_files import load
from daggersql import Table, check
from eventlog.memory import MemoryLog

WARM_UP = 20
_NUMBERS = itertools.count(100_000)
OTHER, HOSTILE = "another-caller-00", "hostile-caller-00"  # names and tokens
MESSAGE, TIME_FIELD = "examples.v1.Booking", "event_timestamp"
SCHEMA = Path(__file__).parent.parent / "examples" / "schemas" / "booking.proto"
QUERY = """\
SELECT
  city_id AS tag_city_id,
  vehicle_type AS tag_vehicle_type,
  customer.locale AS label_locale,
  S2Id(lat, long, 13) AS label_s2id,
  CASE
    WHEN price.amount >= 100000 THEN 'high'
    WHEN price.amount >= 20000 THEN 'middle'
    ELSE 'low'
  END AS label_price,
  COUNT(1) AS bookings,
  DistinctCount(customer.id) AS customers,
  DistinctCount(driver_id) AS drivers,
  SUM(price.amount) AS revenue,
  SUM(price.discount) AS discount,
  AVG(price.amount) AS mean_price,
  MIN(price.amount) AS least_price,
  SUM(
    CASE
      WHEN price.discount > 0 THEN 1
      ELSE 0
    END
  ) AS discounted,
  SUM(
    CASE
      WHEN customer.locale = 'id' AND price.currency = 'IDR' THEN price.amount - price.discount
      WHEN customer.locale = 'vi' AND price.currency = 'VND' THEN price.amount - price.discount
      ELSE 0.0
    END
  ) AS home_revenue,
  MAX(ABS(price.amount - price.discount) * 1.1 + 5) AS largest_with_tax,
  TUMBLE_END(rowtime, INTERVAL '60' SECOND) AS window_timestamp
FROM `data_stream`
WHERE status = 'COMPLETED'
  AND vehicle_type IN ('bike', 'car', 'van')
  AND price.amount BETWEEN 1000 AND 10000000
  AND (customer.locale LIKE 'i%' OR customer.locale LIKE 'v%' OR customer.locale IS NULL)
  AND lat BETWEEN -11.0 AND 24.0
  AND long BETWEEN 95.0 AND 141.0
GROUP BY
  TUMBLE(rowtime, INTERVAL '60' SECOND),
  city_id,
  vehicle_type,
  customer.locale,
  S2Id(lat, long, 13),
  CASE
    WHEN price.amount >= 100000 THEN 'high'
    WHEN price.amount >= 20000 THEN 'middle'
    ELSE 'low'
  END
"""


def main() -> None:
    """Print a line for each way: p50, p95, p99 and the largest."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--runs", type=int, default=500, help="checks that are counted, of each way")
    runs = arguments.parse_args().runs
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("critical"))
    print(header("protobuf", "grpcio"))
    print(f"# a query of {len(QUERY.splitlines())} lines, {runs} runs after {WARM_UP} that are not counted")
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_measure(runs, f"sqlite:///{folder}/projection.db"))


async def _measure(runs: int, database: str) -> None:
    schema = load([SCHEMA], [])
    table = _table(schema)

    async def alone(query: str) -> None:
        found = check(query, [table])
        assert found.plan is not None, found.findings

    await _time("daggersql.check", alone, runs)
    tokens = {hashlib.sha256(name.encode()).digest(): name for name in (OTHER, HOSTILE)}
    endpoint = Endpoint("127.0.0.1:0", tokens=lambda: tokens)
    async with (
        check_processes() as checker,
        serving(
            MemoryLog(),
            Projection(database),
            MemoryQuarantine(),
            endpoint,
            alerts=MemoryLog(),
            source="/bench",
            checker=checker,
        ) as gateway,
        grpc.aio.insecure_channel(f"127.0.0.1:{gateway.port}") as channel,
    ):
        catalog = gateway_pb2_grpc.CatalogServiceStub(channel)
        await _fill(catalog, schema)
        daggers = gateway_pb2_grpc.DaggerServiceStub(channel)
        spec = spec_pb2.DaggerSpec(
            team="bench",
            cluster="local",
            streams=[spec_pb2.StreamInput(stream="bookings")],
            sinks=[spec_pb2.Sink(log=spec_pb2.LogSink())],
        )

        async def called(query: str) -> None:
            spec.sql = query
            answer = await daggers.Validate(
                pb.ValidateRequest(name="bench", spec=spec), timeout=30, metadata=_shows(OTHER)
            )
            assert answer.columns, answer.findings

        await _time("DaggerService.Validate", called, runs)

        async def listed(_: str) -> None:
            await catalog.ListStreams(pb.ListStreamsRequest(), timeout=30, metadata=_shows(OTHER))

        async def hostile(text: str) -> None:
            asked = spec_pb2.DaggerSpec()
            asked.CopyFrom(spec)
            for number in itertools.count():
                asked.sql = f"{text} -- {number}"
                request = pb.ValidateRequest(name="hostile", spec=asked)
                answer = await daggers.Validate(request, timeout=60, metadata=_shows(HOSTILE))
                assert answer.findings
                refused.append(answer.findings[0].code)

        refused: list[str] = []
        tasks = [asyncio.create_task(hostile(text)) for text in _hostile()]
        await _time("ListStreams meanwhile", listed, runs)
        await _time("DaggerService.Validate meanwhile", called, runs)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        print(f"# {len(refused)} texts were refused meanwhile: {', '.join(sorted(set(refused)))}")


def _shows(name: str) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {name}"),)


def _hostile() -> list[str]:
    """Six texts of 240 KB that cost much to look at, of three kinds."""
    pipes = "REGEXP(driver_id, '(" + "|" * 980 + "') AS c#"
    classes = "REGEXP(driver_id, '#" + r"[\p{L}\d-\x{FFFF}]?" * 40 + "') AS c#"
    unknown = "custmer_idd# + custmer_idd# AS c#"
    texts = []
    for unit in (pipes, classes, unknown):
        count = 240_000 // (len(unit) + 6)
        columns = ", ".join(unit.replace("#", str(number)) for number in range(count))
        texts.append(f"SELECT {columns} FROM data_stream")
    return texts * 2


async def _time(name: str, act: Callable[[str], Awaitable[None]], runs: int) -> None:
    took = []
    for _ in range(WARM_UP + runs):
        query = QUERY.replace("100000 ", f"{next(_NUMBERS)} ")
        begin = time.perf_counter()
        await act(query)
        took.append((time.perf_counter() - begin) * 1000)
    cuts = statistics.quantiles(took[WARM_UP:], n=100)
    largest = max(took[WARM_UP:])
    print(f"{name}: p50 {cuts[49]:.1f}, p95 {cuts[94]:.1f}, p99 {cuts[98]:.1f}, largest {largest:.1f} ms")


async def _fill(catalog: gateway_pb2_grpc.CatalogServiceStub, schema: spec_pb2.Schema) -> None:
    kafka = spec_pb2.KafkaAddress(bootstrap_servers="127.0.0.1:1")
    cluster = spec_pb2.Cluster(name="local", kafka=kafka, spark_master="local[2]")
    await catalog.RegisterCluster(
        pb.RegisterClusterRequest(cluster=cluster), timeout=30, metadata=_shows(OTHER)
    )
    await catalog.RegisterSchema(pb.RegisterSchemaRequest(schema=schema), timeout=30, metadata=_shows(OTHER))
    stream = spec_pb2.Stream(
        name="bookings", cluster="local", topics=["bookings"], message=MESSAGE, time_field=TIME_FIELD
    )
    await catalog.RegisterStream(pb.RegisterStreamRequest(stream=stream), timeout=30, metadata=_shows(OTHER))


def _table(schema: spec_pb2.Schema) -> Table:
    pool = DescriptorPool()
    for file in schema.files.file:
        pool.Add(file)
    return Table("data_stream", pool.FindMessageTypeByName(MESSAGE), TIME_FIELD)


if __name__ == "__main__":
    main()
