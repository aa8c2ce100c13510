from __future__ import annotations

from collections.abc import Sequence

import pytest
from daggers.v1 import events_pb2
from hypothesis import given
from hypothesis import strategies as st

from eventlog.export import LOST, ExportDamaged, ExportEntry, ExportWriter, Head, LogReport, close_gaps, read
from eventlog.testing import record

BYTES = st.none() | st.binary(max_size=40)
ENTRIES = st.lists(
    st.tuples(st.integers(0, 3), BYTES, st.lists(st.tuples(st.text(max_size=9), BYTES), max_size=3), BYTES),
    max_size=12,
).map(
    lambda drawn: [
        ExportEntry(
            sum(gap for gap, *_ in drawn[: n + 1]) + n, 1_767_225_600_000 + n, key, tuple(headers), value
        )
        for n, (_, key, headers, value) in enumerate(drawn)
    ]
)


def exported(entries: Sequence[ExportEntry], first: int = 0) -> list[str]:
    writer = ExportWriter(Head("daggers.control", first))
    return [writer.begin(), *map(writer.add, entries), writer.end()]


def entry(
    sequence: int, value: bytes = b"v", headers: tuple[tuple[str, bytes | None], ...] = ()
) -> ExportEntry:
    return ExportEntry(sequence, 1, b"k", headers, value)


def whole(lines: Sequence[str]) -> list[ExportEntry]:
    return list(read(lines)[1])


@given(ENTRIES)
def test_what_was_exported_is_read_back_as_it_was(entries: list[ExportEntry]) -> None:
    head, restored = read(exported(entries))

    assert (head, list(restored)) == (Head("daggers.control", 0), entries)


@given(ENTRIES.filter(bool), st.data())
def test_a_file_with_any_one_character_changed_is_refused_or_says_the_same(
    entries: list[ExportEntry], data: st.DataObject
) -> None:
    lines = exported(entries)
    number = data.draw(st.integers(0, len(lines) - 1))
    position = data.draw(st.integers(0, len(lines[number]) - 2))
    other = data.draw(st.characters(codec="ascii", exclude_characters="\r\n" + lines[number][position]))
    lines[number] = lines[number][:position] + other + lines[number][position + 1 :]

    try:
        head, restored = read(lines)
        same = (head, list(restored)) == (Head("daggers.control", 0), entries)
    except ExportDamaged:
        same = True

    assert same


@given(ENTRIES.filter(bool), st.data())
def test_a_file_without_one_of_its_lines_is_refused(entries: list[ExportEntry], data: st.DataObject) -> None:
    lines = exported(entries)
    del lines[data.draw(st.integers(0, len(lines) - 1))]

    with pytest.raises(ExportDamaged):
        whole(lines)


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ([], "empty"),
        (["{}\n"], "first line"),
        (["hello\n"], "first line"),
        (['{"daggers_log": 2, "topic": "t", "first": 0}\n'], "format is 2"),
        (exported([entry(0)])[:-1], "cut short"),
        ([*exported([entry(0)]), "{}\n"], "line 4 stands behind"),
        (exported([entry(1), entry(1)]), "sequence 1 behind 1"),
        ([*exported([])[:1], "[]\n"], "line 2 is not a record"),
        ([exported([])[0], *exported([entry(0)], first=5)[1:]], "line 2 .* not as it was"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_line(lines: list[str], why: str) -> None:
    with pytest.raises(ExportDamaged, match=why):
        whole(lines)


def test_a_report_names_gaps_from_sequence_0_and_records_that_cannot_be_read() -> None:
    report = LogReport()
    event = record(events_pb2.StartRequested(name="a"))
    readable = (("ce_type", event.type.encode()),)
    for each in (entry(2, event.value, readable), entry(3, b"\xff", readable), entry(6, b"", (("x", None),))):
        report.add(each)

    assert (report.records, report.last, report.missing, report.gaps) == (3, 6, 4, [(0, 1), (4, 5)])
    assert [(event.sequence, event.type) for event in report.unreadable] == [(3, event.type), (6, "")]


@given(ENTRIES)
def test_a_filled_log_has_every_sequence_once_and_every_record_at_its_own(entries: list[ExportEntry]) -> None:
    records = list(close_gaps(entries))

    assert [event.sequence for event in records] == list(range(entries[-1].sequence + 1 if entries else 0))
    assert [each for each in records if dict(each.headers).get("ce_type") != LOST.encode()] == entries
