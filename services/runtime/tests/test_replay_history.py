"""Which records a replay means, whatever it has done so far; and in which chunks they are written."""

from __future__ import annotations

import hashlib
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from daggers.v1 import events_pb2, telemetry_pb2
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from daggerspec.columns import Column, Role
from runtime.encode.rows import Layout
from runtime.launch.refused_rows import to_ipc_stream
from runtime.replay import verdicts
from runtime.replay.chunks import Chunks
from runtime.replay.history import History, QuarantineEntry

REPLAYED = telemetry_pb2.QUARANTINE_OUTCOME_REPLAYED
FAILED = telemetry_pb2.QUARANTINE_OUTCOME_FAILED_AGAIN
SEQUENCE, CREATED = 50, 10
KAFKA_MS = 1_700_000_000_000


def aside(id_: str, **more: Any) -> telemetry_pb2.Quarantined:
    fields = {"generation": 20, "stage": "sink", "sink": "db", "reason": "CONSTRAINT", **more}
    return telemetry_pb2.Quarantined(id=id_, **fields)


def said(id_: str, outcome: Any, *, replay: str = "before", sequence: int = 40, attempt: int = 0) -> Message:
    return telemetry_pb2.QuarantineResolved(
        id=id_, replay_id=replay, sequence=sequence, outcome=outcome, attempt=attempt
    )


def history(*messages: Message, up_to: int | None = None, **asked: Any) -> History:
    end = len(messages) if up_to is None else up_to
    request = events_pb2.QuarantineReplayRequested(replay_id="own", up_to={0: end}, **asked)
    made = History(request, SEQUENCE, CREATED)
    for offset, message in enumerate(messages):
        kind, value = message.DESCRIPTOR.full_name, message.SerializeToString()
        made.apply((0, offset), kind, value, f"event-{offset}", KAFKA_MS + offset)
    return made


def meant(*messages: Message, **how: Any) -> list[str]:
    return [each.id for each in history(*messages, **how).selected]


def selection(**fields: Any) -> events_pb2.QuarantineSelection:
    return events_pb2.QuarantineSelection(**fields)


def test_everything_that_is_open_is_meant_where_nothing_is_selected_and_nothing_later() -> None:
    assert meant(aside("a"), aside("b"), said("a", REPLAYED), aside("c"), up_to=3) == ["b"]
    assert meant(aside("a"), said("a", FAILED, attempt=1)) == ["a"]


def test_what_was_set_aside_again_keeps_what_became_of_it() -> None:
    assert meant(aside("a"), said("a", REPLAYED), aside("a")) == []


def test_what_is_not_open_is_meant_where_it_is_named() -> None:
    before = aside("a"), said("a", REPLAYED), aside("b")

    assert meant(*before, selection=selection(ids=["a"])) == ["a"]


def test_all_conditions_hold_at_once() -> None:
    records = (
        aside("a"),
        aside("b", reason="TOO_LARGE"),
        aside("c", sink="other"),
        aside("d", stage="decode", sink=""),
    )

    assert meant(*records, selection=selection(reasons=["CONSTRAINT"], sinks=["db"])) == ["a"]
    assert meant(*records, selection=selection(stage="decode")) == ["d"]


def test_times_are_from_one_to_before_another() -> None:
    records = [aside(str(second), time={"seconds": second}) for second in range(5)]
    between = selection(since={"seconds": 1}, until={"seconds": 3})

    assert meant(*records, selection=between) == ["1", "2"]


def test_what_an_older_driver_set_aside_without_its_time_has_kafkas() -> None:
    second = selection(since={"seconds": 1_700_000_000, "nanos": 1_000_000})

    assert meant(aside("a"), aside("b"), selection=second) == ["b"]


def test_what_was_set_aside_again_before_the_request_is_what_was_said_last() -> None:
    twice = aside("a"), aside("b"), aside("a", reason="TOO_LARGE")
    large = selection(reasons=["TOO_LARGE"])

    assert meant(*twice, selection=large) == ["a"]
    assert history(*twice).selected[-1].place == (0, 2)
    assert meant(*twice, selection=large, up_to=2) == []


def test_a_discard_means_what_is_open_before_it() -> None:
    thrown = telemetry_pb2.QuarantineDiscarded(
        sequence=30, selection=selection(reasons=["CONSTRAINT"]), up_to={0: 1}
    )

    assert meant(aside("a"), aside("b"), thrown) == ["b"]
    later = telemetry_pb2.QuarantineDiscarded(sequence=SEQUENCE + 1, up_to={0: 2})
    assert meant(aside("a"), aside("b"), later) == ["a", "b"]  # who asked for the replay was first


def test_a_dagger_that_was_created_anew_has_nothing_of_the_one_before() -> None:
    assert meant(aside("a", generation=CREATED - 1), aside("b")) == ["b"]
    assert meant(aside("b"), said("b", REPLAYED, sequence=CREATED - 1)) == ["b"]


def test_an_older_drivers_record_is_known_by_its_event() -> None:
    assert meant(aside("")) == [hashlib.blake2b(b"event-0", digest_size=16).hexdigest()]


