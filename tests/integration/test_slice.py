"""One dagger, end to end, on real Kafka, Spark and InfluxDB: the promises of the first slice."""

import time
from pathlib import Path
from uuid import uuid4

import pytest
from conftest import Stack
from daggers.v1 import gateway_pb2, spec_pb2
from tests.integration.bookings import COUNT_SQL, NOON, Bookings, booking, counted, recount, spread
from tests.integration.cli import Cli, at_least, runs
from tests.integration.faults import driver, halves, kill_driver
from tests.proxy import Proxy, port_of

from daggerclient import Client

pytestmark = pytest.mark.integration


@pytest.fixture(scope="session")
def cli(stack: Stack) -> Cli:
    return Cli(stack.state_dir)


def test_a_dagger_is_created_counts_exactly_stops_and_is_deleted(
    stack: Stack, cli: Cli, tmp_path: Path
) -> None:
    bookings = Bookings(stack.kafka, cli)
    name, file = bookings.dagger(tmp_path, start="latest", sinks=[{"influx": {}}, {"log": {}}])
    cli("apply", "-f", file, "--wait")
    events = spread([s / 4 for s in range(4 * 180)], cities=3)

    bookings.write(booking(second, city_id=city) for second, city in events)
    rows = cli.rows(name, enough=at_least(9))
    running = cli.until(name, runs)
    cli("stop", name, "--wait")
    stopped = cli("get", name)
    cli("delete", name, "--wait")

    assert counted(rows) == recount(events)
    assert (running["desired"], running["last_error"]) == ("RUNNING", None)
    assert (stopped["phase"], stopped["desired"]) == ("STOPPED", "STOPPED")
    assert cli.try_("get", name).code == 1
    assert driver(stack, name) == {}


@pytest.mark.long
@pytest.mark.parametrize("kafka_time", ["event time", "now"])
def test_two_uneven_partitions_caught_up_from_earliest_lose_no_row(
    stack: Stack, cli: Cli, tmp_path: Path, kafka_time: str
) -> None:
    bookings = Bookings(stack.kafka, cli, partitions=2)
    dense, sparse = spread(range(6000), cities=2), spread(range(0, 6000, 10), cities=2)
    for partition, events in enumerate((dense, sparse)):
        for second, city in events:
            at = None if kafka_time == "now" else round((NOON + second) * 1000)
            bookings.produce(booking(second, city_id=city), partition=partition, kafka_time_ms=at)
    bookings.flush()
    name, file = bookings.dagger(tmp_path)

    cli("apply", "-f", file, "--wait")
    rows = cli.rows(name, enough=at_least(200))
    cli("delete", name, "--wait")

    assert counted(rows) == recount(dense + sparse)


def test_broken_and_future_records_are_set_aside_and_the_job_goes_on(
    stack: Stack, cli: Cli, tmp_path: Path
) -> None:
    bookings = Bookings(stack.kafka, cli)
    name, file = bookings.dagger(tmp_path)
    events = spread(range(120), cities=1)
    good = [booking(second, city_id=city) for second, city in events]
    a_day_ahead = booking(time.time() - NOON + 86_400)

    bookings.write([*good[:30], b"\xff\xff\xff", *good[30:60], a_day_ahead, *good[60:]])
    cli("apply", "-f", file, "--wait")
    rows = cli.rows(name, enough=at_least(2))
    quarantined = cli("quarantine", "list", name)
    cli.until(name, runs)
    cli("delete", name, "--wait")

    assert counted(rows) == recount(events)
    assert sorted((record["offset"], record["reason"]) for record in quarantined) == [
        (30, "MALFORMED"),
        (61, "FROM_THE_FUTURE"),
    ]


@pytest.mark.long
def test_a_silent_stream_still_closes_its_last_window(stack: Stack, cli: Cli, tmp_path: Path) -> None:
    bookings = Bookings(stack.kafka, cli)
    name, file = bookings.dagger(tmp_path, start="latest")
    cli("apply", "-f", file, "--wait")

    bookings.write([booking(10)])
    rows = cli.rows(name, enough=at_least(1), deadline_s=60)
    cli("delete", name, "--wait")

    assert counted(rows) == recount([(10, 1)])


@pytest.mark.long
def test_a_where_that_keeps_one_record_in_a_thousand_closes_its_windows_on_time(
    stack: Stack, cli: Cli, tmp_path: Path
) -> None:
    bookings = Bookings(stack.kafka, cli)
    stream = {"table": "data_stream", "stream": bookings.name, "idle_timeout": "off", "start": "latest"}
    name, file = bookings.dagger(tmp_path, streams=[stream])
    cli("apply", "-f", file, "--wait")

    # one COMPLETED at second 5; the thousand CREATED that follow carry event time past the window's end
    bookings.write([booking(5), *(booking(6 + s / 10, status="CREATED") for s in range(1000))])
    rows = cli.rows(name, enough=at_least(1), deadline_s=60)
    cli("delete", name, "--wait")

    assert counted(rows) == recount([(5, 1)])


