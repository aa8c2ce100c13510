"""`daggers alerts test`, by a host behind a gateway."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cli.tests import cli_sample as sampling
from daggers.v1 import gateway_pb2, host_pb2, rules_pb2

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
RULES = """\
alerts:
  - {name: busy, when: orders > 8, key: [tag_city]}
  - {name: never, when: orders > 1000}
"""


def observe(state: rules_pb2.RuleState.ValueType, city: str, minute: int) -> rules_pb2.RuleObserved:
    one = rules_pb2.RuleObserved(rule="busy", key={"tag_city": city}, state=state, summary=f"{city} is busy")
    one.window.FromDatetime(NOON + timedelta(minutes=minute))
    one.since.CopyFrom(one.window)
    return one


class FiringHost(sampling.Host):
    """A host whose preview has two cities that are busy, one of them to the end."""

    async def PreviewHostDagger(  # noqa: N802 - gRPC's name
        self, request: host_pb2.PreviewHostDaggerRequest, context: Any
    ) -> AsyncIterator[gateway_pb2.PreviewDaggerResponse]:
        done = gateway_pb2.PreviewDone(reason=gateway_pb2.PreviewDone.REASON_END_OF_RANGE, records=1_234)
        done.rules.until.FromDatetime(NOON + timedelta(minutes=30))
        done.rules.rules.add(
            rule="busy",
            observed=[
                observe(rules_pb2.RULE_STATE_FIRED, "oslo", 1),
                observe(rules_pb2.RULE_STATE_FIRED, "rome", 10),
                observe(rules_pb2.RULE_STATE_RESOLVED, "oslo", 5),
            ],
        )
        never = done.rules.rules.add(rule="never", nearest=12, limit=1_000)
        never.nearest_window.FromDatetime(NOON)
        yield gateway_pb2.PreviewDaggerResponse(done=done)


@pytest.fixture(scope="module")
def host() -> Any:
    """Address of a host, in a thread of its own."""
    yield from sampling.served(FiringHost())


gateway = sampling.gateway


def test_each_rule_says_how_often_it_would_have_fired(shell: Any, dagger_file: str) -> None:
    shell.fill()
    code, out, err = shell("alerts", "test", shell.file("d.yaml", dagger_file + RULES))
    lines = [line.split(maxsplit=4) for line in out.splitlines()]

    assert code == 0, err
    assert out.splitlines()[:2] == [
        "busy: would have fired 2 times, 24 min in all",
        "never: never fired: nearest 12 of 1,000, at 2026-01-01T12:00:00Z",
    ]
    assert lines[2:] == [
        ["RULE", "KEY", "SINCE", "UNTIL", "WHAT"],
        ["busy", "tag_city=oslo", "2026-01-01T12:01:00Z", "2026-01-01T12:05:00Z", "oslo is busy"],
        ["busy", "tag_city=rome", "2026-01-01T12:10:00Z", "open", "rome is busy"],
    ]
    assert "1,234 records were read; windows up to 2026-01-01T12:30:00Z were judged" in err


def test_json_is_one_document(shell: Any, dagger_file: str) -> None:
    shell.fill()
    code, out, _ = shell("alerts", "test", shell.file("d.yaml", dagger_file + RULES), "-o", "json")
    busy, never = json.loads(out)["rules"]

    assert code == 0
    assert [(one["key"], one["until"], one["seconds"]) for one in busy["fired"]] == [
        ({"tag_city": "oslo"}, "2026-01-01T12:05:00Z", 240), ({"tag_city": "rome"}, None, 1200),
    ]  # fmt: skip
    assert (never["fired"], never["nearest"], never["limit"]) == ([], 12, 1_000)


def test_a_file_without_rules_is_refused(shell: Any, dagger_file: str) -> None:
    code, _, err = shell("alerts", "test", shell.file("d.yaml", dagger_file))

    assert (code, "it has no alerts" in err) == (2, True)
