"""How far event time was read is kept for launches to come only of what is committed."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from daggers.v1 import spec_pb2

from runtime.launch import batch
from runtime.launch.batch import Batches
from runtime.launch.report import Report
from runtime.source.status import ObservedTimes, ReaderRegistry
from runtime.state import checkpoint
from runtime.state.checkpoint import Checkpoint
from runtime.state.store.local import LocalPlace


class Query:
    """A query over one partition: each batch reads on by one second of event time."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = LocalPlace(folder / "checkpoints" / "plan")
        self._registry = ReaderRegistry(folder / "run")
        self._batch = 0
        for name in ("choose_rows", "drop_incomplete"):
            monkeypatch.setattr(batch, name, lambda rows, *_, **__: rows)
        running = SimpleNamespace(query_id="query", late_until=None, closes_until=None)
        monkeypatch.setattr(batch, "begin_batch", lambda _: running)
        monkeypatch.setattr(batch, "end_batch", lambda *_: self._read())
        monkeypatch.setattr(batch, "_SAVE_PERIOD_S", -1.0)
        launch: Any = SimpleNamespace(
            spec=spec_pb2.JobSpec(dagger="orders", generation=1),
            session=None,
            run_dir=folder / "run",
            heartbeat=SimpleNamespace(update=lambda _: None),
            lease_in_workers=None,
            wake=threading.Event(),
        )
        nothing: Any = SimpleNamespace(
            refresh=lambda _: None,
            is_passed=lambda _: False,
            is_reached=lambda: False,
            record_written=lambda _: None,
            write=lambda *_: (report, {}),
            select_again=lambda *_: [],
            begin_batch=lambda rows, _: rows,
            select=list,
            end_batch=lambda *_: None,
        )
        report = cast(
            Report,
            SimpleNamespace(
                written=Counter(), refused={}, invalid={}, skipped=Counter(), printed={}, rule_rows=[]
            ),
        )
        self.batches = Batches(
            launch,
            [],
            chosen=Checkpoint(self.path, None, ()),
            source=cast(Any, SimpleNamespace(registry=self._registry, windows=None)),
            references=nothing,
            boundary=nothing,
            rules=nothing,
        )
        self.batches._writing = nothing

    def _read(self) -> None:
        self._registry.record(
            {
                "s.0": ObservedTimes(partitions={"orders/0": self._batch * 1000}),
                "other.0": ObservedTimes(partitions={"orders/0": 7_000}),
            }
        )

    def run(self, batch_id: int, *, commits: bool = True) -> dict[str, int]:
        """What is kept once a batch has run, before it is committed or not."""
        self._batch = batch_id
        self.batches(cast(Any, None), batch_id)
        kept = self.kept()
        if commits:
            (self.path / "commits" / str(batch_id)).write_text("v1")
        return kept

    def kept(self) -> dict[str, int]:
        """Of the one stream; another one of the same topic has its event time in another field."""
        return checkpoint.read_until(self.path).get("s", {})


def test_a_batch_is_kept_when_the_next_one_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    query = Query(tmp_path, monkeypatch)

    assert [query.run(1), query.run(2), query.run(3)] == [
        {},
        {"orders/0": 1_000_000},
        {"orders/0": 2_000_000},
    ]


@pytest.mark.parametrize(("commits", "kept"), [(True, 2_000_000), (False, 1_000_000)])
def test_a_last_batch_is_kept_only_if_it_was_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commits: bool, kept: int
) -> None:
    query = Query(tmp_path, monkeypatch)
    query.run(1)
    query.run(2, commits=commits)
    query.batches.save_last_event_times()

    assert query.kept() == {"orders/0": kept}
