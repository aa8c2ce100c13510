"""Texts that are no UTF-8 are noticed wherever they stand in a batch."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.encode.rows import check_texts

VALUES = st.lists(st.none() | st.binary(max_size=4) | st.text(max_size=4).map(str.encode), max_size=12)


def is_utf8(value: bytes | None) -> bool:
    """Decode a value by Python's own codec."""
    try:
        (value or b"").decode()
    except UnicodeDecodeError:
        return False
    return True


@given(VALUES, st.integers(0, 12), st.integers(0, 12))
def test_a_slice_of_a_column_is_refused_where_a_text_in_it_is_no_utf8(
    values: list[bytes | None], first: int, length: int
) -> None:
    column = pa.array(values, pa.binary())
    # As Spark hands them over: bytes under the type of a text, which nobody has looked at.
    texts = pa.StringArray.from_buffers(
        len(column), column.buffers()[1], column.buffers()[2], column.buffers()[0]
    )
    batch = pa.record_batch([texts], ["text"]).slice(first, length)

    if all(map(is_utf8, values[first : first + length])):
        check_texts(batch)
    else:
        with pytest.raises(pa.ArrowInvalid):
            check_texts(batch)
