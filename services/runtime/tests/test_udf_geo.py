"""Functions of places, without Spark: the corpus, and both forms beside each other, poles included."""

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.conformance.corpus import cases
from tests.conformance.values import agrees, plain, refusal

from runtime import functions
from runtime.functions import distance, geohash, s2areainkm2, s2id

TYPES: dict[str, list[pa.DataType]] = {
    "S2Id": [pa.float64(), pa.float64(), pa.int32()],
    "S2AreaInKm2": [pa.string()],
    "Distance": [pa.float64()] * 4,
    "GeoHash": [pa.float64(), pa.float64(), pa.int32()],
}
CASES = {
    case["id"]: case
    for case in cases("udf_cases")
    if case["udf"] in TYPES and refusal(case["expected"]) is None
}
ANGLES = st.floats(min_value=-1000, max_value=1000) | st.sampled_from(
    [0.0, -0.0, 45.0, -45.0, 90.0, -90.0, 135.0, 180.0, -180.0, 190.0, 540.0, -540.0, 900.0,
     35.26438968275465, 89.99999999999999, 1e-17, -1e-17, -5e-324, 179.99999999999997, -180.00000000000003]
)  # fmt: skip
ODD = st.sampled_from([None, math.nan, math.inf, -math.inf, 90.00000000000001, 1e300])
IDS = st.tuples(st.floats(-90, 90), st.floats(-180, 180), st.integers(0, 30)).map(
    lambda at: s2id.reference(*at)
)
NO_IDS = st.sampled_from(
    [None, "", "0", "+5", "-5", "x", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
     "-9223372036854775809", "00003458764513820540928", "--1", "+-1", " 1", "1\n", "٣", "1.0"]
) | st.text(max_size=4) | st.integers(-(2**63), 2**63 - 1).map(str)  # fmt: skip


def fast(name: str, *row: Any) -> Any:
    """The fast form, of one row."""
    arrays = [pa.array([value], kind) for value, kind in zip(row, TYPES[name], strict=True)]
    return functions.load(name.lower()).compute(*arrays)[0].as_py()


@pytest.mark.parametrize("name", sorted(CASES))
def test_both_forms_give_what_the_corpus_says(name: str) -> None:
    case = CASES[name]
    arguments = [plain(each) for each in case["args"]]
    answers = [functions.load(case["udf"].lower()).reference(*arguments), fast(case["udf"], *arguments)]

    assert [
        agrees(case["expected"], answer, case.get("compare", "exact"), case.get("tol", 0))
        for answer in answers
    ] == [
        True,
        True,
    ]


@given(ANGLES | ODD, ANGLES | ODD, st.integers(-2, 32) | st.none())
@settings(max_examples=15 * settings.default.max_examples)
def test_both_forms_of_s2id_agree_everywhere(lat: float | None, lng: float | None, level: int | None) -> None:
    assert fast("S2Id", lat, lng, level) == s2id.reference(lat, lng, level)


@given(ANGLES | ODD, ANGLES | ODD, st.integers(-1, 14) | st.none())
@example(0.0, 180.0, 12)
@example(90.0, -180.0, 12)
@settings(max_examples=15 * settings.default.max_examples)
def test_both_forms_of_geohash_agree_everywhere(
    lat: float | None, lng: float | None, length: int | None
) -> None:
    assert fast("GeoHash", lat, lng, length) == geohash.reference(lat, lng, length)


@pytest.mark.parametrize("function", [s2id, geohash])
@given(points=st.lists(st.tuples(ANGLES | ODD, ANGLES | ODD, st.integers(-1, 31) | st.none()), max_size=8))
def test_points_have_one_code_exactly_where_they_have_one_text(function: Any, points: list[Any]) -> None:
    points = [*points, *[(lat, lng, fine) for lat, lng, _ in points for fine in (1, 2, 5)]]
    columns = zip(*points, strict=True) if points else ([], [], [])
    arrays = [pa.array(column, kind) for column, kind in zip(columns, TYPES["S2Id"], strict=True)]
    codes, texts = function.codes(*arrays), function.compute(*arrays).to_pylist()

    assert function.text(codes).to_pylist() == texts
    assert len(set(zip(codes.to_pylist(), texts, strict=True))) == len(set(texts))


@given(ANGLES | ODD, ANGLES | ODD, ANGLES | ODD, ANGLES | ODD)
@example(1.0, 1.0, -1.0, -179.0)
@settings(max_examples=10 * settings.default.max_examples)
def test_both_forms_of_distance_agree_everywhere(
    lat1: float | None, lng1: float | None, lat2: float | None, lng2: float | None
) -> None:
    found, expected = fast("Distance", lat1, lng1, lat2, lng2), distance.reference(lat1, lng1, lat2, lng2)

    assert found == (None if expected is None else pytest.approx(expected, rel=1e-9, abs=1e-6))


@given(IDS | NO_IDS)
@settings(max_examples=10 * settings.default.max_examples)
def test_both_forms_of_s2areainkm2_agree_on_every_text(cell: str | None) -> None:
    expected = s2areainkm2.reference(cell)

    assert fast("S2AreaInKm2", cell) == (None if expected is None else pytest.approx(expected, rel=1e-12))


def test_a_batch_keeps_the_order_of_its_rows_and_their_nulls() -> None:
    points = [
        (1.5, 2.5, 6),
        (None, 1.0, 6),
        (-6.17, 106.8, 3),
        (91.0, 0.0, 6),
        (0.0, math.nan, 6),
        (0.0, 0.0, 12),
    ]
    columns = [
        pa.array(values, kind)
        for values, kind in zip(zip(*points, strict=True), TYPES["GeoHash"], strict=True)
    ]

    assert geohash.compute(*columns).to_pylist() == [geohash.reference(*point) for point in points]
    assert s2id.compute(*columns).to_pylist() == [s2id.reference(*point) for point in points]


@pytest.mark.parametrize("name", sorted(TYPES))
def test_an_empty_batch_and_one_of_nulls_are_fine(name: str) -> None:
    compute = functions.load(name.lower()).compute

    assert compute(*[pa.array([], kind) for kind in TYPES[name]]).to_pylist() == []
    assert compute(*[pa.nulls(2, kind) for kind in TYPES[name]]).to_pylist() == [None, None]
