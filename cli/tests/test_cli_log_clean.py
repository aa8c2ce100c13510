"""`daggers log clean`: an exported log without records about daggers that may not be called so."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from daggers.v1 import events_pb2, spec_pb2

from cli.__main__ import run
from eventlog.export import LOST, ExportEntry, ExportWriter, Head, present, read
from eventlog.record import Draft, read_record
from eventlog.testing import START
from fleet import Fleet
from fleet.fold.forged_records import forged_name

SPEC = spec_pb2.DaggerSpec(team="pricing")
HISTORY = (
    events_pb2.SchedulerStarted(scheduler_id="s"),
    events_pb2.DaggerRequested(name="counts", spec=SPEC),
    events_pb2.DaggerRequested(name="..", spec=SPEC),
    events_pb2.LaunchIntended(meta=events_pb2.FactMeta(epoch=0, name=".."), version=1),
    events_pb2.StopRequested(name="../../etc"),
    events_pb2.StopRequested(name="counts"),
)
Log = Callable[..., tuple[int, Any]]


def entries() -> list[ExportEntry]:
    made = []
    for number, message in enumerate(HISTORY):
        draft = Draft(f"id-{number}", "/test", "s", START, message)
        made.append(
            ExportEntry(number, 1_000 + number, b"s", tuple(draft.headers()), message.SerializeToString())
        )
    return made


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    file, writer = tmp_path / "control.jsonl", ExportWriter(Head("daggers.control", 0))
    lines = [writer.begin(), *map(writer.add, entries()), writer.end()]
    file.write_text("".join(lines))
    return file


@pytest.fixture
def log(capsys: pytest.CaptureFixture[str]) -> Log:
    def ran(*words: object) -> tuple[int, Any]:
        code = run(["log", *map(str, words), "-o", "json"])
        return code, json.loads(capsys.readouterr().out)

    return ran


def test_forged_records_are_replaced_and_all_others_keep_their_sequences(exported: Path, log: Log) -> None:
    cleaned = exported.with_name("cleaned.jsonl")
    code, told = log("clean", exported, cleaned)
    with cleaned.open() as lines:
        kept = list(read(lines)[1])
    types = [read_record(each.sequence, present(each.headers), each.value).type for each in kept]

    assert (code, [(each["sequence"], each["name"]) for each in told["removed"]]) == (
        0,
        [(2, ".."), (3, ".."), (4, "../../etc")],
    )
    assert [each.sequence for each in kept] == [0, 1, 2, 3, 4, 5]
    assert [kept[at] for at in (0, 1, 5)] == [entries()[at] for at in (0, 1, 5)]
    assert types[2:5] == [LOST] * 3


def test_a_log_that_was_cleaned_folds_to_the_same_daggers_and_is_clean(exported: Path, log: Log) -> None:
    cleaned = exported.with_name("cleaned.jsonl")
    log("clean", exported, cleaned)
    fleet = Fleet()
    with cleaned.open() as lines:
        for entry in read(lines)[1]:
            record = read_record(entry.sequence, present(entry.headers), entry.value)
            fleet.apply(record)
            assert forged_name(record) is None

    assert (list(fleet.daggers), fleet.unreadable_daggers) == (["counts"], set())
    assert log("clean", cleaned, exported.with_name("again.jsonl"))[1]["removed"] == []


def test_a_dry_run_lists_them_and_writes_nothing(exported: Path, log: Log) -> None:
    cleaned = exported.with_name("cleaned.jsonl")
    code, told = log("clean", exported, cleaned, "--dry-run")

    assert (code, len(told["removed"]), told["dry_run"]) == (0, 3, True)
    assert list(exported.parent.iterdir()) == [exported]


def test_no_file_is_written_over(exported: Path, log: Log) -> None:
    code, told = log("clean", exported, exported)

    assert (code, told["error"]["reason"]) == (1, "FILE_EXISTS")
