"""Every query of every dashboard of the compose deployment runs on a real InfluxDB and finds our points."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from daggers.v1 import alerts_pb2, events_pb2, telemetry_pb2
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from influxdb_client.client.influxdb_client import InfluxDBClient

from eventlog import Record
from telemetry import points
from telemetry.projector import Database

DASHBOARDS = Path(__file__).parents[3] / "deploy" / "compose" / "grafana" / "dashboards"
STEP = timedelta(seconds=20)
SHIFTS = {"now": timedelta(), "1 day before": timedelta(days=1), "1 week before": timedelta(days=7)}


def panels() -> Iterator[tuple[str, dict[str, Any]]]:
    for file in sorted(DASHBOARDS.glob("*.json")):
        for panel in json.loads(file.read_text())["panels"]:
            yield file.stem, panel


def queries() -> Iterator[Any]:
    for board, panel in panels():
        for target in panel.get("targets", ()):
            name = f"{board}: {panel['title']} {target['refId']}"
            yield pytest.param(target["query"], panel["type"], id=name.replace("$", ""))
    for file in sorted(DASHBOARDS.glob("*.json")):
        for variable in json.loads(file.read_text())["templating"]["list"]:
            yield pytest.param(
                variable["definition"], "variable", id=f"{file.stem}: variable {variable['name']}"
            )


@pytest.fixture(scope="module")
def written(influx: dict[str, str]) -> tuple[InfluxDBClient, dict[str, str]]:
    """Points of a dagger that has run for a week, with every field there is; what queries put for `${…}`."""
    name = f"dashboard-{uuid4().hex[:8]}"
    now = datetime.now(UTC).replace(microsecond=0)
    lines = [
        line
        for shift in SHIFTS.values()
        for number in range(6)
        for line in moments(name, now - shift - STEP * (number + 1), 6 - number)
    ]
    rows = [
        f"{name},city=a orders=3i {int((now - shift - STEP).timestamp())}000000000"
        for shift in SHIFTS.values()
    ]
    Database(**influx).writer()([*lines, *rows])
    given = {"dagger": name, "measurement": name, "field": "orders"}
    given |= {"v.timeRangeStart": (now - 6.5 * STEP).isoformat(), "v.timeRangeStop": now.isoformat()}
    given |= {"v.windowPeriod": "20s", "v.defaultBucket": f'"{influx["bucket"]}"'}
    return InfluxDBClient(url=influx["url"], token=influx["token"], org=influx["org"]), given


@pytest.mark.integration
@pytest.mark.parametrize(("query", "kind"), list(queries()))
def test_every_query_finds_what_we_write(
    query: str, kind: str, written: tuple[InfluxDBClient, dict[str, str]]
) -> None:
    client, given = written

    found = client.query_api().query(filled(query, given))

    assert sum(len(table.records) for table in found) > 0, f"a {kind} stays empty"


@pytest.mark.integration
@pytest.mark.parametrize("shift", list(SHIFTS))
def test_a_compared_metric_shows_the_past_at_the_place_of_the_present(
    shift: str, written: tuple[InfluxDBClient, dict[str, str]]
) -> None:
    client, given = written
    lag = next(panel for _, panel in panels() if panel["title"] == "Lag" and len(panel["targets"]) > 1)
    ref = {
        override["properties"][0]["value"]: override["matcher"]["options"]
        for override in lag["fieldConfig"]["overrides"]
    }[shift]
    query = next(target["query"] for target in lag["targets"] if target["refId"] == ref)

    rows = [row for table in client.query_api().query(filled(query, given)) for row in table.records]
    start, stop = (datetime.fromisoformat(given[f"v.timeRange{end}"]) for end in ("Start", "Stop"))

    assert {row.get_value() for row in rows} == {float(number) for number in range(1, 7)}
    assert all(start <= row.get_time() <= stop for row in rows)


@pytest.mark.integration
@pytest.mark.parametrize("title", ["Open now", "Incidents"])
def test_incidents_of_one_rule_stand_apart_by_their_keys(
    title: str, written: tuple[InfluxDBClient, dict[str, str]]
) -> None:
    client, given = written
    query = next(panel["targets"][0]["query"] for _, panel in panels() if panel["title"] == title)

    found = client.query_api().query(filled(query, given))
    rows = [row.values for table in found for row in table.records if row.values["dagger"] == given["dagger"]]

    assert {(row.get("rule"), row.get("key")) for row in rows} == {
        (None, None),
        ("few", None),
        ("few", "tag_city=7"),
        ("few", "tag_city=9"),
    }


def moments(dagger: str, time: datetime, number: int) -> Iterator[str]:
    """The points of one moment of a dagger's life: the later, the higher its counters."""
    now = Timestamp()
    now.FromDatetime(time)
    meta = alerts_pb2.AlertMeta(dagger=dagger, condition=alerts_pb2.ALERT_CONDITION_FAILED, incident=number)
    beat = telemetry_pb2.Heartbeat(
        dagger=dagger,
        generation=4,
        time=now,
        state=telemetry_pb2.Heartbeat.STATE_RUNNING,
        rows_in=100 * number,
        rows_out=[number],
        late_rows=number,
        late_windows=number,
        quarantined={"MALFORMED": number},
        bad_values={"s2id": number},
        lag={"t/0": number},
        state_rows=number,
        last_progress=now,
        watermark=now,
    )
    beat.freshness["crm"].CopyFrom(telemetry_pb2.Freshness(rows=number, p95_ms=number, waiting_since=now))
    rule = partial(alerts_pb2.AlertMeta, dagger=dagger, condition=alerts_pb2.ALERT_CONDITION_RULE, rule="few")
    of_rule = [rule(incident=number, key=key) for key in ({}, {"tag_city": "7"}, {"tag_city": "9"})]
    messages: list[tuple[Any, Message]] = [
        *((points.of_alert, alerts_pb2.AlertFired(meta=each, summary="few", team="t")) for each in of_rule),
        (points.of_beat, beat),
        (points.of_beat, telemetry_pb2.SchedulerBeat(epoch=1, scheduler_id="s")),
        (points.of_beat, alerts_pb2.MonitorBeat(epoch=1, monitor_id="m")),
        (points.of_event, events_pb2.RelaunchScheduled()),
        (points.of_alert, alerts_pb2.AlertFired(meta=meta, summary="it failed", team="t")),
        (points.of_alert, alerts_pb2.NotificationSent(meta=meta, receiver="slack", attempt=1)),
        (points.of_alert, alerts_pb2.NotificationFailed(meta=meta, receiver="pagerduty", reason="HTTP_500")),
    ]
    for project, message in messages:
        kind = message.DESCRIPTOR.full_name
        line = project(Record(number, "id", "/test", dagger, time, kind, message, b""))
        assert line is not None
        yield line


def filled(query: str, given: dict[str, str]) -> str:
    """The query as Grafana sends it."""
    text = re.sub(r"\$\{(\w+)\}", lambda match: given[match[1]], query)
    return re.sub(r"\bv\.(?:timeRange\w+|windowPeriod|defaultBucket)", lambda match: given[match[0]], text)
