"""`daggers sql functions`: what a query may call."""

from __future__ import annotations

import json
from typing import Any

from daggersql.functions import registry


def test_every_function_is_listed(shell: Any) -> None:
    code, out, _ = shell("sql", "functions", "-o", "json")

    assert code == 0
    assert {function["name"] for function in json.loads(out)} == {
        function.name for function in registry.callable_functions()
    }


def test_one_is_told_with_its_documentation_in_any_letter_case(shell: Any) -> None:
    code, out, _ = shell("sql", "functions", "s2id")

    assert code == 0
    assert out.splitlines()[0] == "S2Id(latitude, longitude, level) → STRING"
    assert "  latitude: " in out
    assert "  S2Id(" in out


def test_one_that_is_not_there_is_refused_with_the_nearest(shell: Any) -> None:
    code, out, _ = shell("sql", "functions", "S2Ids", "-o", "json")
    error = json.loads(out)["error"]

    assert (code, error["reason"]) == (1, "UNKNOWN_FUNCTION")
    assert "did you mean S2Id?" in error["message"]
