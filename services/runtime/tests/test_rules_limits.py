"""Limits of a reference table beside the rows of a batch: by key, over outages, edits and damaged content."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from daggers.v1 import spec_pb2
from pyspark.sql import SparkSession
from services.runtime.tests.streams import source_session

from daggersql.rules.compiled import CompiledRule, RuleLimits, RuleText
from runtime.errors import JobError
from runtime.references.content import InvalidContent, NumberColumns
from runtime.references.loading import References
from runtime.rules.limits import LimitTables

CITY = RuleLimits("own", ("tag_city",), ("most", "least"))
BOTH = RuleLimits("own", ("tag_city", "tag_kind"), ("most",))


def rule(limits: RuleLimits) -> CompiledRule:
    return CompiledRule(RuleText("more", "n > most", limits=limits), "TRUE", "", (), (), None)


class TableOnDisk:
    """A table on disk, and launches that read it, with a clock of their own."""

    def __init__(self, folder: Path, session: SparkSession) -> None:
        self.file, self.folder, self.session, self.now = folder / "own.csv", folder, session, 0.0
        self.limits = CITY
        self.launch()

    def launch(self) -> None:
        self.references = References(
            (), (), dagger="d", store=self.folder / "rules", folder=self.folder, clock=lambda: self.now
        )
        self.tables = LimitTables(self.references)
        self.choose(self.limits)

    def choose(self, limits: RuleLimits) -> None:
        self.limits = limits
        table = spec_pb2.ReferenceTable(
            name="own", format=spec_pb2.ReferenceTable.FORMAT_CSV, location=str(self.file)
        )
        self.tables.choose([rule(limits)], [table])

    def write(self, *lines: str) -> None:
        self.file.write_text("\n".join(("city,most,least", *lines)))
        self.now += 3_601

    def join(self) -> dict[tuple[str | None, int | None], tuple[object, ...]]:
        """Join rows with the table; return what each has of it."""
        cities = [("a", 1), ("b", 2), (None, 3), ("d", None)]
        rows = self.session.createDataFrame(cities, "tag_city string, tag_kind int")
        columns = [self.limits.present, *map(self.limits.column, self.limits.columns)]
        joined = self.tables.join(rows, [rule(self.limits)]).collect()
        return {(row["tag_city"], row["tag_kind"]): tuple(row[name] for name in columns) for row in joined}


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    with source_session() as session:
        yield session


@pytest.fixture
def table(tmp_path: Path, session: SparkSession) -> TableOnDisk:
    return TableOnDisk(tmp_path, session)


@pytest.mark.integration
def test_a_row_has_the_limits_of_its_key(table: TableOnDisk) -> None:
    table.write("a,5,1.5", "d,7,", "e,1,1")

    assert table.join() == {
        ("a", 1): (True, 5.0, 1.5), ("b", 2): (False, None, None),
        (None, 3): (False, None, None), ("d", None): (True, 7.0, None),
    }  # fmt: skip


@pytest.mark.integration
def test_the_key_of_several_columns_has_a_slash_between_them(table: TableOnDisk) -> None:
    table.choose(BOTH)
    table.write("a/1,5,0", "b/1,6,0", "d/,7,0")

    assert {key: found for key, found in table.join().items() if found[0]} == {("a", 1): (True, 5.0)}


@pytest.mark.integration
def test_a_table_that_is_away_or_damaged_is_read_as_it_was_last_and_that_is_said(table: TableOnDisk) -> None:
    assert set(table.join().values()) == {(False, None, None)}
    [never] = table.references.warnings()
    table.write("a,5,1")
    first = table.join()
    table.file.unlink()
    table.now += 3_601
    gone, [away] = table.join(), table.references.warnings()
    table.launch()
    launched = table.join()
    table.write("a,many,1")
    damaged, [wrong] = table.join(), table.references.warnings()
    table.write("a,6,1")

    assert first == gone == launched == damaged
    assert never.startswith("REFERENCE_STALE own: ")
    assert never.endswith("There is no version of it yet, and alert rules that need one are true of nothing.")
    assert "own.csv cannot be read" in away
    assert "Alert rules read most of a, and many is no number." in wrong
    assert table.join()["a", 1] == (True, 6.0, 1.0)
    assert table.references.warnings() == ()


@pytest.mark.integration
def test_rules_that_read_further_columns_read_them_of_the_same_table(table: TableOnDisk) -> None:
    table.write("a,5,1")
    table.join()
    table.choose(RuleLimits("own", ("tag_city",), ("least",)))

    assert table.join()["a", 1] == (True, 1.0)


def test_a_table_that_is_not_registered_is_refused(tmp_path: Path) -> None:
    references = References((), (), dagger="d", store=tmp_path, folder=tmp_path, clock=float)
    with pytest.raises(JobError) as refused:
        LimitTables(references).choose([rule(CITY)], [])

    assert refused.value.error.reason == "REFERENCE_NOT_FOUND"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (["a"], "are an object of values by key"),
        ({"a": {"most": True, "least": 1}}, "most of a, and true is no number"),
        ({"a": {"most": "inf", "least": 1}}, "most of a, and inf is no number"),
        ({"a": {"most": [1], "least": 1}}, "is no number"),
        ({"a": {"most": 1}}, "its column least, and no key has one"),
        ({str(number): 1 for number in range(100_001)}, "100,000 keys at most"),
    ],
)
def test_content_without_numbers_is_refused_at_its_key(content: object, problem: str) -> None:
    with pytest.raises(InvalidContent, match=problem):
        NumberColumns(CITY.columns)(content)


def test_one_value_for_each_key_is_what_every_column_reads() -> None:
    assert NumberColumns(("limit",))({"a": "5", "b": 0.5, "c": None}) == {
        "a": (5.0,), "b": (0.5,), "c": (None,),
    }  # fmt: skip
