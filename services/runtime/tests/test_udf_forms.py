"""Functions of our own, without Spark: the plain reference, the corpus, and the fast form beside it."""

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conformance.corpus import cases

from daggersql.functions import registry
from runtime import udfs
from runtime.errors import JobError
from runtime.udfs import distinctcount, s2id

S2ID = {case["id"]: case for case in cases("udf_cases") if case["udf"] == "S2Id"}
DISTINCT = {case["id"]: case for case in cases("udf_cases") if case["udf"] == "DistinctCount"}
REFUSED = {name for name, case in S2ID.items() if isinstance(case["expected"], dict)}

ANGLES = st.floats(min_value=-1000, max_value=1000) | st.sampled_from(
    [0.0, -0.0, 45.0, -45.0, 90.0, -90.0, 135.0, 180.0, -180.0, 190.0, 35.26438968275465, 89.99999999999999]
)
ODD = st.sampled_from([None, math.nan, math.inf, -math.inf, 90.00000000000001, 1e300])


def value(argument: Any) -> Any:
    """A corpus argument as Python has it."""
    return float(argument["$float"]) if isinstance(argument, dict) else argument


def fast(latitude: float | None, longitude: float | None, level: int | None) -> str | None:
    """The fast form, of one point."""
    found = s2id.compute(
        pa.array([latitude], pa.float64()), pa.array([longitude], pa.float64()), pa.array([level], pa.int32())
    )
    answer: str | None = found[0].as_py()
    return answer


@pytest.mark.parametrize("name", sorted(set(S2ID) - REFUSED))
def test_s2id_gives_what_the_corpus_says_in_both_forms(name: str) -> None:
    arguments = [value(each) for each in S2ID[name]["args"]]

    assert s2id.reference(*arguments) == S2ID[name]["expected"]
    assert fast(*arguments) == S2ID[name]["expected"]


@given(ANGLES, ANGLES, st.integers(0, 30))
@settings(max_examples=1000, deadline=None)
def test_both_forms_of_s2id_agree_everywhere(latitude: float, longitude: float, level: int) -> None:
    assert fast(latitude, longitude, level) == s2id.reference(latitude, longitude, level)


@given(ANGLES | ODD, ANGLES | ODD, st.integers(-2, 32) | st.none())
@settings(max_examples=500, deadline=None)
def test_both_forms_of_s2id_agree_on_what_is_no_place(
    latitude: float | None, longitude: float | None, level: int | None
) -> None:
    assert fast(latitude, longitude, level) == s2id.reference(latitude, longitude, level)


def test_a_batch_keeps_the_order_of_its_rows_and_their_nulls() -> None:
    latitudes, longitudes = [1.5, None, -6.17, 91.0, 0.0], [2.5, 1.0, 106.8, 0.0, math.nan]
    found = s2id.compute(
        pa.array(latitudes, pa.float64()), pa.array(longitudes, pa.float64()), pa.array([13] * 5, pa.int32())
    ).to_pylist()

    assert found == [s2id.reference(*point, 13) for point in zip(latitudes, longitudes, strict=True)]


def test_an_empty_batch_is_fine() -> None:
    none = pa.array([], pa.float64())

    assert s2id.compute(none, none, pa.array([], pa.int32())).to_pylist() == []


@pytest.mark.parametrize("name", sorted(DISTINCT))
def test_distinctcount_gives_what_the_corpus_says(name: str) -> None:
    rows = [(row[0],) for row in DISTINCT[name]["args"]]

    assert distinctcount.reference(rows) == DISTINCT[name]["expected"]


def test_every_function_of_the_dialect_has_a_file_and_every_file_a_signature() -> None:
    signatures = sorted(function.name.lower() for function in registry.own())

    assert signatures == list(udfs.names())


@pytest.mark.parametrize("name", udfs.names())
def test_every_file_has_a_reference_and_a_fast_form(name: str) -> None:
    module = udfs.load(name)

    assert callable(module.reference)
    assert callable(module.register)


def test_an_unknown_function_is_named_with_those_there_are() -> None:
    with pytest.raises(JobError) as caught:
        udfs.load("s2idd")

    assert ", ".join(udfs.names()) in caught.value.error.detail
