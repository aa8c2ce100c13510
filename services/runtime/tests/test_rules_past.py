"""Numbers of earlier windows: what a batch compares with, over launches, edits and damaged files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from services.runtime.tests.streams import source_session

from daggersql.rules.compiled import CompiledRule, PastValue, RuleText
from daggersql.rules.judged import JudgedRow
from runtime.rules import past as past_module
from runtime.rules.past import FILE, Past
from runtime.state.store.local import LocalPlace

pytestmark = pytest.mark.integration
NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
KEY = ("tag_city", "tag_kind")
Rows = Mapping[tuple[int, str | None, int], float | None]
"""A number by minute, city and kind."""


def reads(minutes: int, number: str = "n") -> PastValue:
    return PastValue(
        f"__past_{number}{minutes}", "", minutes * MINUTE, f"CAST(`row`.`{number}` AS DOUBLE)", KEY, (number,)
    )


def rule(*values: PastValue) -> CompiledRule:
    return CompiledRule(RuleText("more", "n > 1"), "TRUE", "", ("tag_city",), ("n",), None, values)


def micros(minute: int) -> int:
    return (NOON + minute * MINUTE - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


class RememberedRows:
    """Launches that follow each other over one directory."""

    def __init__(self, folder: Path, session: SparkSession) -> None:
        self.folder, self.session, self.end = folder, session, 0
        self.launch()

    def launch(self, created: int = 3) -> None:
        self.past = Past(lambda: LocalPlace(self.folder), created, MINUTE)

    def frame(self, rows: Rows) -> DataFrame:
        table = [(NOON + minute * MINUTE, city, kind, n) for (minute, city, kind), n in rows.items()]
        schema = "__window_end timestamp, tag_city string, tag_kind int, n double"
        return self.session.createDataFrame(table, schema)

    def batch(
        self, rows: Rows, until: int, *values: PastValue, repeat: bool = False
    ) -> dict[tuple[int, str | None, int], tuple[float | None, ...]]:
        """Process a batch; return what each row compares with. repeat: it comes again behind this one."""
        values = values or (reads(2),)
        self.past.choose([rule(*values)])
        joined = self.past.join(self.frame(rows), self.end, micros(until)).collect()
        [selected] = self.past.select()
        numbers = [
            JudgedRow(
                selected.name, (row["__window_end"].replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC))
                // timedelta(microseconds=1),
                (row["tag_city"], str(row["tag_kind"])), is_true=True, is_over=False,
                values={name: row[name] for name in selected.read},
            )
            for row in joined
        ]  # fmt: skip
        own = JudgedRow("more", 1, ("a",), is_true=True, is_over=False, values={})
        assert self.past.add([own, *numbers], micros(until)) == [own]
        if not repeat:
            self.end = micros(until)
        return {
            ((row["__window_end"].replace(tzinfo=UTC) - NOON) // MINUTE, row["tag_city"], row["tag_kind"]):
            tuple(row[value.column] for value in values)
            for row in joined
        }  # fmt: skip


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    with source_session() as session:
        yield session


@pytest.fixture
def memory(tmp_path: Path, session: SparkSession) -> RememberedRows:
    return RememberedRows(tmp_path, session)


def of(minute: int, *numbers: float | None) -> Rows:
    return {(minute, city, 1): n for city, n in zip("abcd", numbers, strict=False)}


def test_a_row_compares_with_that_of_its_tags_in_the_window_so_long_before(
    memory: RememberedRows,
) -> None:
    batches = [
        {(1, "a", 1): 1.0, (1, "a", 2): 2.0, (1, None, 1): 3.0, (1, "b", 1): None},
        {(2, "a", 1): 10.0},
        {(3, "a", 1): 0.0, (3, "a", 2): 0.0, (3, None, 1): 0.0, (3, "b", 1): 0.0, (3, "c", 1): 0.0},
        {(4, "a", 1): 0.0, (4, "b", 1): 0.0},
    ]

    found = [memory.batch(rows, minute) for minute, rows in enumerate(batches, 1)]

    assert set(found[0].values()) == set(found[1].values()) == {(None,)}
    assert found[2] == {
        (3, "a", 1): (1.0,), (3, "a", 2): (2.0,), (3, None, 1): (3.0,), (3, "b", 1): (None,),
        (3, "c", 1): (None,),
    }  # fmt: skip
    assert found[3] == {(4, "a", 1): (10.0,), (4, "b", 1): (None,)}


def test_rows_of_one_batch_compare_with_each_other_and_with_what_was_before(
    memory: RememberedRows,
) -> None:
    values = (reads(1), reads(3))
    memory.batch({(1, "a", 1): 1.0, (2, "a", 1): 2.0}, 2, *values)

    found = memory.batch({(minute, "a", 1): float(minute) for minute in range(3, 7)}, 6, *values)

    assert {minute: numbers for (minute, _, _), numbers in found.items()} == {
        3: (2.0, None), 4: (3.0, 1.0), 5: (4.0, 2.0), 6: (5.0, 3.0),
    }  # fmt: skip


def test_launches_go_on_and_a_repeated_batch_changes_nothing(memory: RememberedRows) -> None:
    memory.batch(of(1, 1.0), 1)
    memory.launch()
    memory.batch(of(2, 2.0), 2, repeat=True)
    memory.launch()
    again = memory.batch(of(2, 2.0), 2)
    memory.launch()

    assert again == {(2, "a", 1): (None,)}
    assert memory.batch(of(3, 0.0), 3) == {(3, "a", 1): (1.0,)}
    assert memory.batch(of(4, 0.0), 4) == {(4, "a", 1): (2.0,)}


def test_what_no_rule_looks_back_to_is_forgotten_with_its_files(
    memory: RememberedRows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past_module, "SEGMENT", 2)
    memory.launch()
    for minute in range(1, 10):
        memory.batch(of(minute, 1.0), minute, reads(3))
    series = [*tmp_path.glob(f"{FILE}*")]
    memory.batch(of(10, 1.0), 10, reads(3, "tag_kind"))

    assert len(series) == 2  # windows 7 to 9
    assert [file.name for file in tmp_path.glob(f"{FILE}*") if file in series] == []


@pytest.mark.parametrize("damaged", ["{", "[]", '{"created": 3}', '{"created": 9, "windows": {}}'])
def test_a_file_that_is_damaged_or_of_another_dagger_costs_what_is_in_it(
    memory: RememberedRows, tmp_path: Path, damaged: str
) -> None:
    memory.batch(of(1, 1.0), 1)
    for file in tmp_path.glob(f"{FILE}*"):
        file.write_text(damaged)
    memory.launch()

    assert memory.batch(of(3, 0.0), 3) == {(3, "a", 1): (None,)}
    assert memory.batch(of(5, 0.0), 5) == {(5, "a", 1): (0.0,)}


def test_beyond_the_most_numbers_the_oldest_windows_are_forgotten(
    memory: RememberedRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past_module, "MOST_VALUES", 4)
    for minute in (1, 2, 3):
        memory.batch(of(minute, float(minute), float(minute)), minute, reads(1), reads(3))

    found = memory.batch(of(4, 0.0, 0.0), 4, reads(1), reads(3))

    assert [*found.values()] == [(3.0, None), (3.0, None)]
