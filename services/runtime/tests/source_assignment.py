"""Helpers of test_source_assignment.py and of its neighbours."""

from __future__ import annotations

from pathlib import Path

from runtime.source.offsets import Offsets, Partition
from runtime.source.plan import ReaderPlan

HERE, THERE = Partition("a", 0), Partition("b", 0)


def reader_plan(run_dir: Path) -> ReaderPlan:
    """A reader of a and b from offset 5 on."""
    start = Offsets({"a": "id-a", "b": "id-b"}, {HERE: 5, THERE: 5}, reader="1/s.0")
    return ReaderPlan(
        key="s.0", dagger="d", generation=1, group="g", topics=("a", "b"), message="", time_field="",
        paths=(), descriptors=b"", kafka={}, platform={}, start=start, delay=0, idle_timeout=0,
        tolerance=0, windows=None, late_for=(), run_dir=str(run_dir), max_rows=1,
    )  # fmt: skip
