"""What a shadow says of itself is read back as it was said."""

from __future__ import annotations

import json

import pytest

from daggerspec.shadow import ShadowState


def test_a_state_is_read_back_and_what_later_versions_add_is_ignored() -> None:
    state = ShadowState(
        caught_up=True, written=3, closed=2, next_end=4, holds=5, final=True, has_taken_over=True
    )
    later = json.dumps({**json.loads(state.as_json()), "more": 1})

    assert [ShadowState.from_json(state.as_json()), ShadowState.from_json(later)] == [state, state]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"written": null}', '{"written": 1, "closed": "x"}'])
def test_what_is_no_state_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no state of a shadow"):
        ShadowState.from_json(text)
