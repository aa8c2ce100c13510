"""A batch that is read again gives the same bytes, also of floats that cancel each other out."""

from __future__ import annotations

import json
import math
from pathlib import Path
from random import Random
from typing import Any

import pytest
from services.runtime.tests.job_driver import in_influx, influx_sink, kafka_sink, written
from services.runtime.tests.launches import Dagger
from services.runtime.tests.sink_contract import query, records
from tests.integration.bookings import COUNT_SQL, booking, recount, spread, window_end
from tests.proxy import Proxy

pytestmark = [pytest.mark.integration, pytest.mark.long]


def sums_in_influx(influx: dict[str, str], dagger: Dagger) -> dict[tuple[str, str], tuple[float, float]]:
    """(window end, city) -> total and mean, as the database has them."""
    found = query(influx, f'SELECT total, mean, tag_city_id FROM "{dagger.name}"')
    rows = [row for series in found.get("series", []) for row in series["values"]]
    return {(time, city): (float(total), float(mean)) for time, total, mean, city in rows}


def test_a_driver_that_is_killed_between_two_sinks_gives_both_the_same_bytes(
    tmp_path: Path, kafka: str, influx: dict[str, str], detour: Proxy
) -> None:
    """Of fares that cancel each other out: added up in the order in which they come they give any sum."""
    added = "count(1) AS num_of_bookings, SUM(fare) AS total, AVG(fare) AS mean,"
    dagger = Dagger(
        tmp_path, kafka, sql=COUNT_SQL.replace("count(1) AS num_of_bookings,", added), idle_timeout_s=0
    )
    topic = f"json-{dagger.name}"
    dagger.sinks = [influx_sink(influx, url=detour.url), kafka_sink(kafka, topic)]
    chance = Random(5)
    events = spread((at / 40 for at in range(9600)), cities=2)
    fares = [chance.choice([1e16, -1e16, 1.0, chance.uniform(0, 500)]) for _ in events]
    values = [booking(at, city_id=city, fare=fare) for (at, city), fare in zip(events, fares, strict=True)]

    with dagger.launch() as launch:
        launch.running()
        dagger.write(*values[:6000])
        launch.until(written(2))
        detour.cut()
        dagger.write(*values[6000:], booking(400))
        launch.until(lambda beat: beat.retrying)
        launch.kill()
    detour.open()
    with dagger.launch() as relaunch:
        relaunch.until(lambda beat: in_influx(influx, dagger).total() >= len(events))
        relaunch.stop()
    groups: dict[tuple[str, str], list[float]] = {}
    for (at, city), fare in zip(events, fares, strict=True):
        groups.setdefault((window_end(at), str(city)), []).append(fare)
    expected = {group: (math.fsum(some), math.fsum(some) / len(some)) for group, some in groups.items()}

    assert in_influx(influx, dagger) == recount(events)
    assert sums_in_influx(influx, dagger) == expected
    versions: dict[Any, list[Any]] = {}
    for record in records(kafka, topic):
        ids = dict(record.headers() or [])["ce_id"]
        versions.setdefault(record.key(), []).append((record.value(), ids))
    assert max(map(len, versions.values())) > 1  # some rows were written before and after the kill
    assert [len(set(version)) for version in versions.values()] == [1] * len(expected)
    rows = [json.loads(version[0][0]) for version in versions.values()]
    assert {(r["window_timestamp"], str(r["tag_city_id"])): (r["total"], r["mean"]) for r in rows} == expected
