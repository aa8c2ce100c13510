"""Rules on what is usual in a driver: answers, learning, and what is stored over kills and edits."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, cast

import pyarrow as pa
import pytest
from daggers.v1 import rules_pb2, telemetry_pb2
from services.runtime.tests.streams import source_session
from tests.conformance.corpus import tables

from daggersql import check
from daggersql.plan import Window
from daggersql.rules.compiled import CompiledRule, ConditionPair, RuleText, SeasonalBand
from runtime.references.loading import References
from runtime.rules.bands import FILE
from runtime.rules.columns import read_answer, with_rules
from runtime.rules.judging import RuleJudge
from runtime.rules.limits import LimitTables
from runtime.rules.observations import event_id
from runtime.rules.selection import RowSelection
from runtime.state.store.local import LocalPlace

NOON: Final = datetime(2026, 11, 29, 12, tzinfo=UTC)
STEP: Final = timedelta(minutes=20)
ODD: Final = rules_pb2.AlertRule(name="odd", when="outside(n)")
BITS: Final = 0b10_10_01
"""True where the number is outside, and over where it is inside, or where nothing is known of it."""


def compile_odd(number: str = "n") -> CompiledRule:
    band = SeasonalBand("outside(n)", "n", number, ("tag_city",), ("n",), 4.0, "")
    answers = (ConditionPair("TRUE", ""), ConditionPair("FALSE", ""), ConditionPair("NULL", ""))
    return CompiledRule(
        RuleText("odd", "outside(n)"), "", "", ("tag_city",), ("n",), None, band=band, answers=answers
    )


class PassingFrame:
    """A DataFrame that takes what is added to it."""

    def alias(self, _: str) -> PassingFrame:
        return self

    def selectExpr(self, *_: str) -> PassingFrame:  # noqa: N802 - Spark's name
        return self


class BandDriver:
    """The judge of one launch after another, over one directory, with windows of 20 minutes."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.observations = folder, dict[str, rules_pb2.RuleObserved]()
        self.learning: list[tuple[str, ...]] = []
        self.launch()

    def write(self, observed: Sequence[rules_pb2.RuleObserved]) -> Sequence[rules_pb2.RuleObserved]:
        self.observations |= {event_id(one): one for one in observed}
        return ()

    def note(self, learning: Sequence[telemetry_pb2.LearningRule]) -> None:
        self.learning.append(
            tuple(
                f"{one.rule} {one.until.ToJsonString() if one.HasField('until') else '?'}" for one in learning
            )
        )

    def launch(self, rule: CompiledRule | None = None) -> None:
        self.rule = rule or compile_odd()
        references = References((), (), dagger="d", store=self.folder, folder=self.folder, clock=float)
        self.judge = RuleJudge(
            "calls", generation=7, created=3, root=lambda: LocalPlace(self.folder),
            window=Window("TUMBLE", STEP, STEP), compile_rules=lambda _: (), limits=LimitTables(references),
            sender=self, on_rules=lambda _: None, on_learning=self.note,
        )  # fmt: skip
        self.judge.put(1, [ODD], [self.rule])

    def batch(self, first: int, *numbers: float | None) -> None:
        """Judge a batch of windows from the one at a place on, with a number of the city `a` each."""
        closed = NOON + (first + len(numbers)) * STEP
        self.judge.begin_batch(cast(Any, PassingFrame()), closed)
        [selected] = self.judge.select()
        assert self.rule.band is not None
        ends = [NOON + (first + place + 1) * STEP for place in range(len(numbers))]
        columns = {
            "tag_city": pa.array(["a"] * len(numbers), pa.string()),
            "n": pa.array(numbers, pa.float64()),
            "__window_end": pa.array(ends, pa.timestamp("us", "UTC")),
            f"__band_{self.rule.band.series}": pa.array(numbers, pa.float64()),
            "__band_0": pa.array([BITS] * len(numbers), pa.int32()),
            "__rule_0": pa.array([False] * len(numbers)),
            "__rule_over_0": pa.array([False] * len(numbers)),
        }
        contents = RowSelection([selected]).select(pa.RecordBatch.from_pydict(columns))
        self.judge.end_batch(contents, closed)

    @property
    def turns(self) -> list[tuple[str, int]]:
        """Turns, and the places of their windows."""
        return [
            (
                rules_pb2.RuleState.Name(one.state).removeprefix("RULE_STATE_"),
                (one.window.ToDatetime(tzinfo=UTC) - NOON) // STEP - 1,
            )
            for one in self.observations.values()
        ]


@pytest.fixture
def driver(tmp_path: Path) -> BandDriver:
    return BandDriver(tmp_path)


def test_an_answer_has_two_bits() -> None:
    assert [read_answer(BITS, place) for place in range(3)] == [(True, False), (False, True), (False, True)]


def test_a_rule_learns_for_three_hours_and_says_so(driver: BandDriver) -> None:
    driver.batch(0, 1.0)
    for place in range(1, 9):
        driver.batch(place, 900.0 if place == 5 else place % 3)
    driver.batch(9, 50.0)
    driver.batch(10, 2.0)

    assert driver.turns == [("FIRED", 9), ("RESOLVED", 10)]
    assert driver.learning == [("odd ?",), ("odd 2026-11-29T15:00:00Z",), ()]
    [fired, _] = driver.observations.values()
    assert dict(fired.values) == {"n": "50", "median of n": "1", "spread of n": "1"}
    assert fired.summary == "outside(n) (n 50, median of n 1, spread of n 1)"


