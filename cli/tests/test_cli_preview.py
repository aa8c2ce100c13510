"""`daggers preview`, by a host behind a gateway."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import pytest
from cli.tests import cli_sample as sampling
from daggers.v1 import gateway_pb2, host_pb2, telemetry_pb2

from cli.output import preview_text

Step = gateway_pb2.PreviewDaggerResponse
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SQL = """SELECT city AS tag_city, COUNT(1) AS orders,
TUMBLE_END(rowtime, INTERVAL '10' SECOND) AS window_timestamp
FROM data_stream GROUP BY TUMBLE(rowtime, INTERVAL '10' SECOND), city"""


class Host(sampling.Host):
    """A host that has a whole window and a part of one; what it was asked last is kept."""

    asked: ClassVar[list[host_pb2.PreviewHostDaggerRequest]] = []

    async def PreviewHostDagger(  # noqa: N802 - gRPC's name
        self, request: host_pb2.PreviewHostDaggerRequest, context: Any
    ) -> AsyncIterator[Step]:
        self.asked.append(request)
        reading = gateway_pb2.PreviewProgress.PHASE_READING
        yield Step(progress=gateway_pb2.PreviewProgress(phase=reading, records=3, records_total=9))
        for partial in (False, True):
            row = gateway_pb2.Row(tags={"tag_city": "x\x1b"})
            row.time.FromDatetime(NOON + timedelta(minutes=partial))
            row.fields.add(name="orders", integer=2**60 + partial)
            yield Step(rows=gateway_pb2.PreviewRows(rows=[row], partial=partial))
        done = gateway_pb2.PreviewDone(
            reason=gateway_pb2.PreviewDone.REASON_ROW_LIMIT, records=9, rows=7, rows_left_out=5, series=1
        )
        done.quarantined["MALFORMED"] = 2
        done.examples.append(
            telemetry_pb2.Quarantined(
                topic="orders", offset=4, reason="MALFORMED", detail="It does not decode."
            )
        )
        done.cost.records_per_second = 1.5
        yield Step(done=done)


@pytest.fixture(scope="module")
def host() -> Any:
    """Address of a host, in a thread of its own."""
    yield from sampling.served(Host())


gateway = sampling.gateway


def test_rows_are_a_table_and_what_there_is_to_know_stands_beside_it(shell: Any, dagger_file: str) -> None:
    shell.fill()
    code, out, err = shell("preview", shell.file("d.yaml", dagger_file), "--last", "15m")
    lines = [line.split() for line in out.splitlines()]

    assert code == 0
    assert lines == [
        ["tag_city", "orders", "window_timestamp", "PARTIAL"],
        ["x\\x1b", "1152921504606846976", "2026-01-01T12:00:00Z"],
        ["x\\x1b", "1152921504606846977", "2026-01-01T12:01:00Z", "partial"],
    ]
    assert "5 rows are left out" in err
    assert "2 records would be quarantined: MALFORMED" in err
    assert "orders/0, offset 4: It does not decode." in err
    assert "1.5 records a second" in err
    assert Host.asked[-1].request.range.last.seconds == 900


def test_json_has_one_document_a_line(shell: Any) -> None:
    shell.fill()
    code, out, _ = shell("preview", "--sql", SQL, "--stream", "orders", "-o", "json")
    documents = [json.loads(line) for line in out.splitlines()]

    assert code == 0
    assert [next(iter(document)) for document in documents] == ["columns", "progress", "row", "row", "done"]
    assert documents[2] == {
        "row": {"tag_city": "x\x1b", "orders": 2**60, "window_timestamp": "2026-01-01T12:00:00Z"},
        "partial": False,
    }
    assert documents[4]["done"]["reason"] == "row_limit"
    assert documents[4]["done"]["examples"][0]["offset"] == 4
    assert documents[4]["done"]["first_row_ms"] is not None
    asked = Host.asked[-1].request
    assert (asked.spec.cluster, asked.spec.streams[0].table) == ("local", "data_stream")
    assert asked.range.WhichOneof("kind") is None


def test_of_how_many_records_is_said_where_that_is_known() -> None:
    reading = gateway_pb2.PreviewProgress(phase=gateway_pb2.PreviewProgress.PHASE_READING, records=3000)
    live = preview_text.PreviewText().take(Step(progress=reading))
    reading.records_total = 9000

    assert live == "read 3,000 records, 0 rows"
    assert preview_text.PreviewText().take(Step(progress=reading)) == "read 3,000 of 9,000 records, 0 rows"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--last", "5m", "--live", "10s"], "--last and --live: name one of them"),
        (["--to", "2h"], "--to needs --from"),
        (["--team", "pricing"], "--stream and --team are for --sql"),
        (["--last", "soon"], "--last soon: it must be a duration"),
    ],
)
def test_what_does_not_go_together_is_said(shell: Any, dagger_file: str, words: list[str], said: str) -> None:
    code, _, err = shell("preview", shell.file("d.yaml", dagger_file), *words)

    assert code == 2
    assert said in err


def test_a_chart_draws_whole_windows(shell: Any, dagger_file: str) -> None:
    shell.fill()
    code, out, _ = shell("preview", shell.file("d.yaml", dagger_file), "--chart")

    assert code == 0
    assert "orders" in out


def test_what_is_wrong_with_a_query_is_told_with_its_place(shell: Any) -> None:
    shell.fill()
    code, _, err = shell("preview", "--sql", "SELECT nothing FROM data_stream", "--stream", "orders")

    assert code == 1
    assert "nothing" in err


@pytest.mark.parametrize(
    ("empty", "document", "said"),
    [
        (gateway_pb2.PreviewDone.EMPTY_NO_RECORDS, "no_records", "--last-records 1000 reads the newest"),
        (gateway_pb2.PreviewDone.EMPTY_QUARANTINED, "quarantined", "all would be quarantined"),
        (gateway_pb2.PreviewDone.EMPTY_LATE, "late", "all were late"),
        (gateway_pb2.PreviewDone.EMPTY_FILTERED, "filtered", "look at its WHERE"),
        (gateway_pb2.PreviewDone.EMPTY_WINDOWS_OPEN, "windows_open", "a longer range"),
        (gateway_pb2.PreviewDone.EMPTY_UNSPECIFIED, None, "0 rows from 0 records"),
    ],
)
def test_no_rows_say_where_the_records_are(
    empty: gateway_pb2.PreviewDone.Empty.ValueType, document: str | None, said: str
) -> None:
    done = gateway_pb2.PreviewDone(empty=empty)
    shown = preview_text.PreviewText()
    shown.take(Step(done=done))

    assert preview_text.end_document(done)["empty"] == document
    assert said in "\n".join(shown.summary())
