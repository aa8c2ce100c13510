"""JSON with every digit."""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daggerspec.exactjson import dumps, loads

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@pytest.mark.parametrize(
    "text",
    [
        "9007199254740993",
        "-9223372036854775808",
        "18446744073709551615",
        "12.340",
        "0.1",
        "123456789012345678901234567890.12345678",
        "1e+16",
        "-0.00",
        '{"total": 12.30, "cells": [9007199254740993, 1.50]}',
    ],
)
def test_a_number_comes_out_as_it_went_in(text: str) -> None:
    assert dumps(loads(text)) == text


def test_what_a_float_writes_is_a_float_and_what_it_does_not_is_a_decimal() -> None:
    assert [type(each) for each in loads("[1.5, 1.50, 0.1, 1]")] == [float, Decimal, float, int]


@given(VALUES, st.sampled_from([None, 2]))
def test_other_values_are_written_as_json_writes_them(value: Any, indent: int | None) -> None:
    assert dumps(value, indent=indent) == json.dumps(value, ensure_ascii=False, indent=indent)
