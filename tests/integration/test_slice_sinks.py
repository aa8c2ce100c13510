"""A driver that dies between two sinks: what one has and the other has not is written again, to both."""

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from services.runtime.tests.job_driver import bookings, in_influx, in_kafka, influx_sink, kafka_sink
from services.runtime.tests.launches import DEADLINE_S, Dagger
from tests.integration.bookings import booking, recount, spread
from tests.proxy import Proxy, port_of

pytestmark = [pytest.mark.integration, pytest.mark.long]


@pytest.fixture(params=["influx", "influx2"], ids=["influxdb 1.8", "influxdb 2"])
def influx(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """Either database, its token in a file."""
    address: dict[str, str] = request.getfixturevalue(request.param)
    file = tmp_path / "token"
    file.write_text(f"{address['token'] or 'user:password'}\n")
    return address | {"token_file": str(file)}


@pytest.fixture
def gate(influx: dict[str, str]) -> Iterator[Proxy]:
    """A closed gate in front of the database."""
    with Proxy(port_of(influx["url"])) as closed:
        closed.hold()
        yield closed


def test_a_kill_between_two_sinks_leaves_every_row_once_in_both(
    tmp_path: Path, kafka: str, influx: dict[str, str], gate: Proxy
) -> None:
    dagger = Dagger(tmp_path, kafka, idle_timeout_s=0)
    topic = f"json-{dagger.name}"
    behind_gate = influx_sink(influx, url=gate.url)
    dagger.sinks = [kafka_sink(kafka, topic), behind_gate]
    events = spread(range(240), cities=2)
    dagger.write(*bookings(events[:150]))

    with dagger.launch() as launch:
        deadline = time.monotonic() + DEADLINE_S
        while len(in_kafka(kafka, topic)) < 4:  # two closed minutes of two cities; a poll of the broker waits
            assert time.monotonic() < deadline, launch.log()[-4000:]
        launch.kill()
    between = (len(in_kafka(kafka, topic)), in_influx(influx, dagger))
    gate.open()
    dagger.write(*bookings(events[150:]), booking(400))
    with dagger.launch() as relaunch:
        relaunch.until(lambda beat: in_influx(influx, dagger).total() >= len(events))
        code = relaunch.stop()

    assert between == (4, Counter())
    assert code == 0
    assert in_influx(influx, dagger) == Counter(dict(in_kafka(kafka, topic))) == recount(events)
    assert len(set(in_kafka(kafka, topic))) == len(recount(events))
