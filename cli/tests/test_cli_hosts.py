"""Hosts of drivers by the command, against a gateway."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from daggers.v1 import events_pb2, gateway_pb2
from google.protobuf.message import Message

from chassis.endpoint import Endpoint
from cli.__main__ import run
from cli.commands.hosts import describe_consequences, describe_drain, describe_move
from eventlog import Draft
from eventlog.memory import MemoryLog

META = events_pb2.RequestMeta(actor="ada")
HISTORY: tuple[Message, ...] = (
    events_pb2.SchedulerStarted(scheduler_id="s", host="here"),
    events_pb2.DaggerRequested(meta=META, name="orders", spec={"cluster": "c", "team": "pricing"}),
    events_pb2.LaunchIntended(meta=events_pb2.FactMeta(epoch=0, name="orders"), version=1),
    events_pb2.HostRegistered(
        scheduler_id="t",
        host="afar",
        cores=4,
        memory_mib=8192,
        version="0.3.0",
        labels={"zone": "b"},
        lacks=["users", "file /run/token"],
    ),
    events_pb2.Launched(
        meta=events_pb2.FactMeta(epoch=0, name="orders", generation=2),
        driver=events_pb2.DriverHandle(host="afar", pid=7),
    ),
)


@pytest.fixture
def there(serve: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Any:
    """Run a command against a gateway that knows a host and a dagger on it."""
    log = MemoryLog()

    async def fill() -> None:
        for number, message in enumerate(HISTORY):
            await log.append(Draft(f"r{number}", "/t", "s", datetime.now(UTC), message))

    asyncio.run(fill())
    address = f"127.0.0.1:{serve(Endpoint('127.0.0.1:0'), lambda: log)}"

    def shell(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run([*words, "--gateway", address])
        said = capsys.readouterr()
        return code, said.out, said.err

    return shell


def test_a_host_is_listed_shown_and_confirmed_to_be_gone(there: Any) -> None:
    listed = json.loads(there("host", "list", "-o", "json")[1])
    shown = there("host", "show", "afar")
    tried = there("host", "confirm-gone", "afar", "--dry-run")
    before = json.loads(there("host", "show", "afar", "-o", "json")[1])
    gone = there("host", "confirm-gone", "afar", "--yes", "--message", "its disk is dead")
    after = json.loads(there("host", "show", "afar", "-o", "json")[1])
    events = there("events")[1]

    assert [(host["name"], host["cores"]) for host in listed] == [("afar", 4)]
    assert listed[0]["labels"] == {"zone": "b"}
    assert listed[0]["lacks"] == ["users", "file /run/token"]
    lines = shown[1].splitlines()
    assert lines[2:4] == ["labels: zone=b", "lacks: users, file /run/token"]
    assert [line.split()[0] for line in (*lines[:2], *lines[4:])] == ["NAME", "afar", "DAGGER", "orders"]
    assert (tried[0], tried[1]) == (0, "host afar can be confirmed to be gone\n")
    assert "without their checkpoints, which are on that host's disk: orders." in tried[2]
    assert before["gone"] is None
    assert gone[:2] == (0, "host afar is confirmed to be gone\n")
    assert (after["gone"]["message"], after["gone"]["cause"]) == ("its disk is dead", "person")
    assert "host afar is there, epoch 3: 4 cores, 8192 MiB for drivers, version 0.3.0" in events
    assert "host afar confirmed to be gone by" in events


def test_a_host_is_cordoned_drained_and_uncordoned(there: Any) -> None:
    cordoned = there("host", "cordon", "afar", "--message", "new disk")
    listed = there("host", "list")[1].splitlines()[1]
    tried = there("host", "drain", "afar", "--dry-run")
    drained = there("host", "drain", "afar", "--yes", "-o", "json")
    drain_text = there("host", "show", "afar")[1]
    waited = there("host", "drain", "afar", "--yes", "--wait", "--timeout", "30")
    ended = there("host", "uncordon", "afar", "-o", "json")
    events = there("events")[1]

    assert cordoned[:2] == (0, "host afar is cordoned: nothing new is placed there\n")
    assert "stands by, cordoned" in listed
    assert tried[:2] == (0, "host afar can be drained\n")
    assert "orders stays: no other host is heard" in tried[2]
    assert json.loads(drained[1])["cordon"]["drains"] is True
    assert json.loads(drained[1])["on_it"][0]["stays"]["reason"] == "NO_OTHER_HOST"
    assert "drained since" in drain_text
    assert (waited[0], "host afar is not empty: orders" in waited[2]) == (1, True)
    assert json.loads(ended[1])["cordon"] is None
    for words in ("host afar cordoned by", "drain of host afar requested by", "host afar uncordoned by"):
        assert words in events


def test_a_move_is_told_by_how_far_it_is() -> None:
    move = gateway_pb2.HostMove(dagger="d", generation=7)
    sentences = [describe_move(move)]
    move.last_commit.FromSeconds(100)
    sentences.append(describe_move(move))
    move.to_host = "b"
    sentences.append(describe_move(move))
    move.first_commit.FromSeconds(112)
    sentences.append(describe_move(move))

    assert sentences == [
        "d finishes its batch",
        "d has stopped",
        "d starts on b",
        "d runs on b: 12.0 s between two batches",
    ]


def test_a_drain_is_told_in_its_order_with_what_stays() -> None:
    error = events_pb2.DaggerError(reason="MAX_MEMORY", detail="no room")
    daggers = [
        gateway_pb2.HostedDagger(name="a", critical=True),
        gateway_pb2.HostedDagger(name="b", stays=error),
        gateway_pb2.HostedDagger(name="c"),
    ]

    assert list(describe_drain("h", daggers)) == [
        "moved one after another: c, a",
        "b stays: no room (MAX_MEMORY)",
    ]


def test_a_host_that_nobody_knows_is_refused_with_the_one_that_may_be_meant(there: Any) -> None:
    code, _, words = there("host", "show", "affar")

    assert (code, "did you mean afar?" in words) == (1, True)


def test_what_follows_is_said_of_each_dagger_by_its_checkpoint() -> None:
    daggers = [
        gateway_pb2.HostedDagger(name="a", keeps_state=True),
        gateway_pb2.HostedDagger(name="b"),
        gateway_pb2.HostedDagger(name="c"),
    ]
    kept, anew = describe_consequences("h", daggers)

    assert "from the checkpoints that all hosts reach: a;" in kept
    assert "on that host's disk: b, c." in anew
    assert list(describe_consequences("h", [])) == ["no dagger has a driver on host h: nothing is launched"]
