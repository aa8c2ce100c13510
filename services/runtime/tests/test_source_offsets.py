"""Offsets have one text, start where they were asked to, and survive their JSON form."""

import json
from random import Random

from daggers.v1 import spec_pb2
from hypothesis import given
from hypothesis import strategies as st

from runtime.source.offsets import Offsets, Partition
from runtime.source.planner.start_offsets import asked

partitions = st.builds(Partition, st.sampled_from(["b", "a", "a.b"]), st.integers(0, 12))
offsets = st.builds(
    lambda next_, tick, planned, complete: Offsets(
        {topic: f"id-{topic}" for topic in ("b", "a", "a.b")}, next_, tick, planned, complete
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
    again = Offsets(dict(ids), dict(items), offsets.tick, offsets.planned, offsets.complete_from)

    assert json.dumps(again.as_json()) == json.dumps(offsets.as_json())


def test_a_start_position_asks_for_latest_unless_it_says_otherwise() -> None:
    at = spec_pb2.StartPosition()
    at.at.FromJsonString("2026-01-01T00:00:00Z")

    assert [
        asked(start) for start in (spec_pb2.StartPosition(), spec_pb2.StartPosition(earliest=True), at)
    ] == ["latest", "earliest", 1_767_225_600_000]
