"""Offsets have one text, start where they were asked to, and survive their JSON form."""

import json
from random import Random

from daggers.v1 import spec_pb2
from hypothesis import given
from hypothesis import strategies as st

from runtime.source.offsets import Offsets, Partition
from runtime.source.planner.assignment import Assignment
from runtime.source.planner.start_offsets import start_position

partitions = st.builds(Partition, st.sampled_from(["b", "a", "a.b"]), st.integers(0, 12))
offsets = st.builds(
    lambda next_, advance, planned, complete: Offsets(
        {topic: f"id-{topic}" for topic in ("b", "a", "a.b")}, next_, advance, planned, complete
    ),
    st.dictionaries(partitions, st.integers(0, 2**60)),
    *[st.integers(0, 2**60)] * 3,
)


@given(offsets=offsets)
def test_the_json_form_keeps_everything(offsets: Offsets) -> None:
    assert Offsets.from_json(json.loads(json.dumps(offsets.as_json()))) == offsets


@given(offsets=offsets, shuffle=st.randoms())
def test_equal_offsets_have_one_text(offsets: Offsets, shuffle: Random) -> None:
    items, ids = list(offsets.next.items()), list(offsets.ids.items())
    shuffle.shuffle(items)
    shuffle.shuffle(ids)
    again = Offsets(dict(ids), dict(items), offsets.idle_advance, offsets.planned, offsets.complete_from)

    assert json.dumps(again.as_json()) == json.dumps(offsets.as_json())


def test_checkpoints_of_earlier_versions_are_read_and_written_alike() -> None:
    offsets = Offsets(
        {"b": "id-b", "a": "id-a"}, {Partition("b", 0): 7, Partition("a", 10): 2, Partition("a", 9): 1},
        idle_advance=3, planned=4, complete_from=5, closed=6, reader="1/s.0",
    )  # fmt: skip
    text = (
        '{"closed": 6, "complete_from": 5, "ids": {"a": "id-a", "b": "id-b"}, '
        '"next": {"a": {"9": 1, "10": 2}, "b": {"0": 7}}, "planned": 4, "reader": "1/s.0", "tick": 3}'
    )
    assignment = Assignment(2, {"s": (offsets,)}, {"s": offsets})
    kept = f'{{"number": 2, "shares": {{"s": [{text}]}}, "ended": {{"s": {text}}}}}'

    assert (json.dumps(offsets.as_json()), json.dumps(assignment.as_json())) == (text, kept)
    assert Assignment.from_json(json.loads(kept)) == assignment


def test_a_start_position_asks_for_latest_unless_it_says_otherwise() -> None:
    at = spec_pb2.StartPosition()
    at.at.FromJsonString("2026-01-01T00:00:00Z")

    assert [
        start_position(start)
        for start in (spec_pb2.StartPosition(), spec_pb2.StartPosition(earliest=True), at)
    ] == ["latest", "earliest", 1_767_225_600_000]
