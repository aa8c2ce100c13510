"""Helpers of test_job_drain.py and of its neighbours."""

from __future__ import annotations

import json

from services.runtime.tests.sink_contract import records


def orders_in(kafka: str, topic: str) -> list[str]:
    """The orders that were written, repeated ones as often as they were."""
    return [json.loads(record.value() or b"")["tag_order"] for record in records(kafka, topic)]
