"""`daggers quarantine` against a gateway whose topic has records, and a log in which replays finish."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from daggers.v1 import events_pb2, telemetry_pb2
from tests.contracts.quarantine import set_aside

from api_gateway.quarantine.memory import MemoryQuarantine
from chassis.endpoint import Endpoint
from cli.__main__ import run
from eventlog import Draft
from eventlog.memory import MemoryLog
from eventlog.testing import START
from fleet.fold.quotas import Full

NAME = "orders_by_city"
NOON = 1_700_000_000_000
FULL = Full("MAX_MEMORY", "it needs 2,304 MiB")


class Finishing(MemoryLog):
    """A log that a scheduler leads: each replay finishes at once, MALFORMED records late. One that computes
    again waits for room first, for two seconds.
    """

    def __init__(self) -> None:
        super().__init__()
        self._leads = False
        self._waiting: list[asyncio.Task[None]] = []

    async def append(self, draft: Draft) -> None:
        if not self._leads:
            self._leads = True
            await self._say("leader", events_pb2.SchedulerStarted(scheduler_id="s", host="h"))
        await super().append(draft)
        asked = draft.message
        if isinstance(asked, events_pb2.QuarantineReplayRequested) and asked.recompute:
            waits = events_pb2.ReplayWaits(replay_id=asked.replay_id, error=FULL.error)
            waits.meta.name = asked.name
            await self._say(f"waits/{asked.replay_id}", waits)
            self._waiting.append(asyncio.create_task(self._finish(asked, after_s=2)))
        elif isinstance(asked, events_pb2.QuarantineReplayRequested):
            await self._finish(asked)

    async def _finish(self, asked: events_pb2.QuarantineReplayRequested, after_s: float = 0) -> None:
        await asyncio.sleep(after_s)  # as long as there is no room
        outcome = "LATE" if "MALFORMED" in asked.selection.reasons else "REPLAYED"
        finished = events_pb2.ReplayFinished(replay_id=asked.replay_id, outcomes={outcome: asked.records})
        finished.meta.name = asked.name
        await self._say(f"finished/{asked.replay_id}", finished)

    async def _say(self, id_: str, message: Any) -> None:
        await super().append(Draft(id_, "/scheduler", NAME, START, message))


class Faltering(MemoryQuarantine):
    """A topic that fails to say what it holds as often as it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.fails: list[bool] = []
        """Of the next answers, whether they fail."""

    @asynccontextmanager
    async def open_reader(self) -> AsyncGenerator[Any, None]:
        async with super().open_reader() as reader:
            holds: Any = reader

            async def bounds() -> Any:
                if self.fails and self.fails.pop(0):
                    raise OSError("no answer")
                return await said()

            said, holds.bounds = holds.bounds, bounds
            yield holds


@pytest.fixture(scope="module")
def topic() -> Faltering:
    """Three records: two rows that a sink refused, and one that nobody could decode."""
    made = Faltering()
    for number, fields in enumerate(
        (
            {"stage": "sink", "sink": "crm", "reason": "CONSTRAINT", "decoded_prefix": '{"fare": -1}'},
            {"stage": "sink", "sink": "crm", "reason": "CONSTRAINT", "decoded_prefix": '{"fare": -2}'},
            {"stage": "decode", "reason": "MALFORMED", "message": "shop.v1.Order", "value": b"\xff"},
        )
    ):
        record = set_aside(NAME, number, id=f"{number}{'a' * 31}", topic="orders", **fields)
        made.place(0, *record, time_ms=NOON + number)
    return made


@pytest.fixture(scope="module")
def gateway(topic: MemoryQuarantine, serve: Callable[..., int]) -> str:
    """Address of a gateway over that topic."""
    return f"127.0.0.1:{serve(Endpoint('127.0.0.1:0'), log=Finishing, quarantine=lambda: topic)}"


@pytest.fixture
def filled(shell: Any, dagger_file: str) -> Any:
    """A shell whose gateway knows the dagger, with a sink `crm`."""
    if shell("get", NAME)[0]:
        shell.fill()
        named = dagger_file.replace("- influx:", "- name: crm\n    influx:")
        assert shell("apply", shell.file("dagger.yaml", named))[0] == 0
    return shell


def document(shell: Any, *words: object) -> Any:
    _, out, _ = shell(*words, "-o", "json")
    return json.loads(out)


