"""Passwords of Kafka that are replaced while rows are written: new ones are read, and no row is lost.

Sinks whose servers are our own in tests have theirs in their own files (`grep rotated`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
)
from services.runtime.tests.job_writing import Place
from services.runtime.tests.sink_rotation import DEADLINE_S, Told, User, write
from tests.integration.securedkafka import secured

from kafkaclient import Connection
from runtime import sinks
from runtime.errors import JobError
from runtime.launch import delivery, outages
from runtime.sinks import Target, kafka

pytestmark = pytest.mark.integration
SESSION_S = 1.0
"""So long a login by SCRAM is good for, as the broker says."""


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "PATIENCE_S", 0.0)
    monkeypatch.setattr(outages, "LONGEST_PAUSE_S", 0.1)
    monkeypatch.setattr("runtime.sinks.kafka.DELIVERY_TIMEOUT_MS", 3_000)


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> Told:
    return Told.at(caplog, capfd)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    with secured(tmp_path_factory.mktemp("secured")) as connection:
        yield connection
        kafka._client.cache_clear()  # what is kept would call for the broker for ever


@pytest.fixture
def user(broker: Connection, tmp_path: Path) -> User:
    """One with a password that the broker knows, and a topic."""
    name = uuid4().hex[:8]
    admin = AdminClient({**broker.librdkafka(), "log_level": 0})
    made = User(broker, f"writer-{name}", f"sink-{name}", tmp_path / "password", admin)
    for done in made.admin.create_topics([NewTopic(made.topic, 1, 1)]).values():
        done.result(DEADLINE_S)
    return made


@pytest.mark.long
@pytest.mark.parametrize("order", ["file first", "broker first"])
def test_a_password_of_kafka_that_is_replaced_is_read_again_and_no_row_is_lost(
    user: User, tmp_path: Path, told: Told, order: str
) -> None:
    old, new = (f"canary-{uuid4().hex}" for _ in range(2))
    user.is_known_by(old)
    user.has(old)
    until(lambda: takes_rows(user.target))  # the broker knows its users after a moment
    place = Place(tmp_path, user.target)
    jobs = [write(place, 0)]
    if order == "file first":
        user.has(new)
    user.is_known_by(new)
    later = told.once(place, lambda: user.has(new))
    time.sleep(2 * SESSION_S)  # what is logged in by the old one has to log in again
    jobs += [write(place, number) for number in (1, 2)]
    later.join(DEADLINE_S)

    assert (jobs[0], jobs[1] > 1, jobs[2]) == (1, True, 1)
    assert told.sinks == [("out", "SINK_DENIED")]
    assert user.read() == [0, 1, 2]
    assert [secret for secret in (old, new) if secret in told.all()] == []


@pytest.mark.long
def test_who_asks_whether_kafka_takes_rows_again_reads_the_password_that_it_has_then(user: User) -> None:
    """A driver keeps a producer of its own for that: of the last time that the sink was away."""
    user.is_known_by("first")
    user.has("first")
    until(lambda: takes_rows(user.target))
    user.is_known_by("second")
    time.sleep(2 * SESSION_S)
    until(lambda: not takes_rows(user.target))  # a connection that is being ended may answer once more
    user.has("second")

    until(lambda: takes_rows(user.target))


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)  # polling a broker; bounded by the deadline


def takes_rows(target: Target) -> bool:
    try:
        sinks.probe(target)
    except JobError:
        return False
    return True
