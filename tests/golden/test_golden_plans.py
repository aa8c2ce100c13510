"""The compiler emits what it emitted: a change is a decision, and another fingerprint makes a new state."""

import json

import pytest
from tests.golden.plans import PLANS, plans

KNOWN = json.loads(PLANS.read_text())
NOW = plans()


@pytest.mark.parametrize("case", sorted(KNOWN.keys() | NOW.keys()))
def test_a_query_compiles_to_the_same_plan(case: str) -> None:
    assert NOW.get(case) == KNOWN.get(case)
