"""One sink of a dagger goes away, of each kind, and drivers are killed meanwhile: each sink is as a recount.

The sink that stays is never held up. The quick test has drivers without Spark; the other has real ones, and a
sink that is away for minutes.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from uuid import uuid4

import pytest
from daggers.v1 import spec_pb2
from services.runtime.tests import httpserver
from services.runtime.tests.httpserver import Received, Reply
from services.runtime.tests.launches import Beat, Dagger, Launch
from services.runtime.tests.sink_cases import http
from services.runtime.tests.sink_contract import Counts, on_servers
from services.runtime.tests.sinks_apart import AWAY, NEAR, Plan, cuttable, rows_of, run
from tests.integration.bookings import booking

from runtime import sinks

pytestmark = pytest.mark.integration
AWAY_S: Final = 120.0
"""Seconds for which a sink of a real driver is away."""
SQL: Final = """\
SELECT CAST(city_id AS STRING) AS tag_city, count(1) AS n,
       TUMBLE_END(rowtime, INTERVAL '60' SECOND) AS window_timestamp
FROM `data_stream` GROUP BY TUMBLE(rowtime, INTERVAL '60' SECOND), city_id"""
_EACH_RUN: Final = {"postgres"}
"""Kinds of which the quick test is in `make test`; the others are in `make test-long`."""


@contextmanager
def staying() -> Iterator[tuple[spec_pb2.ResolvedSink, Counts]]:
    """Yield the sink that stays, an HTTP server, and the rows that it has."""
    rows: Counts = {}

    def answer(got: Received) -> Reply:
        rows[got.json["window_timestamp"], got.json["tag_city"]] = got.json["n"]
        return Reply()

    with httpserver.serving() as server:
        server.answer = answer
        resolved = http.sink(server.url)
        resolved.sink.name = NEAR
        yield resolved, rows


def each_kind() -> list[object]:
    """List the kinds, most of them marked as long."""
    names = on_servers(sinks.names())
    return [
        pytest.param(name, marks=() if name in _EACH_RUN else pytest.mark.long)
        if isinstance(name, str)
        else name
        for name in names
    ]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", each_kind())
def test_each_sink_is_as_a_recount_over_an_outage_and_kills(
    name: str, request: pytest.FixtureRequest, tmp_path: Path, kafka: str
) -> None:
    dagger, generation = f"d{uuid4().hex[:8]}", 0
    with cuttable(name, request, tmp_path) as sink, staying() as (near, near_rows):

        def driver(*steps: int | str, is_killed: bool = True) -> int | None:
            nonlocal generation
            generation += 1
            serialised = (
                (sink.resolved.SerializeToString(), sink.descriptors),
                (near.SerializeToString(), b""),
            )
            plan = Plan(kafka, dagger, tmp_path, generation, serialised, sink.shares, steps, is_killed)
            return run(plan, sink.open)

        codes = [driver(0)]
        sink.cut()
        codes += [driver(1, 2)]  # killed behind the marker of 2, and before Spark commits it
        during = dict(near_rows)
        codes += [driver(2, 3, "wait for the sink", "drain a part")]
        sink.cut()
        codes += [driver(4, "wait for the sink", "drain", 5, is_killed=False)]
        found = sink.read()

    def recount(last: int) -> Counts:
        return {
            key: n for number in range(last + 1) for key, n in rows_of(number, shares=sink.shares).items()
        }

    assert codes == [*[-signal.SIGKILL] * 3, 0], (tmp_path / "driver.log").read_text()[-2000:]
    assert (during, near_rows) == (recount(2), recount(5))
    assert found == recount(5)


@pytest.mark.long
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("name", on_servers(name for name in sinks.names() if name != "log"))
def test_each_sink_of_a_real_driver_is_as_a_recount(
    name: str, request: pytest.FixtureRequest, tmp_path: Path, kafka: str
) -> None:
    with cuttable(name, request, tmp_path) as sink, staying() as (near, near_rows):
        dagger = Dagger(tmp_path, kafka, sinks=[sink.resolved, near], sql=SQL, sink_files=sink.descriptors)
        expected: Counts = {}

        def write(launch: Launch) -> None:
            """Write the records of a minute, and wait until the sink that stays has its rows."""
            minute = len(expected) // 2
            dagger.write(*(booking(60 * minute + 5 + k, city_id=1) for k in range(minute + 1)))
            dagger.write(booking(60 * minute + 7, city_id=2))
            end = f"2026-01-01T12:{minute + 1:02}:00Z"
            expected.update({(end, "1"): minute + 1, (end, "2"): 1})
            launch.until_true(lambda: near_rows == expected)

        with dagger.launch() as first:
            write(first)
            first.until_true(lambda: sink.read() == expected)
            began = time.monotonic()
            sink.cut()
            write(first)
            write(first)
            first.until(lambda beat: waiting(beat) >= 4)
            first.kill()
        with dagger.launch() as second:
            write(second)
            second.until(lambda beat: waiting(beat) >= 6)
            second.until_true(lambda: time.monotonic() - began > AWAY_S)
            write(second)
            sink.open()
            second.until(lambda beat: waiting(beat) < 8)
            second.kill()
        sink.cut()
        with dagger.launch() as third:
            write(third)
            sink.open()
            third.until(lambda beat: beat.batch_id >= 0 and not waiting(beat))
            write(third)
            third.until_true(lambda: sink.read() == expected)
            code = third.stop()
        found = sink.read()

    assert (found, near_rows, code) == (expected, expected, 0)


def waiting(beat: Beat) -> int:
    """Count the rows that wait for the sink that is away."""
    return beat.spools[AWAY].rows if AWAY in beat.spools else 0
