"""Helpers of test_sink_tests.py and of its neighbours."""

from __future__ import annotations

import json
from typing import Any

from tests.integration.cli import Outcome


def steps(outcome: Outcome) -> list[tuple[str, str, str]]:
    """Sink, step, and the reason where it failed."""
    told: list[dict[str, Any]] = [json.loads(line) for line in outcome.out.splitlines()]
    return [(each["sink"], each["what"], each["reason"]) for each in told]