@pytest.mark.long
def test_a_driver_killed_in_batch_0_skips_nothing_after_latest(
    stack: Stack, cli: Cli, tmp_path: Path
) -> None:
    bookings = Bookings(stack.kafka, cli)
    bookings.write([booking(0, order="before")])
    token = tmp_path / "token"
    token.write_text(stack.influx["token"])
    with Proxy(port_of(stack.influx["url"])) as gate:
        gate.hold()
        own = {"url": gate.url, "token": {"file": str(token)}}
        name, file = bookings.dagger(
            tmp_path,
            start="latest",
            sql="SELECT order_number AS tag_order, fare, rowtime AS window_timestamp FROM data_stream",
            sinks=[{"influx": own}],
        )
        cli("apply", "-f", file)
        written = []
        while not gate.touched.wait(0.2):  # feed until batch 0 hangs at the closed gate
            written.append(f"o{len(written)}")
            bookings.write([booking(len(written), order=written[-1])])
            assert len(written) < 600
        killed = cli("get", name)["generation"]
        kill_driver(stack, name)
        bookings.write([booking(len(written) + 1, order="after")])
        gate.open()
        rows = cli.rows(name, enough=lambda rows: any(row["tags"]["tag_order"] == "after" for row in rows))
        generation = cli("get", name)["generation"]
        cli("delete", name, "--wait")

    # batch 0 held at least one of the orders fed while it started; from the first of them on, none is missing
    orders = {row["tags"]["tag_order"] for row in rows}
    first = min(int(order[1:]) for order in orders - {"after"})
    assert orders == {f"o{i}" for i in range(first, len(written))} | {"after"}
    assert generation > killed


def test_a_driver_killed_in_mid_run_is_relaunched_and_rows_stay_exact(
    stack: Stack, cli: Cli, tmp_path: Path
) -> None:
    bookings = Bookings(stack.kafka, cli)
    name, file = bookings.dagger(tmp_path, start="latest")
    before = cli("apply", "-f", file, "--wait") and cli("get", name)["generation"]
    events = spread(range(90), cities=2)

    bookings.write(booking(second, city_id=city) for second, city in events[:45])
    shared = {Path(mapped.path).name for mapped in halves(stack, name)[0].memory_maps()}
    kill_driver(stack, name)
    bookings.write(booking(second, city_id=city) for second, city in events[45:])
    rows = cli.rows(name, enough=at_least(4))
    after = cli.until(name, lambda dagger: dagger["phase"] == "RUNNING")["generation"]
    cli("delete", name, "--wait")

    assert counted(rows) == recount(events)
    assert after > before
    assert "classes.jsa" in shared  # without it a relaunch takes twice the time


def test_a_wrong_query_is_refused_with_line_and_column(stack: Stack, cli: Cli, tmp_path: Path) -> None:
    bookings = Bookings(stack.kafka, cli)
    name, file = bookings.dagger(tmp_path, sql=COUNT_SQL.replace("status =", "statsu ="))

    outcome = cli.try_("apply", "-f", file)

    assert outcome.code == 1
    finding = outcome.json["error"]["findings"][0]
    assert (finding["code"], finding["line"], finding["column"]) == ("UNKNOWN_COLUMN", 3, 26)
    assert "status" in finding["suggestion"]
    assert cli.try_("get", name).code == 1


def test_everything_wrong_with_a_file_is_told_at_once(stack: Stack, cli: Cli, tmp_path: Path) -> None:
    bookings = Bookings(stack.kafka, cli)
    name, file = bookings.dagger(tmp_path, cluster="nowhere", colour="red", trigger="soon")

    outcome = cli.try_("apply", "-f", file)

    fields = sorted(finding["field"] for finding in outcome.json["error"]["findings"])
    assert (outcome.code, fields) == (1, ["cluster", "colour", "trigger"])
    assert cli.try_("get", name).code == 1


def test_two_writes_with_one_request_id_make_one_dagger(stack: Stack, cli: Cli) -> None:
    bookings = Bookings(stack.kafka, cli)
    spec = spec_pb2.DaggerSpec(
        team="it",
        cluster="local",
        streams=[spec_pb2.StreamInput(table="data_stream", stream=bookings.name)],
        sql=COUNT_SQL,
        sinks=[spec_pb2.Sink(log=spec_pb2.LogSink())],
    )
    name, request_id = f"d-{uuid4().hex[:8]}", uuid4().hex
    request = gateway_pb2.CreateDaggerRequest(name=name, spec=spec, request_id=request_id)
    with Client(stack.gateway, token_file=stack.token_file) as client:
        first = client.call(client.daggers.CreateDagger, request)
        second = client.call(client.daggers.CreateDagger, request)
        cli("delete", name, "--wait")

    assert second.sequence == first.sequence
    assert second.dagger.version == first.dagger.version == 1
