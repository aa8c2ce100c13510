"""The public corpus: all that needs no Spark, and a fixed sample of the rest; in test-long, everything."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.conformance.__main__ import safely
from tests.conformance.corpus import public
from tests.conformance.engine import Engine, engine

LINES = public().lines()
IN_SPARK = [(name, case) for name, case in LINES if "udf" in case or "expect_columns" in case]
SAMPLE = IN_SPARK[::9]


@pytest.fixture(scope="module")
def spark() -> Iterator[Engine]:
    with engine(public().files) as started:
        yield started


@pytest.mark.parametrize(("name", "case"), LINES, ids=[name for name, _ in LINES])
def test_a_case_passes_as_far_as_it_needs_no_spark(name: str, case: dict[str, Any]) -> None:
    assert safely(case, public(), None) is None


@pytest.mark.integration
@pytest.mark.parametrize(("name", "case"), SAMPLE, ids=[name for name, _ in SAMPLE])
def test_a_case_of_the_sample_passes_in_spark(name: str, case: dict[str, Any], spark: Engine) -> None:
    assert safely(case, public(), spark) is None


@pytest.mark.integration
@pytest.mark.long
@pytest.mark.parametrize(("name", "case"), IN_SPARK, ids=[name for name, _ in IN_SPARK])
def test_a_case_passes_in_spark(name: str, case: dict[str, Any], spark: Engine) -> None:
    assert safely(case, public(), spark) is None


def test_a_wrong_answer_is_told_of() -> None:
    case = next(case for _, case in LINES if case.get("udf") == "S2Id" and isinstance(case["expected"], str))

    assert "gives" in (safely({**case, "expected": "1"}, public(), None) or "")


def test_a_line_that_is_no_case_fails() -> None:
    assert safely({"id": "X-1"}, public(), None) == "is no kind of case that is known"
