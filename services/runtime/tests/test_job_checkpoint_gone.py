"""A checkpoint that vanishes under a dagger: noticed while it runs, begun anew only where that is meant."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from daggers.v1 import spec_pb2, telemetry_pb2
from pyspark.sql import SparkSession
from services.runtime.tests.job_drain import orders_in
from services.runtime.tests.job_driver import kafka_sink, log_sink
from services.runtime.tests.launches import Dagger
from services.runtime.tests.sessions import driver_session
from services.runtime.tests.two_launches import Running
from tests.integration.bookings import booking

from daggerspec import anew
from runtime.source import warmup_source

pytestmark = pytest.mark.integration
Beat = telemetry_pb2.Heartbeat
_FORWARD = "SELECT order_number AS tag_order, fare, rowtime AS window_timestamp FROM data_stream"


class Kept(Dagger):
    """A dagger as a scheduler launches it: with the root of all checkpoints, and what is known of them."""

    ran = False
    from_start = 0

    def spec(self, run_dir: Path) -> spec_pb2.JobSpec:
        self.checkpoints = self.folder / "root" / f"{self.name}-7"
        job = super().spec(run_dir)
        job.checkpoints.root = str(self.folder / "root")
        job.checkpoints.used = job.checkpoints.has_own = self.ran
        job.from_start = self.from_start
        return job


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    with driver_session("local[2]") as started:
        warmup_source.read(started)
        yield started


def run(dagger: Kept, session: SparkSession, orders: int) -> tuple[str, ...]:
    """Run until it has written so many orders; its warnings."""
    with Running(dagger, session) as running:
        running.until(lambda beat: beat.rows_in >= orders and beat.state == Beat.STATE_RUNNING)
        dagger.ran = True
        warnings = tuple(running.beat.warnings)
    assert not running.failure
    return warnings


def ended(dagger: Kept, session: SparkSession) -> str:
    """The reason why a launch ends by itself."""
    with Running(dagger, session) as running:
        return running.join()


def checkpoint_of(dagger: Kept) -> Path:
    [path] = (dagger.checkpoints / "checkpoints").iterdir()
    return path


@pytest.fixture
def dagger(tmp_path: Path, kafka: str) -> Kept:
    """One whose rows are written over, from the oldest record on."""
    made = Kept(tmp_path, kafka, sql=_FORWARD)
    made.sinks = [kafka_sink(kafka, f"rows-{made.name}")]
    made.write(*(booking(n, order=f"o{n}") for n in range(3)))
    return made


def test_a_root_without_its_marker_is_waited_for_and_then_gone_on_with(
    dagger: Kept, session: SparkSession, kafka: str
) -> None:
    run(dagger, session, 3)
    root, away = dagger.folder / "root", dagger.folder / "away"
    root.rename(away)
    root.mkdir()  # the bare mount point

    assert ended(dagger, session) == anew.ROOT_MISSING
    assert list(root.iterdir()) == []
    root.rmdir()
    away.rename(root)
    dagger.write(booking(3, order="o3"))
    run(dagger, session, 1)
    assert sorted(orders_in(kafka, f"rows-{dagger.name}")) == ["o0", "o1", "o2", "o3"]


def test_a_disk_that_goes_away_under_a_driver_ends_it_within_a_minute(
    dagger: Kept, session: SparkSession
) -> None:
    with Running(dagger, session) as running:
        running.until(lambda beat: beat.rows_in >= 3 and beat.state == Beat.STATE_RUNNING)
        (dagger.folder / "root" / anew.MARKER).unlink()
        began = time.monotonic()

        assert running.join() == anew.ROOT_MISSING
        assert time.monotonic() - began < 60


def test_where_rows_are_written_over_and_kafka_holds_all_it_begins_anew_by_itself(
    dagger: Kept, session: SparkSession, kafka: str
) -> None:
    with Running(dagger, session) as running:
        running.until(lambda beat: beat.rows_in >= 3 and beat.state == Beat.STATE_RUNNING)
        dagger.ran = True
        shutil.rmtree(checkpoint_of(dagger))
        began = time.monotonic()
        assert running.join() == anew.GONE
        assert time.monotonic() - began < 60

    warnings = run(dagger, session, 3)
    assert [warning.partition(" ")[0] for warning in warnings if anew.BEGUN in warning] == [anew.BEGUN]
    assert sorted(orders_in(kafka, f"rows-{dagger.name}")) == sorted(["o0", "o1", "o2"] * 2)


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (shutil.rmtree, anew.GONE),
        (lambda path: shutil.rmtree(path / "commits"), anew.DAMAGED),
    ],
)
def test_where_rows_are_not_written_over_it_begins_anew_only_once_it_is_asked_to(
    dagger: Kept, session: SparkSession, harm: Callable[[Path], object], reason: str
) -> None:
    dagger.sinks = [log_sink(100)]
    run(dagger, session, 3)
    dagger.write(booking(3, order="o3"))
    run(dagger, session, 1)
    harm(checkpoint_of(dagger))

    assert [ended(dagger, session), ended(dagger, session)] == [reason] * 2
    dagger.from_start = 5
    assert [anew.BEGUN in warning for warning in run(dagger, session, 4)] == [True]
    dagger.write(booking(4, order="o4"))
    run(dagger, session, 1)  # the same request again: carried out


def test_a_start_at_the_latest_record_never_begins_anew_by_itself(
    dagger: Kept, session: SparkSession
) -> None:
    dagger.start = "latest"
    with Running(dagger, session) as running:
        running.until(lambda beat: beat.state == Beat.STATE_RUNNING)
    dagger.ran = True
    shutil.rmtree(checkpoint_of(dagger))

    assert ended(dagger, session) == anew.GONE
