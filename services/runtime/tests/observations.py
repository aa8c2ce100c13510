"""Read what alert rules of a dagger have observed, as its driver sent it."""

from __future__ import annotations

from datetime import UTC

from daggers.v1 import rules_pb2
from services.runtime.tests.sink_contract import records

from daggerspec.topics import OBSERVATIONS

Turn = tuple[str, str, str, str]
"""Rule, state, city, and minute and second of the window."""


def read_observations(kafka: str, dagger: str) -> dict[str, tuple[Turn, rules_pb2.RuleObserved]]:
    """Read what a dagger has observed, by the ids of the records."""
    found = {}
    for record in records(kafka, OBSERVATIONS):
        one = rules_pb2.RuleObserved.FromString(record.value() or b"")
        if one.dagger == dagger:
            headers = {name: value.decode() for name, value in record.headers() or []}
            end = one.window.ToDatetime(tzinfo=UTC)
            state = rules_pb2.RuleState.Name(one.state).removeprefix("RULE_STATE_")
            turn = one.rule, state, one.key["tag_city_id"], f"{end:%M:%S}"
            found[headers["ce_id"]] = turn, one
    return found
