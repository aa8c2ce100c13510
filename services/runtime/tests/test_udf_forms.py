"""Functions of our own as files, two of one name each; and references of those that are native in Spark."""

import inspect
from typing import Any

import pyarrow as pa
import pytest
from tests.conformance.corpus import cases
from tests.conformance.values import agrees, plain, refusal

from daggersql.functions import registry
from runtime import functions
from runtime.errors import JobError
from runtime.functions import distinctcount
from runtime.values.invalid_input import invalid_rows

# Their fast form is in test_udf_own_spark.py, as are the cases that need a stream's messages.
NATIVE = ("Split", "ByteToString", "ListContains", "MapGet", "ArrayOperate", "ArrayAggregate", "ElementAt")
CASES = {
    case["id"]: case
    for case in cases("udf_cases")
    if case["udf"] in NATIVE and refusal(case["expected"]) is None and "tables" not in case.get("given", {})
}
DISTINCT = {case["id"]: case for case in cases("udf_cases") if case["udf"] == "DistinctCount"}


def argument(raw: Any) -> Any:
    """A corpus argument as references take it: a map is a dict."""
    value = plain(raw)
    return value.as_dict() if hasattr(value, "as_dict") else value


@pytest.mark.parametrize("name", sorted(CASES))
def test_the_reference_gives_what_the_corpus_says(name: str) -> None:
    case = CASES[name]
    answer = functions.load(case["udf"].lower()).reference(*map(argument, case["args"]))

    assert agrees(case["expected"], answer, case.get("compare", "exact"), case.get("tol", 1e-9)), answer


@pytest.mark.parametrize("name", sorted(DISTINCT))
def test_distinctcount_gives_what_the_corpus_says(name: str) -> None:
    rows = [(row[0],) for row in DISTINCT[name]["args"]]

    assert distinctcount.reference(rows) == DISTINCT[name]["expected"]


def test_every_function_of_the_dialect_has_a_file_and_every_file_a_signature() -> None:
    signatures = sorted(function.name.lower() for function in registry.own())

    assert signatures == list(functions.names())


def test_what_readers_may_compute_they_can() -> None:
    """`compute` takes an Arrow array for each argument, as often as a signature promises."""
    promised = {
        function.name.lower(): len(signature.computed)
        for function in registry.own()
        for signature in function.signatures
        if signature.computed
    }
    found = {name: len(inspect.signature(functions.load(name).compute).parameters) for name in promised}

    assert found == promised == {"distance": 4, "geohash": 3, "s2id": 3}


@pytest.mark.parametrize("name", functions.names())
def test_every_file_has_a_reference_and_a_fast_form(name: str) -> None:
    module = functions.load(name)

    assert callable(module.reference)
    assert callable(module.register)


def test_an_unknown_function_is_named_with_those_there_are() -> None:
    with pytest.raises(JobError) as caught:
        functions.load("s2idd")

    assert ", ".join(functions.names()) in caught.value.error.detail


def test_a_row_is_invalid_when_it_has_every_argument_and_no_answer() -> None:
    arguments = (pa.array([1, None, 3, 4]), pa.array(["a", "b", None, "d"]))

    assert invalid_rows(arguments, pa.array([None, None, None, "x"])) == 1
    assert invalid_rows(arguments, pa.array(["", "", "", ""])) == 0
    assert invalid_rows((), pa.array([None, None])) == 2
