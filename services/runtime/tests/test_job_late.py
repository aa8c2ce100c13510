"""A driver that is killed in a batch with late records: each record is in a row, or kept, never both; and
rows that are written again with late records are those of a recount.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from daggers.v1 import spec_pb2
from services.runtime.tests.job_driver import bookings, in_postgres, kafka_sink
from services.runtime.tests.launches import Dagger
from services.runtime.tests.sink_cases import postgres as table
from services.runtime.tests.sink_contract import fresh_topic, records
from tests.integration.bookings import booking, message_class, recount, spread, window_end
from tests.proxy import Proxy, port_of

from daggerspec import late
from runtime.sinks.kafka import RECORD_ID

pytestmark = [pytest.mark.integration, pytest.mark.long]


def test_rows_and_late_records_are_a_recount_over_a_kill(tmp_path: Path, kafka: str, postgres: str) -> None:
    goes, database = table.sink(postgres, tmp_path)
    goes.sink.postgres.ClearField("key")  # of the window and GROUP BY
    goes.sink.name = "db"
    topic = fresh_topic(kafka)
    keeps = kafka_sink(kafka, topic)
    keeps.sink.name, keeps.sink.kafka.format = "late", spec_pb2.KafkaSink.FORMAT_RECORD
    events = spread(range(240), cities=2)
    behind = [(second, 2) for second in (40, 41, 130, 239.5)]
    ahead = spread(range(460, 520), cities=2)

    def read_late() -> list[tuple[str, str, str, str]]:
        """Id, end of the missed window, city and second of each record that is kept."""
        found = []
        for record in records(kafka, topic):
            headers = {name: value.decode() for name, value in record.headers() or []}
            value = message_class().FromString(record.value())
            city = str(value.city_id)
            found.append((headers[RECORD_ID], headers[late.WINDOW_END], city, headers[late.RECORD]))
        return found

    with Proxy(port_of(postgres)) as way:
        dagger = Dagger(
            tmp_path, kafka, sinks=[table.at(goes, way.port), keeps], idle_timeout_s=0, late="late",
            emit=spec_pb2.EMIT_EARLY,
        )  # fmt: skip
        with dagger.launch() as first:
            dagger.write(*bookings(events), booking(400))
            first.until(lambda beat: beat.HasField("watermark") and beat.watermark.seconds % 3600 == 399)
            first.until_true(lambda: in_postgres(database) == recount([*events, (400, 1)]))
            way.cut()  # a batch that has late records, and rows that nobody takes
            dagger.write(*bookings(behind), booking(40, status="CANCELLED"), *bookings(ahead))
            first.until_true(lambda: len({one for one, *_ in read_late()}) == len(behind))
            first.until(lambda beat: [error.detail.partition(":")[0] for error in beat.retrying] == ["db"])
            first.kill()
        before = len(read_late())
        with dagger.launch() as second:
            way.open()
            second.until_true(lambda: in_postgres(database) == recount([*events, (400, 1), *ahead]))
            last_beat = second.until(lambda beat: beat.late_rows == len(behind))
            code = second.stop()

    everything = [*events, (400, 1), *behind, *ahead]
    once = {one: (end, city) for one, end, city, _ in read_late()}
    assert len(read_late()) > before, "the batch was repeated"
    assert in_postgres(database) + Counter(once.values()) == recount(everything)
    assert {place for *_, place in read_late()} == {
        f"{dagger.topic}/0/{len(events) + 1 + number}" for number in range(len(behind))
    }
    assert Counter(once.values()) == Counter((window_end(second), str(city)) for second, city in behind)
    assert (code, last_beat.late_windows, last_beat.sink_rows["late"]) == (0, len(behind), len(behind))


def test_rows_that_are_written_again_are_a_recount_over_a_kill(
    tmp_path: Path, kafka: str, postgres: str
) -> None:
    goes, database = table.sink(postgres, tmp_path)
    goes.sink.postgres.ClearField("key")  # of the window and GROUP BY
    goes.sink.name = "db"
    topic = fresh_topic(kafka)
    keeps = kafka_sink(kafka, topic)
    keeps.sink.name, keeps.sink.kafka.format = "late", spec_pb2.KafkaSink.FORMAT_RECORD
    events, ahead = spread(range(240), cities=2), [(400, 1)]
    in_time = [(second, 2) for second in (130, 179, 200, 239.5)]  # of windows that still take records
    too_late = [(second, 1) for second in (10, 59)]
    more, last = [(500, 1)], [(2_000, 1)]

    with Proxy(port_of(postgres)) as way:
        dagger = Dagger(
            tmp_path, kafka, sinks=[table.at(goes, way.port), keeps], idle_timeout_s=0, late="late",
            update_s=300,
        )  # fmt: skip
        with dagger.launch() as first:
            dagger.write(*bookings([*events, *ahead]))
            first.until(lambda beat: beat.HasField("watermark") and beat.watermark.seconds % 3600 == 399)
            first.until_true(lambda: in_postgres(database) == recount(events))
            way.cut()  # rows of the batch that writes windows again, which nobody takes
            dagger.write(*bookings([*too_late, *in_time, *more]))
            first.until(lambda beat: [error.detail.partition(":")[0] for error in beat.retrying] == ["db"])
            first.kill()
        assert in_postgres(database) == recount(events)
        with dagger.launch() as second:
            way.open()
            some = recount([*events, *ahead, *in_time[:2]])
            second.until_true(lambda: in_postgres(database) == some)
            dagger.write(*bookings(last))
            second.until_true(lambda: in_postgres(database) == recount([*events, *ahead, *in_time, *more]))
            code = second.stop()

    late_ids = {dict(record.headers() or [])[RECORD_ID] for record in records(kafka, topic)}
    assert (code, len(late_ids)) == (0, len(too_late))
