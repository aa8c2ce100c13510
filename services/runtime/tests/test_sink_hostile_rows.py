"""One row never ends a dagger: whatever a template, an encoder, a key or a client cannot write of a row is a
refused row, in every sink, and the rows beside it are written.

Through the writing path of a worker, against the sink's real server; clevertap and mixpanel against fakes
that hold them to what these say that they take.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa
import pytest
from daggers.v1 import telemetry_pb2
from services.runtime.tests.sink_contract import SCHEMA, Bench, on_servers, part
from services.runtime.tests.sink_hostile_rows import TEMPLATES
from services.runtime.tests.sinkvalues import FIRST_US, LAST_US, TIME

from runtime import sinks
from runtime.clients import quarantine
from runtime.launch import refused_rows, unwritable
from runtime.sinks import Target

pytestmark = pytest.mark.integration
NOON_US: Final = 1_767_268_860_000_000
"""2026-01-01T12:01:00Z."""


@pytest.fixture
def bench(request: pytest.FixtureRequest) -> Bench:
    return Bench(request.param, request)


NO_UTF8: Final = b"a\xed\xa0\x80b"
"""A lone surrogate, as CAST of bytes to STRING may give it."""


def texts(values: Sequence[bytes | None]) -> pa.Array:
    """An array of strings with these bytes, whatever they are."""
    offsets = [0]
    for value in values:
        offsets.append(offsets[-1] + len(value or b""))
    valid = pa.array([value is not None for value in values])
    buffers = [
        valid.buffers()[1],
        pa.py_buffer(struct.pack(f"<{len(offsets)}i", *offsets)),
        pa.py_buffer(b"".join(value or b"" for value in values)),
    ]
    return pa.Array.from_buffers(pa.string(), len(values), buffers)


def hostile(large: int) -> tuple[pa.RecordBatch, list[int]]:
    """Rows of every kind of value, and the places of those that are good."""
    cities: list[bytes | None] = [
        b"good", b"", None, b"nul \0", NO_UTF8, b"\xff\xfe", b"a\r\nX: y", b"..", "☃𝄞\u202e".encode(),
        b"x" * large,
    ]  # fmt: skip
    times = [FIRST_US - 1, FIRST_US, LAST_US, LAST_US + 1, -(2**63), 2**63 - 1, None, 0]
    counts = [2**63 - 1, -(2**63), None]
    rows: list[tuple[bytes | None, int | None, int | None]] = [
        *((city, NOON_US, number) for number, city in enumerate(cities)),
        *((f"t{number}".encode(), time, number) for number, time in enumerate(times)),
        *((f"n{number}".encode(), NOON_US, count) for number, count in enumerate(counts)),
        (b"last", NOON_US, 1),
    ]
    city, time, n = zip(*rows, strict=True)
    start = pa.array([NOON_US] * len(rows), pa.int64()).cast(TIME)
    arrays = [
        texts(city),
        pa.array(n, pa.int64()),
        pa.array(time, pa.int64()).cast(TIME),
        start,
        start,
        texts([f"{number} ".encode() + (each or b"") for number, each in enumerate(city)]),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA), [0, len(rows) - 1]


def prepared(bench: Bench) -> Target:
    """The sink of a case, with formats of times wherever it takes them."""
    own = getattr(bench.resolved.sink, bench.target.kind)
    for name, value in TEMPLATES.get(bench.target.kind, {}).items():
        if isinstance(value, dict):
            getattr(own, name).update(value)
        else:
            setattr(own, name, value)
    bench.resolved.sink.max_refused = 1.0
    return replace(bench.aimed(bench.resolved), part=part("c", 0))


def through(bench: Bench, rows: pa.RecordBatch) -> dict[int, str]:
    """Write a batch as a worker does, and set aside what is refused; the reasons, by row."""
    aimed = prepared(bench)
    writer = sinks.open_writer(aimed)
    first = unwritable.write_rows(writer, rows, 0)
    bench.printed += first.printed
    last = writer.finish()
    sinks.commit(aimed, aimed.writes.batch, [last.receipt] if last.receipt else [])
    why: dict[int, str] = {}
    for outcome in (first, last):
        held = outcome.rows if outcome.rows is not None else rows
        keys = held.column("__key_0").cast(pa.binary()).to_pylist()
        for refusal, (record, key) in zip(
            outcome.refused, refused_rows.quarantine_records(aimed, held, outcome.refused), strict=True
        ):
            quarantine._cut(record)
            assert len(record.SerializeToString()) < 1_000_000
            assert record.row or (record.truncated and len(record.sha256) == 32)
            assert key.startswith("[")
            why[int(keys[refusal.row].split(b" ")[0])] = refusal.reason
    return why


@pytest.mark.parametrize("bench", on_servers(sinks.names()), indirect=True)
@pytest.mark.parametrize(
    "large", [100_000, pytest.param(20_000_000, marks=pytest.mark.long)], ids=["100 kB", "20 MB"]
)
def test_whatever_cannot_be_written_of_a_row_refuses_that_row_alone(bench: Bench, large: int) -> None:
    rows, good = hostile(large)
    why = through(bench, rows)

    assert not set(good) & why.keys(), why
    assert all(reason.replace("_", "").isalnum() and reason.isupper() for reason in why.values())
    if bench.target.kind != "log":  # whose lines are the driver's
        assert 4 in why, "no UTF-8"
    if bench.target.kind in TEMPLATES:
        far = [10, 13, 14, 15]
        own = (
            "SINK_REFUSED" if bench.target.kind == "grpc" else "OUT_OF_RANGE"
        )  # no Timestamp has them either
        assert [why.get(row) for row in far] == [own] * 4


def test_a_row_that_is_too_large_is_kept_by_reference_and_hash() -> None:
    record = telemetry_pb2.Quarantined(
        dagger="d", key=b"k" * 10_000, detail="d" * 5_000, value=b"v" * 700_000, row=b"r" * 600_000,
        decoded_prefix="☃" * 100_000,
    )  # fmt: skip
    quarantine._cut(record)

    assert (record.row, record.truncated, len(record.sha256)) == (b"", True, 32)
    assert len(record.SerializeToString()) < 1_000_000
    quarantine.strip_content(record)
    assert quarantine.is_reference(record)
    assert len(record.SerializeToString()) < 8_000