def test_records_are_summed_up_listed_and_shown(filled: Any) -> None:
    groups = document(filled, "quarantine", "summary")
    listed = document(filled, "quarantine", "list", NAME, "--sink", "crm", "--state", "all")
    shown = document(filled, "quarantine", "show", NAME, "2aaa")
    _, text, _ = filled("quarantine", "show", NAME, "0aaa")

    assert [(g["stage"], g["reason"], g["sink"], g["records"]) for g in groups] == [
        ("decode", "MALFORMED", "", 1),
        ("sink", "CONSTRAINT", "crm", 2),
    ]
    assert [each["offset"] for each in listed] == [1, 0]
    assert (shown["state"], shown["decoded"], shown["undecodable"]) == (
        "OPEN",
        None,
        "it is no shop.v1.Order, as that is registered now",
    )
    assert 'holds      {"fare": -1}' in text
    assert "why        refused by sink crm, CONSTRAINT: " in text


def test_where_a_record_comes_from_is_a_place_of_a_topic_or_a_sink_that_refused_it(filled: Any) -> None:
    _, text, _ = filled("quarantine", "list", NAME, "--state", "all")
    told = {line.split("  ")[0]: line for line in text.splitlines()}

    assert "orders/0@2 " in told["2aaaaaaaaaaa"]
    assert "row for crm (0@1) " in told["1aaaaaaaaaaa"]


def test_a_dry_run_says_what_would_become_of_records_and_asks_for_nothing(filled: Any) -> None:
    code, out, err = filled("quarantine", "replay", NAME, "--dry-run")
    _, none, silent = filled("quarantine", "replay", NAME, "--reason", "NONE_HAS_THIS", "--dry-run")
    said = document(filled, "quarantine", "replay", NAME, "--reason", "MALFORMED", "--dry-run")

    assert code == 0
    assert "replayed" in out
    assert "not foreseen" in err
    assert ("nothing that is chosen is open" in none + silent, "not foreseen" in silent) == (True, False)
    assert (said["records"], said["replay_id"], said["sequence"]) == (1, "", 0)


def test_an_edit_of_what_is_shown_sends_the_columns_that_are_another(
    filled: Any, topic: MemoryQuarantine, tmp_path: Path
) -> None:
    id_ = f"0{'a' * 31}"
    shown = document(filled, "quarantine", "show", NAME, id_)
    file = tmp_path / "edit.json"
    file.write_text(json.dumps(shown))
    words = "quarantine", "replay", NAME, "--with", file, "--dry-run"
    unchanged = filled(*words, "--id", id_)
    nobodys = filled(*words)
    file.write_text(json.dumps(shown | {"decoded": {"fare": "much", "town": 3}}))
    unknown = filled(*words, "--id", id_)
    file.write_text(json.dumps(shown | {"decoded": {"fare": 2.5}}))
    done = filled("quarantine", "replay", NAME, "--id", id_, "--with", file, "--yes", "-o", "json")
    edits = [
        telemetry_pb2.QuarantineEdited.FromString(partition.value)
        for partition in topic.partitions[0]
        if dict(partition.headers)["ce_type"].endswith(b".QuarantineEdited")
    ]

    assert [unchanged[0], nobodys[0], unknown[0], done[0]] == [2, 2, 1, 0]
    assert "says nothing other than" in unchanged[2]
    assert "say which by one --id" in nobodys[2]
    assert "has no column town; there are fare" in unknown[2]
    assert [(edit.id, edit.columns, edit.replay_id) for edit in edits] == [
        (id_, '{"fare": 2.5}', json.loads(done[1])["replay_id"])
    ]


def test_refusals_are_allowed_for_a_while(filled: Any) -> None:
    code, out, _ = filled("quarantine", "allow", NAME, "--for", "1h", "--why", "a backfill")
    said = document(filled, "quarantine", "allow", NAME, "--for", "0s")
    too_long = filled("quarantine", "allow", NAME, "--for", "2d")
    no_span = filled("quarantine", "allow", NAME, "--for", "long")

    assert (code, too_long[0], no_span[0]) == (0, 1, 2)
    assert "may refuse as many rows as they like until 2" in out
    assert said["sequence"] > 0
    assert "--for: must be at most 24 hours" in too_long[2]


def test_a_replay_that_is_waited_for_ends_with_0_when_all_were_replayed(filled: Any) -> None:
    code, out, _ = filled("quarantine", "replay", NAME, "--sink", "crm", "--yes", "--wait", "-o", "json")
    said = json.loads(out)

    assert (code, said["outcomes"], said["finished"]) == (0, {"REPLAYED": 2}, True)


