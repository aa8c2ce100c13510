"""Records that are deleted before a driver has read them, and what becomes of their windows, over a stop."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from services.runtime.tests.job_driver import kafka_sink
from services.runtime.tests.launches import Dagger
from services.runtime.tests.sink_contract import records
from tests.integration.bookings import NOON, booking

pytestmark = pytest.mark.integration
HOP = """\
SELECT count(1) AS n, HOP_END(rowtime, INTERVAL '20' SECOND, INTERVAL '60' SECOND) AS window_timestamp
FROM `data_stream` GROUP BY HOP(rowtime, INTERVAL '20' SECOND, INTERVAL '60' SECOND)"""
BEFORE, GONE, AFTER = range(90), range(90, 200), range(200, 321)
CLOSING = 600


def counted(kafka: str, topic: str) -> dict[int, list[int]]:
    """What was written of each window, by the second of its end after noon."""
    rows: dict[int, list[int]] = {}
    for record in records(kafka, topic):
        row = json.loads(record.value() or b"{}")
        end = round(_instant(row["window_timestamp"])) - NOON
        rows.setdefault(end, []).append(int(row["n"]))
    return rows


def _instant(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def take_back_last_closing(checkpoints: Path) -> None:
    """Leave the checkpoint as a driver does that is killed while it writes the windows it closed last.

    The batch that closed them reads nothing: Spark repeats it without a word to the readers.
    """
    (path,) = checkpoints.glob("checkpoints/*")
    offsets = [file for file in (path / "offsets").iterdir() if file.name.isdigit()]
    logged = {int(file.name): file.read_text() for file in offsets}
    closing = max(
        number
        for number, text in logged.items()
        if number - 1 in logged and _watermark(text) > _watermark(logged[number - 1])
    )
    assert logged[closing].splitlines()[2:] == logged[closing - 1].splitlines()[2:]
    for log, first in (("commits", closing), ("offsets", closing + 1)):
        for file in (path / log).iterdir():
            number = file.name.strip(".").removesuffix(".crc")
            if number.isdigit() and int(number) >= first:
                file.unlink()


def _watermark(logged: str) -> int:
    return int(json.loads(logged.splitlines()[1])["batchWatermarkMs"])


def test_no_window_that_touches_what_was_deleted_unread_is_written_and_all_others_are_whole(
    tmp_path: Path, kafka: str
) -> None:
    dagger = Dagger(tmp_path, kafka, sql=HOP, idle_timeout_s=0)
    rows = f"rows-{dagger.name}"
    dagger.sinks = [kafka_sink(kafka, rows)]
    dagger.write(*map(booking, BEFORE))
    with dagger.launch() as launch:
        launch.until(lambda beat: beat.rows_in >= len(BEFORE) and beat.watermark.seconds >= NOON + 88)
        assert launch.stop() == 0
    dagger.write(*map(booking, GONE))
    admin = AdminClient({"bootstrap.servers": kafka})
    until = TopicPartition(dagger.topic, 0, len(BEFORE) + len(GONE))
    for done in admin.delete_records([until]).values():
        done.result()
    dagger.write(*map(booking, AFTER), booking(CLOSING))
    with dagger.launch() as relaunch:
        told = relaunch.until(
            lambda beat: beat.rows_in >= len(AFTER) and beat.watermark.seconds >= NOON + 599
        )
        relaunch.until_true(lambda: 380 in counted(kafka, rows))
        assert relaunch.stop() == 0
    take_back_last_closing(dagger.checkpoints)
    dagger.write(booking(CLOSING + 60))
    with dagger.launch() as again:  # what was noticed stands in the checkpoint
        again.until(lambda beat: beat.rows_in >= 1 and beat.watermark.seconds >= NOON + CLOSING + 59)
        assert again.stop() == 0

    every = Counter(
        end for second in (*BEFORE, *AFTER, CLOSING) for end in range(second // 20 * 20 + 20, second + 61, 20)
    )
    # The gap: from a second before 89, the last that was read, to a second after 200, the first that is left.
    whole = {end: [count] for end, count in every.items() if end <= 88 or end - 60 > 201}
    closed = {end: count for end, count in whole.items() if end <= CLOSING + 59}
    # Those of the batch that was repeated stand there twice.
    assert {end: sorted(set(counts)) for end, counts in counted(kafka, rows).items()} == closed
    (warning,) = [text for text in told.warnings if text.startswith("RECORDS_EXPIRED")]
    assert warning == (
        f"RECORDS_EXPIRED: up to 110 records of 1 partition ({dagger.topic}/0 110) were deleted by their"
        " topic's retention before they were read; what touches event times from 2026-01-01T12:01:28Z to"
        " 2026-01-01T12:03:21Z is left out, for it would lack some"
    )
