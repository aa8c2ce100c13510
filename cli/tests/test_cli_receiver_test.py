"""`daggers alerts receiver test` and `alerts explain`: what is refused before anybody is asked."""

from __future__ import annotations

from typing import Any


def test_a_team_that_is_not_there_is_said(shell: Any) -> None:
    code, _, error = shell("alerts", "receiver", "test", "pricing/slack")

    assert (code, "team pricing is not registered" in error) == (1, True)


def test_a_condition_that_is_none_is_named_with_the_one_that_was_meant(shell: Any) -> None:
    code, _, error = shell("alerts", "explain", "orders", "late-row")

    assert (code, "did you mean late_rows?" in error) == (2, True)
