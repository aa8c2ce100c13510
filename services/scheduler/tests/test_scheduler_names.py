"""Names without number in heartbeats: of daggers that were, and of none."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from daggers.v1 import telemetry_pb2

from fleet import Fleet
from fleet.fold.quotas import Room
from scheduler.drivers.process_table import Drivers
from scheduler.drivers.process_watcher import ProcessWatcher
from scheduler.leader.host_watch import HostWatch
from scheduler.leader.observer import Observer
from scheduler.leader.peers import Peers

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("names", [50_000, pytest.param(1_000_000, marks=pytest.mark.long)])
def test_heartbeats_of_a_million_names_are_not_remembered(tmp_path: Path, names: int) -> None:
    make: Any = Observer
    observer = make(
        Fleet(),
        Drivers(tmp_path, host="a", python=sys.executable),
        ProcessWatcher(lambda _: None),
        Room,
        lambda: NOW,
        dict,  # nobody asks what is taken
        cutover=False,
        overload=lambda: "",
        peers=Peers(Fleet(), HostWatch(lambda: NOW), host="a", shared=True),
        shared=True,
        sharing=SimpleNamespace(note_heartbeat=lambda _: None),
    )
    most = 0
    for number in range(names):
        heartbeat = telemetry_pb2.Heartbeat(dagger=f"name-{number}", generation=number)
        assert observer.note_heartbeat(heartbeat)
        most = max(most, observer.remembered)

    assert most <= 1_002
