"""Output rows become line protocol byte for byte as the conformance cases say."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from tests.conformance.corpus import cases
from tests.conformance.sinks import column, outcome

from runtime.encode.line_protocol import LineProtocolEncoder
from runtime.encode.rows import Layout


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in cases("sink_cases")])
def test_a_row_becomes_exactly_this_line(case: dict[str, Any]) -> None:
    assert outcome(case) == case["expected"]


def forwarded(
    offsets: list[int], partitions: list[int], further: Sequence[list[str | None]] = ()
) -> tuple[Layout, pa.RecordBatch]:
    """Records of one instant; `further` are the keys behind topic, partition and offset."""
    at = datetime(2026, 1, 1, tzinfo=UTC)
    keys = [f"__key_{number}" for number in range(3 + len(further))]
    layout = Layout((column("fare"),), hidden=("__rowtime", *keys))
    columns = [
        pa.array([1.5] * len(offsets)),
        pa.array([at] * len(offsets), pa.timestamp("us", "UTC")),
        pa.array(["bookings"] * len(offsets)),
        pa.array(partitions, pa.int32()),
        pa.array(offsets, pa.int64()),
        *(pa.array(each, pa.string()) for each in further),
    ]
    return layout, pa.RecordBatch.from_arrays(columns, names=["fare", *layout.hidden])


def test_a_thousand_forwarded_records_of_one_instant_are_a_thousand_points() -> None:
    layout, batch = forwarded(list(range(5, 1005)), [0] * 1000)

    lines, _ = LineProtocolEncoder(layout, "fares").encode(batch)

    assert len(set(lines)) == 1000


@pytest.mark.parametrize(("records", "elements"), [(1, 1000), (2, 148), (17, 17), (148, 2), (1000, 1)])
def test_the_elements_of_records_of_one_instant_are_points_of_their_own(records: int, elements: int) -> None:
    pairs = [(offset, str(element)) for offset in range(records) for element in range(elements)]
    offsets = [offset for offset, _ in pairs]
    layout, batch = forwarded(offsets, [0] * len(pairs), [[element for _, element in pairs]])

    lines, refusals = LineProtocolEncoder(layout, "fares").encode(batch)

    assert (len(set(lines)), refusals) == (len(pairs), [])


def test_of_records_that_meet_in_a_point_one_is_written_and_the_others_are_set_aside() -> None:
    layout, batch = forwarded(list(range(2000)), [0] * 2000)

    lines, refusals = LineProtocolEncoder(layout, "fares").encode(batch)

    assert len({line for line in lines if line is not None}) == 1000
    assert [(refusal.row, refusal.reason) for refusal in refusals] == [
        (row, "SAME_POINT") for row in range(1000, 2000)
    ]


def test_a_forwarded_record_keeps_its_microsecond_and_is_the_same_point_each_time() -> None:
    layout, batch = forwarded([7], [3])
    micro = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000

    once, again = (LineProtocolEncoder(layout, "fares").encode(batch)[0][0] for _ in range(2))

    assert once == again
    assert once is not None
    assert int(once.split(" ")[-1]) // 1000 == micro


def test_a_slice_of_a_batch_is_encoded_like_a_batch_of_its_own() -> None:
    layout = Layout((column("m"), column("a"), column("s")), hidden=())
    columns = [
        pa.array([[("b", 1.0)], [("a", 2.0), ("A", None)], None], pa.map_(pa.string(), pa.float64())),
        pa.array([["x"], None, ["y", "z"]], pa.list_(pa.string())),
        pa.array([{"t": 1}, {"t": None}, None], pa.struct([("t", pa.int64())])),
    ]
    batch = pa.RecordBatch.from_arrays(columns, names=["m", "a", "s"])

    whole, _ = LineProtocolEncoder(layout, "x").encode(batch)
    parts = [LineProtocolEncoder(layout, "x").encode(batch.slice(row, 1))[0][0] for row in range(3)]

    assert (
        parts
        == whole
        == [
            r'x a="[\"x\"]",m="{\"b\":1.0}",s="{\"t\":1}"',
            r'x m="{\"A\":null,\"a\":2.0}",s="{\"t\":null}"',
            r'x a="[\"y\",\"z\"]"',
        ]
    )