def test_a_replay_that_leaves_a_record_ends_with_1_and_says_how_many(filled: Any) -> None:
    words = ("quarantine", "replay", NAME, "--reason", "MALFORMED", "--yes", "--wait")
    code, out, err = filled(*words)
    code_of_json, out_of_json, _ = filled(*words, "-o", "json")

    assert (code, code_of_json) == (1, 1)
    assert "1 late" in out + err
    assert "1 record of orders_by_city not replayed: `daggers quarantine list orders_by_city`" in err
    assert json.loads(out_of_json)["outcomes"] == {"LATE": 1}


def test_a_replay_for_which_there_is_no_room_says_what_it_waits_for(
    filled: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cli.output.progress.PLAIN_INTERVAL_S", 0)
    words = ("quarantine", "replay", NAME, "--sink", "crm", "--recompute", "--yes", "--wait")
    code_of_late, _, late = filled(*words, "--timeout", "1")
    end = time.monotonic() + 30
    while "has not finished: wait" in (said := filled(*words))[2]:
        assert time.monotonic() < end
        time.sleep(0.1)  # the one before; bounded by the deadline
    code, _, err = said

    assert (code_of_late, code) == (1, 0)
    assert "not finished in 1 s (EXTERNAL MAX_MEMORY: it needs 2,304 MiB): it goes on" in " ".join(
        late.split()
    )
    assert "2 records of orders_by_city 0 of 2: EXTERNAL MAX_MEMORY: it needs 2,304 MiB" in err


def test_a_gateway_that_does_not_answer_for_a_moment_is_waited_for(filled: Any, topic: Faltering) -> None:
    topic.fails = [False, True, True]
    code, out, _ = filled("quarantine", "replay", NAME, "--sink", "crm", "--yes", "--wait", "-o", "json")

    assert (code, json.loads(out)["outcomes"], topic.fails) == (0, {"REPLAYED": 2}, [])


def test_a_discard_hides_records_and_needs_a_reason(filled: Any, topic: MemoryQuarantine) -> None:
    late = set_aside(NAME, 9, id="9" * 32, stage="decode", reason="NO_FIELDS")
    topic.place(0, *late, time_ms=NOON + 9)
    without, _, _ = filled("quarantine", "discard", NAME, "--reason", "NO_FIELDS", "--yes")
    code, _, _ = filled(
        "quarantine", "discard", NAME, "--reason", "NO_FIELDS", "--why", "test traffic", "--yes"
    )
    opened = document(filled, "quarantine", "list", NAME, "--reason", "NO_FIELDS")
    hidden = document(filled, "quarantine", "list", NAME, "--state", "discarded")

    assert (without, code, opened) == (2, 0, [])
    assert [(each["reason"], each["outcome_detail"]) for each in hidden] == [("NO_FIELDS", "test traffic")]


@pytest.mark.parametrize(
    "words", [("--wait", "--dry-run"), ("--since", "yesterday"), ("--stage",)], ids=" ".join
)
def test_a_wrong_command_line_is_told(filled: Any, words: tuple[str, ...]) -> None:
    assert filled("quarantine", "replay", NAME, *words)[0] == 2


def test_a_wrong_stage_is_told_by_its_flag(filled: Any) -> None:
    code, _, err = filled("quarantine", "list", NAME, "--stage", "elsewhere")

    assert code == 1
    assert "--stage" in err


def test_the_command_needs_a_gateway(tmp_path: Path) -> None:
    assert run(["quarantine", "summary", "--state-dir", str(tmp_path)]) == 3


def test_an_id_is_whole_or_begins_as_the_list_shows_it(filled: Any, topic: MemoryQuarantine) -> None:
    for number in (6, 7):
        record = set_aside(NAME, number, id=f"77{number}{'b' * 29}", stage="decode", reason="NO_TIME")
        topic.place(0, *record, time_ms=NOON + number)
    listed = document(filled, "quarantine", "list", NAME, "--id", "776bbbbbbbbb")
    several = filled("quarantine", "discard", NAME, "--id", "77", "--why", "a test", "--yes")
    two = filled("quarantine", "replay", NAME, "--id", "77bb", "--yes")
    none = filled("quarantine", "replay", NAME, "--id", "ffff", "--yes")
    code, out, _ = filled("quarantine", "discard", NAME, "--id", "776b", "--why", "a test", "--yes")
    again = filled("quarantine", "discard", NAME, "--id", "776b", "--why", "a test", "--yes")
    filled("quarantine", "discard", NAME, "--id", "777b", "--why", "a test", "--yes")

    assert [each["id"] for each in listed] == [f"776{'b' * 29}"]
    assert [several[0], two[0], none[0], code, again[0]] == [1, 1, 1, 0, 0]
    assert "has no record ffff" in none[2]
    assert "1 record of orders_by_city: discarded" in out
    assert "nothing that is chosen is open" in again[1]