def test_an_edit_counts_where_the_request_has_its_digest() -> None:
    edit = telemetry_pb2.QuarantineEdited(id="a", columns='{"fare": 5}', replay_id="own")
    digest = hashlib.sha256(b'{"fare": 5}').digest()

    assert history(aside("a"), edit, edits={"a": digest}).edits == {"a": (0, 1)}
    assert history(aside("a"), edit, edits={"a": b"another"}).edits == {}
    assert history(aside("a"), edit).edits == {}


def test_attempts_are_counted_over_replays_and_force_is_needed_in_the_end() -> None:
    [kept] = history(aside("a"), *(said("a", FAILED, attempt=number) for number in range(1, 6))).selected
    asked = events_pb2.QuarantineReplayRequested()
    forced = events_pb2.QuarantineReplayRequested(force=True)

    assert kept.attempts == 5
    assert getattr(verdicts.check_triable(kept, asked, {"db": b""}), "reason", None) == "NEEDS_FORCE"
    assert verdicts.check_triable(kept, forced, {"db": b""}) is None


@given(st.data())
def test_every_attempt_of_a_replay_means_the_same_records(data: st.DataObject) -> None:
    ids = st.sampled_from("abcd")
    outcomes = st.sampled_from([REPLAYED, FAILED])
    one = st.one_of(st.builds(aside, ids), st.builds(said, ids, outcomes, attempt=st.integers(0, 3)))
    before = data.draw(st.lists(one, max_size=8))
    own = data.draw(
        st.lists(st.builds(lambda id_, what: said(id_, what, replay="own"), ids, outcomes), max_size=4)
    )
    first, again = history(*before), history(*before, *own, up_to=len(before))

    assert again.selected == first.selected
    assert again.outcomes.keys() == {message.id for message in own}  # type: ignore[attr-defined]


# ---- Chunks ------------------------------------------------------------------------------------------------


def kept(number: int, sink: str = "db") -> QuarantineEntry:
    return QuarantineEntry(str(number), (0, number), 20, "sink", "CONSTRAINT", sink, 0)


def row(**values: Any) -> bytes:
    return to_ipc_stream(pa.RecordBatch.from_pylist([values]))


def chunks(rows: list[tuple[QuarantineEntry, bytes, Any]], **limits: int) -> list[tuple[str, int, list[str]]]:
    made = Chunks(**limits)
    told = [chunk for each, held, version in rows for chunk in made.add(each, held, version, 10)]
    return [(each.sink, each.number, [one.id for one in each.entries]) for each in [*told, *made.flush()]]


def test_rows_of_one_sink_schema_and_version_are_written_together() -> None:
    rows = [
        (kept(0), row(a=1), None),
        (kept(1, "other"), row(a=1), None),
        (kept(2), row(b=1), None),
        (kept(3), row(a=2), None),
        (kept(4), row(a=3), None),
        (kept(5), row(a=3), (7, 1)),
    ]

    assert chunks(rows, most_rows=2) == [
        ("db", 0, ["0", "3"]),
        ("other", 0, ["1"]),
        ("db", 1, ["2"]),
        ("db", 2, ["4"]),
        ("db", 3, ["5"]),
    ]


def test_rows_that_are_written_together_are_the_rows_that_were_refused() -> None:
    values: list[dict[str, Any]] = [
        {"a": n, "b": None if n == 1 else "x" * n, "c": [n, None], "d": Decimal(n) / 4} for n in range(5)
    ]
    schema = pa.schema(
        [("a", pa.int32()), ("b", pa.string()), ("c", pa.list_(pa.int64())), ("d", pa.decimal128(9, 2))]
    )
    made = Chunks()
    for number, each in enumerate(values):
        one = to_ipc_stream(pa.RecordBatch.from_pylist([each], schema=schema))
        assert list(made.add(kept(number), one, None, 10)) == []
    [chunk] = made.flush()

    assert chunk.rows.schema == schema
    assert chunk.rows.to_pylist() == values


def test_no_more_is_held_than_so_many_bytes() -> None:
    rows = [(kept(number, str(number % 2)), row(a=number), None) for number in range(4)]

    assert chunks(rows, most_bytes=30) == [("0", 0, ["0", "2"]), ("1", 0, ["1"]), ("1", 1, ["3"])]


@pytest.mark.parametrize(
    ("values", "said_of_it"),
    [
        ({"n": 1, "__key_0": "x"}, None),
        ({"__key_0": "x", "n": 1}, None),
        ({"n": 1.5, "__key_0": "x"}, "n (double, now bigint) has another type"),
        ({"n": 1}, "__key_0 is new"),
        ({"n": 1, "m": 2, "__key_0": "x"}, "m is gone"),
    ],
)
def test_a_row_fits_the_query_of_today_or_it_is_said_how_not(
    values: dict[str, Any], said_of_it: str | None
) -> None:
    layout = Layout((Column("n", Role.FIELD, "n", "bigint"),), ("__key_0",))
    wrong = verdicts.check_schema(layout, pa.RecordBatch.from_pylist([values]).schema)

    assert (wrong and wrong.detail) == (said_of_it and f"The row was made by another query: {said_of_it}.")
