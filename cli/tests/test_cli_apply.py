"""`daggers apply`: what it says it did, whatever the dagger was; and what it says to an older gateway."""

import asyncio
import io
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from daggers.v1 import events_pb2, gateway_pb2, spec_pb2

from chassis.endpoint import Endpoint
from cli.__main__ import run
from cli.commands.planned_edit import Edit, apply_planned
from cli.framework.extension import load_extension
from cli.framework.gateway import Gateway
from cli.framework.session import Session
from cli.output.printer import Format, Printer
from cli.settings import CommandSettings
from daggerclient.daggerfile.parse import read
from eventlog import Draft, Record
from eventlog.memory import MemoryLog
from eventlog.testing import START

NAME = "orders_by_city"


@pytest.fixture
def filled(serve: Any, shell: Any) -> Any:
    """A shell whose gateway has the catalogue and no dagger."""
    shell.fill()
    return shell


def test_apply_says_what_it_did(filled: Any, dagger_file: str) -> None:
    file, other = filled.file("a.yaml", dagger_file), filled.file("b.yaml", f"{dagger_file}emit: early\n")
    said = [filled("apply", "-f", each) for each in (file, file, other)]
    filled("stop", NAME)
    said.append(filled("apply", "-f", other))
    code, out, _ = filled("apply", "-f", other, "-o", "json")

    assert [(done[0], done[1]) for done in said] == [
        (0, f"{NAME} {action}\n") for action in ("created", "unchanged", "updated", "started")
    ]
    assert (code, json.loads(out)["action"], json.loads(out)["name"]) == (0, "unchanged", NAME)


def test_of_two_daggers_of_a_file_none_is_created_when_one_is_refused(filled: Any, dagger_file: str) -> None:
    right = dagger_file.replace(NAME, "first")
    wrong = dagger_file.replace(NAME, "second").replace("SELECT city", "SELECT nope")
    code, _, err = filled("apply", "-f", filled.file("two.yaml", f"{right}---\n{wrong}"))
    left = filled("list", "-o", "json")[1]

    assert (code, "UNKNOWN_COLUMN" in err, "SQL line 1, column 8" in err) == (1, True, True)
    assert {"first", "second"}.isdisjoint(each["name"] for each in json.loads(left))


@pytest.fixture
def old_gateway() -> Iterator[str]:
    """A gateway that knows no call at all."""
    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None).wait()


def test_a_gateway_that_is_too_old_is_told_from_a_refusal(
    old_gateway: str, tmp_path: Any, dagger_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "d.yaml").write_text(dagger_file)

    code = run(["apply", "-f", str(tmp_path / "d.yaml"), "--gateway", old_gateway, "-o", "json"])
    error = json.loads(capsys.readouterr().out)["error"]

    assert (code, error["reason"]) == (1, "UNIMPLEMENTED")
    assert error["message"] == (
        f"{NAME}: the gateway at {old_gateway} does not know this call: it is older than its client,"
        " upgrade it"
    )


def test_a_file_is_named_by_its_place_or_by_its_flag_and_not_by_two_names(
    filled: Any, dagger_file: str
) -> None:
    file = filled.file("a.yaml", dagger_file)
    words = [("validate", file), ("validate", "-f", file), ("apply", file), ("apply", file, "-f", file)]

    assert [filled(*word)[0] for word in words] == [0, 0, 0, 0]
    for verb in ("apply", "validate"):
        twice, _, said = filled(verb, file, "-f", "b.yaml")
        none, _, missing = filled(verb)

        assert (twice, none) == (2, 2)
        assert ("name one of them" in said, "FILE is missing" in missing) == (True, True)


def test_a_plan_says_what_apply_would_do_and_with_which_exit_code(filled: Any, dagger_file: str) -> None:
    first = dagger_file.replace(NAME, "planned")
    file = filled.file("a.yaml", first)
    other = filled.file("b.yaml", first.replace("COUNT(1) AS orders", "SUM(price) AS orders"))
    detailed = [filled("plan", file, "--detailed-exitcode")[0]]
    filled("apply", file)
    detailed += [filled("plan", each, "--detailed-exitcode")[0] for each in (file, other)]
    wrong = filled("plan", filled.file("c.yaml", first.replace("city", "nope")), "--detailed-exitcode")[0]
    missing = filled("plan", "--detailed-exitcode")[0]
    code, out, _ = filled("plan", other)
    document = json.loads(filled("plan", other, "-o", "json")[1])

    assert (detailed, wrong, missing, code) == ([2, 0, 2], 1, 1, 0)
    assert out.splitlines()[0].startswith("planned is revised: ")
    assert "+SELECT city AS tag_city, SUM(price) AS orders," in out
    assert "column orders: bigint -> double" in out
    assert (document["action"], document["version"], document["losses"]) == ("updated", 1, [])
    assert [each["field"] for each in document["changes"]] == ["sql"]


def test_an_edit_is_said_on_stderr_before_it_is_made(filled: Any, dagger_file: str) -> None:
    first = dagger_file.replace(NAME, "told")
    filled("apply", filled.file("a.yaml", first))
    code, out, err = filled("apply", filled.file("b.yaml", f"{first}trigger: 5s\n"))

    assert (code, out) == (0, "told updated\n")
    assert "trigger: 1s -> 5s" in err


PASSING = "SELECT city AS tag_city, price FROM `data_stream`"


