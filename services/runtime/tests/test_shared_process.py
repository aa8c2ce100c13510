"""Two daggers in one process of a driver, on one Spark and the real broker: each has its own rows and end."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from services.runtime.tests.job_driver import Counts, bookings, in_kafka, kafka_sink, log_sink
from services.runtime.tests.launches import Dagger, Launch
from tests.integration.bookings import booking, recount, spread

from runtime.state.store.local import LocalStore

pytestmark = pytest.mark.integration


def dagger_of(folder: Path, kafka: str) -> Dagger:
    """Make a dagger that counts bookings by city, into a topic and its log."""
    dagger = Dagger(folder, kafka, idle_timeout_s=0, group="together")
    dagger.sinks = [kafka_sink(kafka, f"rows-{dagger.name}"), log_sink(100)]
    return dagger


def rows_of(dagger: Dagger) -> Counts:
    """Return the rows in its topic; one that a repeated batch wrote again counts once."""
    return Counter(dict(in_kafka(dagger.kafka, f"rows-{dagger.name}")))


def count_rows(launch: Launch) -> int:
    """Count the rows in its log."""
    return sum(" INFO log: " in line for line in launch.log().splitlines())


def test_members_of_a_process_fail_and_stop_alone_and_the_windows_of_the_others_are_exact(
    tmp_path: Path, kafka: str
) -> None:
    first, second = dagger_of(tmp_path / "first", kafka), dagger_of(tmp_path / "second", kafka)
    second.topic = first.topic
    events = spread(range(360), cities=3)

    with first.launch() as process:
        process.running()
        fenced = second.join(process)
        fenced.running()
        first.write(*bookings(events[:90]))
        for launch in (process, fenced):
            launch.until(lambda beat: beat.rows_in == 90 and [*beat.rows_out] == [3, 3])
        LocalStore(second.checkpoints).take(second.generation + 1)
        fencing = fenced.end(stop=False)

        second.generation += 1
        failed = second.join(process)
        failed.running()
        first.write(*bookings(events[90:120]))
        failed.until(lambda beat: beat.rows_in == 30 and beat.batch_id >= 0)
        (commits,) = second.checkpoints.glob("checkpoints/*/commits")
        commits.rename(commits.with_name("taken"))
        commits.write_text("no directory")
        first.write(*bookings(events[120:150]))
        failing = failed.end(stop=False)
        process.until(lambda beat: beat.rows_in == 150)
        commits.unlink()
        commits.with_name("taken").rename(commits)

        healed = second.join(process)
        first.write(*bookings(events[150:210]))
        process.until(lambda beat: [*beat.rows_out] == [9, 9])
        healed.until(lambda beat: beat.rows_in >= 60)
        draining = process.end()
        is_alive = process.process.poll() is None
        first.write(*bookings(events[210:]), booking(500))
        healed.until(lambda _: rows_of(second).total() >= 360)
        draining_other = healed.end()
        code = process.wait()

    assert (fencing, fenced.error()["reason"]) == (75, "FENCED")
    assert (failing, failed.error()["reason"]) == (70, "UNEXPECTED")
    assert (draining, is_alive, draining_other, code) == (0, True, 0, 0)
    assert [launch for launch in (process, healed) if (launch.run_dir / "exit.json").exists()] == []
    assert rows_of(second) == recount(events)
    assert rows_of(first) == recount(events[:180])
    assert process.beats[-1].pid == healed.beats[-1].pid
    assert count_rows(process) == 9
    assert count_rows(fenced) == 3
    assert count_rows(healed) >= 9
