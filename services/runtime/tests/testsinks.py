"""Helpers of test_testsinks.py and of its neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from daggers.v1 import gateway_pb2, spec_pb2

from runtime import testsinks

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
OK, FAILED = gateway_pb2.SinkStep.OUTCOME_OK, gateway_pb2.SinkStep.OUTCOME_FAILED
Steps = list[tuple[str, str, str]]


def tried(*sinks: spec_pb2.ResolvedSink) -> Steps:
    """Sink, step, and the reason where it failed, of sinks that nobody says rows of."""
    job = spec_pb2.JobSpec(dagger="sink-test", sinks=sinks)
    return shown(list(testsinks.try_sinks(job, send_one=False, now=NOW)))


def shown(steps: Sequence[gateway_pb2.SinkStep]) -> Steps:
    assert all((step.outcome == FAILED) == bool(step.reason) and step.detail for step in steps), steps
    return [(step.sink, step.what, step.reason) for step in steps]