@pytest.fixture
def running(serve: Any, shell: Any, dagger_file: str, shop: str) -> Any:
    """A shell whose gateway has a dagger that runs, and has windows open; and a file of one that has none."""
    log, facts = MemoryLog(), MemoryLog()
    asking = type(shell)(
        f"127.0.0.1:{serve(Endpoint('127.0.0.1:0'), lambda: log)}", shell.folder, shell.capture
    )
    asking.fill()
    assert asking("apply", asking.file("a.yaml", dagger_file))[0] == 0

    async def recorded() -> list[Record]:
        return [record async for record in log.replay()]

    records = asyncio.run(recorded())
    drafts = [
        Draft(record.id, record.source, record.subject, record.time, record.message)
        for record in records
        if record.message
    ]
    epoch = len(drafts)
    fact = events_pb2.FactMeta(name=NAME, epoch=epoch, generation=epoch + 1)
    drafts += [
        Draft(f"fact-{number}", "/test", NAME, START, message)
        for number, message in enumerate(
            (
                events_pb2.SchedulerStarted(scheduler_id="s", host="h"),
                events_pb2.LaunchIntended(meta=events_pb2.FactMeta(name=NAME, epoch=epoch), version=1),
                events_pb2.Launched(meta=fact, driver=events_pb2.DriverHandle(host="h", pid=7)),
                events_pb2.Running(meta=fact),
            )
        )
    ]
    for draft in drafts:
        facts.place(draft.headers(), draft.message.SerializeToString(deterministic=True))
    address = f"127.0.0.1:{serve(Endpoint('127.0.0.1:0'), lambda: facts)}"
    head, _, tail = dagger_file.partition("sql: |")
    asking.file("passing.yaml", f"{head}sql: {PASSING}\nsinks:{tail.partition('sinks:')[2]}")
    return type(shell)(address, shell.folder, shell.capture)


def version(shell: Any) -> int:
    return int(json.loads(shell("get", NAME, "-o", "json")[1])["version"])


def test_without_a_terminal_an_edit_that_loses_windows_is_refused_unless_that_is_accepted(
    running: Any,
) -> None:
    file = running.folder / "passing.yaml"
    planned = json.loads(running("plan", file, "-o", "json")[1])
    code, out, _ = running("apply", file, "-o", "json")
    error = json.loads(out)["error"]
    said = running("apply", file, "--yes")
    before = version(running)
    accepted = running("apply", file, "--accept-loss")

    assert (planned["effect"], len(planned["losses"])) == ("continues_behind", 1)
    assert (code, error["reason"], error["plan"]["losses"]) == (1, "PLAN_LOSES", planned["losses"])
    assert (said[0], "--accept-loss" in said[2], before) == (1, True, 1)
    assert (accepted[0], accepted[1], version(running)) == (0, f"{NAME} updated\n", 2)


def test_a_rollback_is_planned_as_any_other_edit(running: Any, dagger_file: str) -> None:
    for file in (running.folder / "passing.yaml", running.file("a.yaml", dagger_file)):
        assert running("apply", file, "--accept-loss")[0] == 0
    refused, before = running("rollback", NAME, "--to", 2), version(running)
    accepted = running("rollback", NAME, "--to", 2, "--accept-loss")

    assert (refused[0], "--accept-loss" in refused[2], before) == (1, True, 3)
    assert "goes on without its state" in accepted[2]
    assert "+++ sql, version 2" in accepted[2]
    assert (accepted[0], accepted[1], version(running)) == (0, f"{NAME} updated\n", 4)


def test_an_edit_that_recomputes_is_made_without_a_question(running: Any, dagger_file: str) -> None:
    file = running.file("b.yaml", dagger_file.replace("'10' SECOND", "'20' SECOND"))
    code, out, err = running("apply", "-f", file)

    assert (code, out) == (0, f"{NAME} updated\n")
    assert "open windows are recomputed" in err


def test_on_a_terminal_an_edit_that_loses_windows_is_asked_about(
    running: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, said = running.folder / "passing.yaml", Terminal()
    monkeypatch.setattr(sys, "stderr", said)
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    declined, before = running("apply", file)[0], version(running)
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    agreed = running("apply", file)[0]

    assert (declined, before, agreed, version(running)) == (1, 1, 0, 2)
    assert "  lost: " in said.getvalue()
    assert "nothing was changed" in said.getvalue()


class Terminal(io.StringIO):
    """What somebody types, or reads."""

    def isatty(self) -> bool:
        """It is one."""
        return True


class Overtaken(Gateway):
    """Somebody else edits each dagger once, between its plan and what is done."""

    overtaken = False

    def plan(self, name: str, spec: spec_pb2.DaggerSpec) -> gateway_pb2.PlanDaggerResponse:
        """What was so before the other edit."""
        planned = super().plan(name, spec)
        if not self.overtaken:
            self.overtaken = True
            other = spec_pb2.DaggerSpec()
            other.CopyFrom(spec)
            other.driver_memory_mib = 900
            self.apply(name, other)
        return planned


def test_what_others_changed_since_the_plan_is_planned_anew(
    filled: Any, dagger_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (file,), _ = read(dagger_file.replace(NAME, "overtaken"), "a.yaml")
    session = Session(CommandSettings.read({}), load_extension, None, filled.address, Printer(Format.TEXT))
    with Overtaken(filled.address) as gateway:
        done = apply_planned(session, gateway, Edit(file.name, file.spec), message="", loses=False, yes=False)

    assert (done.dagger.version, done.dagger.spec.driver_memory_mib) == (2, 0)
    assert "driver_memory_mib: 900 -> (none)" in capsys.readouterr().err


def test_a_restart_from_the_start_says_first_what_is_missed(filled: Any, dagger_file: str) -> None:
    filled("apply", "-f", filled.file("a.yaml", dagger_file))
    code, out, err = filled("restart", NAME, "--from-start")
    events = filled("events", NAME)[1]

    assert (code, out) == (0, f"{NAME} is asked to restart\n")
    assert err.startswith(f"{NAME} begins anew: what came to orders since it was last read is in no row")
    assert "asked to restart from its start" in events