def test_one_batch_of_many_hours_is_judged_as_many_batches_are(driver: BandDriver, tmp_path: Path) -> None:
    numbers = [*(place % 4 for place in range(12)), 50, 1, 2, None, 60, 61, 3]
    other = BandDriver(tmp_path / "other")
    other.folder.mkdir()
    for place, number in enumerate(numbers):
        driver.batch(place, number)
    other.batch(0, *numbers)

    assert driver.turns == other.turns == [("FIRED", 12), ("RESOLVED", 13), ("FIRED", 16), ("RESOLVED", 18)]


def test_over_kills_each_window_is_judged_once_by_what_was_before(driver: BandDriver, tmp_path: Path) -> None:
    numbers = [*(float(place % 4) for place in range(12)), 50.0, 50.0, 1.0, 2.0, 50.0, 2.0]
    for place in range(0, 18, 2):
        driver.batch(place, *numbers[place : place + 2])
        driver.launch()  # killed before Spark committed: the batch comes again
        driver.batch(place, *numbers[place : place + 2])
        if place % 4:
            driver.launch()

    assert driver.turns == [("FIRED", 12), ("RESOLVED", 14), ("FIRED", 16), ("RESOLVED", 17)]
    assert any(file.name.startswith(FILE) for file in tmp_path.iterdir())


def test_a_kill_before_the_numbers_are_stored_costs_none_of_them(
    driver: BandDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.batch(0, *(float(place % 4) for place in range(8)))
    with monkeypatch.context() as killed:
        killed.setattr("runtime.rules.bands.Bands.store", lambda _: None)
        driver.batch(8, 1.0, 50.0, 1.0)
    driver.launch()
    driver.batch(8, 1.0, 50.0, 1.0)
    stored = {file.name: file.read_text() for file in tmp_path.iterdir() if file.name.startswith(FILE)}
    whole = BandDriver(tmp_path / "whole")
    whole.folder.mkdir()
    whole.batch(0, *(float(place % 4) for place in range(8)))
    whole.batch(8, 1.0, 50.0, 1.0)

    assert driver.turns == whole.turns == [("FIRED", 9), ("RESOLVED", 10)]
    assert stored == {
        file.name: file.read_text() for file in whole.folder.iterdir() if file.name.startswith(FILE)
    }


def test_a_rule_on_another_number_learns_anew_and_the_files_of_before_go(
    driver: BandDriver, tmp_path: Path
) -> None:
    driver.batch(0, *(float(place % 4) for place in range(9)))
    before = {file.name for file in tmp_path.iterdir() if file.name.startswith(FILE)}
    driver.launch(compile_odd("2 * n"))
    driver.batch(9, 50.0)

    assert driver.turns == []
    assert before & {file.name for file in tmp_path.iterdir()} == set()


@pytest.mark.parametrize("damaged", ["{", "[]", '{"created": 3}', '{"created": 9, "rows": []}'])
def test_a_file_that_is_damaged_or_of_another_dagger_costs_what_is_in_it(
    driver: BandDriver, tmp_path: Path, damaged: str
) -> None:
    driver.batch(0, *(float(place % 4) for place in range(9)))
    for file in tmp_path.iterdir():
        if file.name.startswith(FILE):
            file.write_text(damaged)
    driver.launch()
    driver.batch(9, 50.0)

    assert driver.turns == []


def test_beyond_the_room_further_keys_are_passed_over(
    driver: BandDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.rules.bands.MOST_KEYS", 0)
    driver.batch(0, *(float(place % 4) for place in range(9)), 50.0)

    assert driver.turns == []


@pytest.mark.integration
def test_workers_give_the_number_and_the_rule_for_each_answer() -> None:
    text = "outside(n + 1) AND n > 3"
    sql = (
        "SELECT service_type AS tag_service, COUNT(*) AS n FROM bookings"
        " GROUP BY TUMBLE(rowtime, INTERVAL '1' MINUTE), service_type"
    )
    plan = check(sql, tables(), rules=[RuleText("odd", text, resolve_when="n < 2")]).plan
    assert plan is not None
    [rule] = plan.rules
    assert rule.band is not None
    number = f"__band_{rule.band.series}"
    rows: list[tuple[str, int | None]] = [("a", 1), ("b", 4), ("c", None)]

    with source_session() as session:
        frame = with_rules(session.createDataFrame(rows, "tag_service string, n bigint"), plan.rules)
        found = {row["tag_service"]: (row[number], row["__band_0"]) for row in frame.collect()}

    assert {key: one[0] for key, one in found.items()} == {"a": 2.0, "b": 5.0, "c": None}
    answers = {key: [read_answer(bits, place) for place in range(3)] for key, (_, bits) in found.items()}
    assert answers == {
        "a": [(False, True)] * 3,
        "b": [(True, False), (False, False), (False, False)],
        "c": [(False, False)] * 3,
    }
