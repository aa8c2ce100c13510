"""Helpers of test_sink_elasticsearch.py and of its neighbours."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from daggers.v1 import spec_pb2
from services.runtime.tests.sink_contract import LAYOUT, SCHEMA

from runtime.sinks import BatchRef, Part, Target


def target(resolved: spec_pb2.ResolvedSink, part: tuple[int, int] = (1, 0), **said: Any) -> Target:
    """`part`: generation and number of the batch."""
    generation, number = part
    made = Target("d", resolved.SerializeToString(), LAYOUT, SCHEMA, b"", updates=False)
    return replace(made, part=Part(BatchRef("c", number, generation), 0), **said)
