"""A replay of what was set aside, on a real Kafka and a real PostgreSQL, without Spark."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from confluent_kafka import Producer
from daggers.v1 import events_pb2, spec_pb2, telemetry_pb2
from services.runtime.tests import fresh, launches
from services.runtime.tests.replay import START, Desk, run
from services.runtime.tests.replay import desk as shared_desk
from services.runtime.tests.sink_contract import records
from tests.integration.bookings import NOON

from daggerspec.setaside import digest
from daggerspec.topics import QUARANTINE
from runtime.clients.kafka import client_properties
from runtime.clients.quarantine import Quarantine
from runtime.replay.replaying import Attempt, replay
from runtime.spool.log import Record
from runtime.state.lease import Lease
from runtime.state.store.local import LocalStore

desk = shared_desk  # a fixture

pytestmark = pytest.mark.integration


def killed(desk: Desk, asked: events_pb2.QuarantineReplayRequested, at: int) -> bool:
    """Run an attempt in a process that dies there; whether it did, and has not come to its end before."""
    attempt = desk.attempt(asked)
    code = fresh.exit_code(
        _run_to_death,
        attempt.spec.SerializeToString(),
        asked.SerializeToString(),
        str(desk.dagger.checkpoints / "replay"),
        at,
    )
    assert code in (0, -signal.SIGKILL)
    return code != 0


def _run_to_death(spec: bytes, asked: bytes, root: str, at: int) -> None:
    job = spec_pb2.JobSpec.FromString(spec)
    attempt = Attempt(job, events_pb2.QuarantineReplayRequested.FromString(asked), 190, 10)
    run(attempt, Lease(LocalStore(Path(root)), job.generation, lambda: 0.0), most_rows=2, dies_at=at)


def test_refused_rows_are_there_once_the_table_is_mended(desk: Desk) -> None:
    desk.deliver({-2: 4, -1: 7, 1: 5})
    asked = desk.ask()
    before = desk.rows()
    refused = desk.run(asked)
    desk.sql("ALTER TABLE counts DROP CONSTRAINT positive")
    again = desk.ask()
    replayed = desk.run(again, 195)

    assert (before, dict(refused), dict(replayed)) == ([(1, 5)], {"FAILED_AGAIN": 2}, {"REPLAYED": 2})
    assert desk.rows() == [(-2, 4), (-1, 7), (1, 5)]
    assert Counter(desk.outcomes(again.replay_id).values()) == {"REPLAYED": 2}
    assert desk.run(desk.ask(), 196) == {}  # nothing is open


def test_the_command_replays_a_run_directory_and_counts_what_became_of_it(desk: Desk, tmp_path: Path) -> None:
    desk.deliver({-2: 4, -1: 7})
    desk.sql("ALTER TABLE counts DROP CONSTRAINT positive")
    asked = desk.ask()
    home = tmp_path / "_replay" / "201"
    home.mkdir(parents=True)
    desk.generation = 201
    (home / "spec.pb").write_bytes(desk.spec(home).SerializeToString())
    (home / "replay.pb").write_bytes(asked.SerializeToString())
    words = ["--generation", "201", "--sequence", "190", "--created", "10"]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "runtime.replay", "--run-dir", str(home), *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )

    assert done.returncode == 0, done.stderr
    assert json.loads((home / "outcomes.json").read_text()) == {"REPLAYED": 2}
    assert desk.rows() == [(-2, 4), (-1, 7)]
    password = urlsplit(desk.url).password or ""
    assert password not in done.stdout + done.stderr


def test_an_attempt_that_is_fenced_writes_nothing(desk: Desk, tmp_path: Path) -> None:
    desk.deliver({-1: 7})
    desk.sql("ALTER TABLE counts DROP CONSTRAINT positive")
    asked = desk.ask()
    attempt = desk.attempt(asked)
    LocalStore(desk.dagger.checkpoints / "replay").take(attempt.spec.generation + 1)
    home = tmp_path / "_replay" / str(attempt.spec.generation)
    home.mkdir(parents=True)
    (home / "spec.pb").write_bytes(attempt.spec.SerializeToString())
    (home / "replay.pb").write_bytes(asked.SerializeToString())
    words = ["--generation", str(attempt.spec.generation), "--sequence", "190", "--created", "10"]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "runtime.replay", "--run-dir", str(home), *words],
        capture_output=True,
        check=False,
        timeout=240,
    )

    assert (done.returncode, desk.rows(), desk.outcomes(asked.replay_id)) == (75, [], {})


@pytest.mark.long
def test_only_what_is_selected_is_touched(desk: Desk) -> None:
    desk.deliver({-3: 1, -2: 2, -1: 3})
    desk.sql("ALTER TABLE counts DROP CONSTRAINT positive")
    whole = desk.ask()
    desk.run(whole, 191)
    desk.sql("DELETE FROM counts")
    [first, *_] = desk.outcomes(whole.replay_id)
    named = desk.ask(selection=events_pb2.QuarantineSelection(ids=[first]))
    counts = desk.run(named, 192)

    assert (dict(counts), list(desk.outcomes(named.replay_id))) == ({"REPLAYED": 1}, [first])
    assert len(desk.rows()) == 1


@pytest.mark.long
def test_what_failed_five_times_and_what_has_no_sink_is_not_tried(desk: Desk) -> None:
    desk.deliver({-1: 3})
    for sequence in range(191, 196):
        assert desk.run(desk.ask(), sequence) == {"FAILED_AGAIN": 1}
    asked, forced = desk.ask(), desk.ask(force=True)
    tired = desk.run(asked, 196), list(desk.outcomes(asked.replay_id).values())
    desk.sql("ALTER TABLE counts DROP CONSTRAINT positive")
    desk.resolved.sink.name = "another"
    gone = desk.ask(force=True)
    desk.run(gone, 197)
    desk.resolved.sink.name = ""

    assert tired == ({"NOT_REPLAYABLE": 1}, ["NOT_REPLAYABLE NEEDS_FORCE"])
    assert list(desk.outcomes(gone.replay_id).values()) == ["NOT_REPLAYABLE SINK_GONE"]
    assert desk.run(forced, 198) == {"REPLAYED": 1}
    assert desk.rows() == [(-1, 3)]


def test_rows_that_are_updated_are_replayed_only_where_it_is_forced(desk: Desk) -> None:
    desk.dagger.emit = spec_pb2.EMIT_EARLY
    desk.deliver({-1: 3}, batch_id=4)
    desk.sql("ALTER TABLE counts DROP CONSTRAINT positive")
    asked, forced = desk.ask(), desk.ask(force=True)
    desk.run(asked, 191)

    assert list(desk.outcomes(asked.replay_id).values()) == ["NOT_REPLAYABLE NEWER_MAY_EXIST"]
    assert (desk.run(forced, 192), desk.rows()) == ({"REPLAYED": 1}, [(-1, 3)])


def test_an_edited_row_is_written_in_place_of_the_one_that_was_refused(desk: Desk) -> None:
    desk.deliver({-1: 3, -2: 4, -3: 5})
    asked = desk.ask()
    city = {
        -1: telemetry_pb2.QuarantineEdited(columns='{"tag_city_id": 9}'),
        -2: telemetry_pb2.QuarantineEdited(columns='{"num_of_bookings": "many"}'),
    }
    producer = Producer({"bootstrap.servers": desk.dagger.kafka})
    for message in records(desk.dagger.kafka, QUARANTINE, desk.starts):
        record = telemetry_pb2.Quarantined.FromString(message.value() or b"")
        edit = city.get(json.loads(record.decoded_prefix)["tag_city_id"])
        if edit is None:
            continue
        edit.id, edit.replay_id = record.id, asked.replay_id
        asked.edits[record.id] = digest(edit)
        headers = [("ce_type", edit.DESCRIPTOR.full_name), ("ce_id", f"edit/{record.id}")]
        producer.produce(
            QUARANTINE, edit.SerializeToString(), desk.dagger.name, message.partition(), headers=headers
        )
    assert producer.flush(60) == 0
    counts = desk.run(asked)

    assert dict(counts) == {"REPLAYED": 1, "NOT_REPLAYABLE": 1, "FAILED_AGAIN": 1}
    assert desk.rows() == [(9, 3)]
    assert sorted(desk.outcomes(asked.replay_id).values())[1:] == ["NOT_REPLAYABLE BAD_EDIT", "REPLAYED"]


def test_rows_of_another_query_are_no_rows_of_this_one(desk: Desk) -> None:
    desk.deliver({-1: 3})
    desk.dagger.sql = desk.dagger.sql.replace("num_of_bookings", "bookings")
    asked = desk.ask()
    desk.run(asked)

    assert list(desk.outcomes(asked.replay_id).values()) == ["NOT_REPLAYABLE SINK_SCHEMA"]


def test_rows_of_a_sink_that_is_away_stay_open(desk: Desk) -> None:
    desk.deliver({-1: 3, -2: 4})
    port, desk.resolved.sink.postgres.address.port = desk.resolved.sink.postgres.address.port, 1
    asked = desk.ask()
    counts = desk.run(asked, 191)
    desk.resolved.sink.postgres.address.port = port
    desk.sql("ALTER TABLE counts DROP CONSTRAINT positive")

    assert dict(counts) == {"NOT_REPLAYABLE": 2}
    assert (desk.run(desk.ask(), 192), desk.rows()) == ({"REPLAYED": 2}, [(-2, 4), (-1, 3)])


def test_rows_come_behind_those_that_wait_in_the_log_of_their_sink(desk: Desk) -> None:
    desk.deliver({-1: 3, -2: 4})
    desk.sql("ALTER TABLE counts DROP CONSTRAINT positive")
    log = desk.create_log()
    end = log.append([Record(b"rows", "attempt"), Record(b"marker")])
    asked = desk.ask()
    waits, rows = dict(desk.run(asked, 191)), desk.rows()
    log.delete_until(end)

    assert (waits, rows) == ({"NOT_REPLAYABLE": 2}, [])
    assert set(desk.outcomes(asked.replay_id).values()) == {"NOT_REPLAYABLE SPOOL_NOT_EMPTY"}
    assert (desk.run(desk.ask(), 192), desk.rows()) == ({"REPLAYED": 2}, [(-2, 4), (-1, 3)])


def test_rows_that_a_kill_has_left_in_a_log_hold_up_no_replay(desk: Desk) -> None:
    desk.deliver({-1: 3, -2: 4})
    desk.sql("ALTER TABLE counts DROP CONSTRAINT positive")
    log = desk.create_log()
    log.append([Record(b"rows", "attempt")])  # of no batch: no marker stands behind them

    assert (desk.run(desk.ask(), 191), desk.rows()) == ({"REPLAYED": 2}, [(-2, 4), (-1, 3)])


def test_a_record_that_never_was_a_row_says_what_is_to_be_done(desk: Desk) -> None:
    platform = spec_pb2.KafkaAddress(bootstrap_servers=desk.dagger.kafka)
    quarantine = Quarantine(client_properties(platform))
    message = launches.message_class()
    good = message(city_id=1, status="COMPLETED")
    good.event_timestamp.FromSeconds(NOON + 10)
    for offset, value in enumerate((b"\xff", good.SerializeToString())):
        record = telemetry_pb2.Quarantined(
            dagger=desk.dagger.name, generation=150, topic=desk.dagger.topic, offset=offset, stage="decode",
            reason="MALFORMED", value=value,
        )  # fmt: skip
        quarantine.put(record, "topic")
    quarantine.flush()
    said = []
    for number, closed in enumerate((START + timedelta(minutes=1), START)):
        asked = desk.ask()
        attempt = desk.attempt(asked, 191 + number)
        replay(
            attempt,
            wait=lambda _: None,
            confirm=lambda: None,
            closed_until=lambda _, closed=closed: closed,  # type: ignore[misc]
        )
        said.append(sorted(desk.outcomes(asked.replay_id).values()))

    assert said == [
        ["FAILED_AGAIN MALFORMED", "LATE WINDOWS_CLOSED"],
        ["FAILED_AGAIN MALFORMED", "NOT_REPLAYABLE WINDOWS_OPEN"],
    ]


@pytest.mark.parametrize("mode", ["MODE_UPSERT", "MODE_APPEND"])
def test_a_replay_that_dies_between_a_write_and_its_word_leaves_each_row_once(desk: Desk, mode: str) -> None:
    prepare(desk, mode)
    asked = desk.ask()

    assert killed(desk, asked, at=2)
    assert desk.run(asked) == {"REPLAYED": 5}
    assert desk.rows() == [(-number, number) for number in range(5, 0, -1)]


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("mode", ["MODE_UPSERT", "MODE_APPEND"])
def test_a_replay_that_dies_at_each_step_leaves_each_row_once(desk: Desk, mode: str) -> None:
    """Three chunks, a write and a word each: six steps, one death at each in turn, all of one replay."""
    prepare(desk, mode)
    asked = desk.ask()
    deaths = sum(killed(desk, asked, at) for at in range(1, 8))

    assert deaths >= 3
    assert desk.run(asked) == {"REPLAYED": 5}
    assert desk.rows() == [(-number, number) for number in range(5, 0, -1)]
    assert set(desk.outcomes(asked.replay_id).values()) == {"REPLAYED"}


def prepare(desk: Desk, mode: str) -> None:
    """Five rows are refused, and the table is mended."""
    desk.resolved.sink.postgres.mode = spec_pb2.PostgresSink.Mode.Value(mode)
    desk.deliver({-number: number for number in range(1, 6)})
    desk.sql("ALTER TABLE counts DROP CONSTRAINT positive")
