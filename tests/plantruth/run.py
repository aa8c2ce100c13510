"""Edits of a dagger on the real stack: what its plan promised, beside what then happened.

    python -m tests.plantruth.run EDITS SEED

Records come between edits and never during one, with event times of their own, so what is open at an edit is
known. After each edit further records close all windows that were open. Prints a line for each edit.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import yaml
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from conftest import running_stack
from services.runtime.tests.sink_contract import records
from tests.integration.bookings import NOON, Bookings, booking
from tests.integration.cli import Cli, Outcome, runs
from tests.plantruth.edits import CITIES, Dagger, Event, Key, classes, edited

from runtime.state import checkpoint
from runtime.state.checkpoint import Stand
from runtime.state.store.local import LocalPlace

DEADLINE_S: Final = 240
PARTITIONS: Final = 2
STEP_S: Final = 3
ROUND_S: Final = 104
"""Event time between two edits: windows that were open are closed by it."""
DELAY_S: Final = 5
CUT_S: Final = 18
"""How much of the newest event time Kafka still has when it has lost the rest."""
NONE: Final = "no dagger has this identity"


@dataclass
class Truth:
    """One dagger that is edited again and again."""

    kafka: str
    cli: Cli
    folder: Path
    seed: int
    say: Callable[[str], object] = lambda _: None
    lies: int = 0
    dagger: Dagger = field(default_factory=Dagger)
    _events: list[list[Event]] = field(default_factory=lambda: [[] for _ in range(PARTITIONS)])
    """Of each partition: an event's place is its offset."""

    def __post_init__(self) -> None:
        self._draw = random.Random(self.seed)
        self._bookings = Bookings(self.kafka, self.cli, partitions=PARTITIONS)
        self._name, self._rows = f"truth-{uuid4().hex[:8]}", f"truth-rows-{uuid4().hex[:8]}"
        self._admin = AdminClient({"bootstrap.servers": self.kafka})
        self._admin.create_topics([NewTopic(self._rows, 1, 1)])[self._rows].result(30)
        self._now = int(time.time()) // 180 * 180 - 6 * 3600

    def live(self, kinds: Sequence[str]) -> None:
        """Create the dagger, and make edits of these classes."""
        self._feed()
        self.cli("apply", self._write(self.dagger), "--wait")
        self._root = next(self.cli.state_dir.rglob(f"checkpoints/{self._name}-*"))
        self._settled()
        for number, kind in enumerate(kinds, 1):
            begun = time.monotonic()
            after = edited(self.dagger, kind, self._draw)
            wrong = self._edit(kind, after)
            self.lies += len(wrong)
            took = f"{time.monotonic() - begun:.0f} s"
            self.say(f"edit {number}, {kind}: {after.sql if kind != 'nothing' else '-'} ({took})")
            for each in wrong:
                self.say(f"  a lie: {each}")
        self.cli("delete", self._name, "--wait")

    def _edit(self, kind: str, after: Dagger) -> list[str]:
        """Make an edit; in which points its plan was wrong."""
        if kind == "lost":
            self._lose()
        file, before, stand = self._write(after), self.cli("get", self._name), self._stand()
        planned = self._planned(file)
        if kind in ("nothing", "refused"):
            return self._still(planned, self.cli.try_("apply", file), before, refused=kind == "refused")
        plan, offset, wrong = planned.json, len(records(self.kafka, self._rows)), []
        if planned.code != 2:
            wrong.append(f"--detailed-exitcode is {planned.code}")
        if plan["reads_unchecked"]:
            wrong.append(f"Kafka was not looked into: {plan['reads_unchecked']}")
        if plan["losses"]:
            refusal = self.cli.try_("apply", file)
            if "PLAN_LOSES" not in refusal.out or self.cli("get", self._name)["version"] != before["version"]:
                wrong.append(f"what loses is not refused: {refusal}")
        self.cli("apply", file, "--wait", "--accept-loss")
        now = self.cli.until(self._name, runs)
        if now["generation"] == before["generation"]:
            wrong.append("no new driver")
        columns = self.dagger.columns
        self.dagger = after
        self._feed()
        self._settled()
        wrong += self._reading(plan, stand)
        found = [json.loads(record.value() or b"") for record in records(self.kafka, self._rows)][offset:]
        wrong += _columns(plan, columns, found)
        if after.forwards:
            return wrong + self._forwarded(found)
        return wrong + self._windows(plan, stand, found)

    def _planned(self, file: Path) -> Outcome:
        """The plan of a file; asked again where a host was too slow to look into Kafka."""
        end = time.monotonic() + DEADLINE_S
        while True:
            planned = self.cli.try_("plan", file, "--detailed-exitcode")
            unchecked = planned.code == 2 and "not answered" in planned.json["reads_unchecked"]
            if not unchecked or time.monotonic() > end:
                return planned

    def _still(self, planned: Outcome, applied: Outcome, before: Any, *, refused: bool) -> list[str]:
        now, wrong = self.cli("get", self._name), []
        if (now["version"], now["generation"]) != (before["version"], before["generation"]):
            wrong.append("there is a new revision")
        if (planned.code, applied.code == 0) != (1 if refused else 0, not refused):
            wrong.append(f"plan exits with {planned.code}, apply with {applied.code}")
        if not refused and planned.json["effect"] != "nothing":
            wrong.append(f"the effect of nothing is {planned.json['effect']}")
        return wrong

    def _reading(self, plan: Any, before: Stand) -> list[str]:
        """Where the new driver began to read."""
        after = self._stand()
        begun = {number: offset for (_, number), offset in after.begun.items()}
        match plan["effect"]:
            case "state_kept":
                return [] if after.path.name == before.path.name else ["it has another checkpoint"]
            case "continues_behind":
                told = {number: offset for (_, number), offset in before.next.items()}
            case "recomputed":
                ranges = (plan["reads"] or {"ranges": []})["ranges"]
                told = {range_["partition"]: range_["begin"] for range_ in ranges}
                first = {range_["partition"]: range_["first"] for range_ in ranges}
                begun = {number: max(offset, first.get(number, 0)) for number, offset in begun.items()}
                count = sum(range_["end"] - range_["begin"] for range_ in ranges)
                if plan["reads"] and plan["reads"]["records"] != count:
                    return [f"{plan['reads']['records']} records are not {count}"]
            case effect:
                return [f"an edit of a dagger that runs has the effect {effect}"]
        return [] if begun == told else [f"it began at {begun}, and the plan says {told}"]

    def _windows(self, plan: Any, stand: Stand, found: list[Any]) -> list[str]:
        """The windows that were written since, beside those that the plan leaves."""
        events = [each for partition in self._events for each in partition]
        if plan["effect"] == "recomputed" and not plan["recomputed_since"]:  # all since it began
            begins = {each["partition"]: each["begin"] for each in plan["reads"]["ranges"]}
            events = [each for number, of in enumerate(self._events) for each in of[begins[number] :]]
        closed = stand.watermark.timestamp() if stand.watermark else 0.0
        if plan["reads"]:
            told = plan["reads"]["closed"]
            closed = datetime.fromisoformat(told).timestamp() if told else 0.0
        watermark = max(second for second, _ in events) - DELAY_S
        expected = {
            key: value
            for key, value in self.dagger.windows(events).items()
            if closed < key[0] <= watermark and not self._is_lost(plan, key[0])
        }
        rows: dict[Key, int] = {}
        for row in found:
            end = int(datetime.fromisoformat(row["window_timestamp"]).timestamp())
            rows[end, row["tag_city"]] = row[self.dagger.label]
        wrong = [f"window {key} is missing" for key in sorted(expected.keys() - rows.keys())]
        wrong += [f"window {key} was not promised" for key in sorted(rows.keys() - expected.keys())]
        both = sorted(expected.keys() & rows.keys())
        return wrong + [
            f"{key} is {rows[key]}, not {expected[key]}" for key in both if rows[key] != expected[key]
        ]

    def _is_lost(self, plan: Any, end: int) -> bool:
        lost = plan["lost_windows"]
        if lost is None:
            return False
        begin, last = (datetime.fromisoformat(lost[each]).timestamp() for each in ("begin", "end"))
        return bool(begin <= end - self.dagger.size and end <= last)

    def _forwarded(self, found: list[Any]) -> list[str]:
        """The records that were forwarded since: those behind what was read."""
        new = [each for of in self._events for each in of if each[0] > self._now - ROUND_S]
        expected = sorted(each for each in new if each[1] != self.dagger.without)
        rows = sorted(
            (int(datetime.fromisoformat(row["rowtime"]).timestamp()), row["tag_city"]) for row in found
        )
        return [] if rows == expected else [f"{len(rows)} records are forwarded, not {len(expected)}"]

    def _feed(self) -> None:
        """Write the records of a round, in the order of their event times."""
        for number, second in enumerate(range(self._now + 1, self._now + ROUND_S + 1, STEP_S)):
            for city in CITIES:
                partition = (number + city) % PARTITIONS
                self._bookings.produce(
                    booking(second - NOON, city_id=city), partition=partition, kafka_time_ms=second * 1000
                )
                self._events[partition].append((second, city))
        self._bookings.flush()
        self._now += ROUND_S

    def _lose(self) -> None:
        """Have Kafka delete what is older than the newest records, as retention does."""
        cuts = [
            TopicPartition(
                self._bookings.name, number, sum(second < self._now - CUT_S for second, _ in events)
            )
            for number, events in enumerate(self._events)
        ]
        for done in self._admin.delete_records(cuts).values():
            done.result(30)

    def _settled(self) -> None:
        """Wait until all that is written is read, and windows are closed as far as they are to be."""
        newest = max(second for events in self._events for second, _ in events)
        ends = {number: len(events) for number, events in enumerate(self._events)}

        def done(stand: Stand | None) -> bool:
            if stand is None or {number: offset for (_, number), offset in stand.next.items()} != ends:
                return False
            passed = stand.watermark is not None and stand.watermark.timestamp() >= newest - DELAY_S
            return passed or self.dagger.forwards

        end = time.monotonic() + DEADLINE_S
        while not done(self._look()):
            assert time.monotonic() < end, f"{self._look()} is not {ends}, closed to {newest - DELAY_S}"
            time.sleep(0.3)  # polling a checkpoint; bounded by the deadline

    def _look(self) -> Stand | None:
        try:
            return checkpoint.predecessor(LocalPlace(self._root), NONE)
        except (OSError, ValueError):  # it is being written
            return None

    def _stand(self) -> Stand:
        while (stand := self._look()) is None:
            time.sleep(0.1)
        return stand

    def _write(self, dagger: Dagger) -> Path:
        path = self.folder / f"{self._name}.yaml"
        path.write_text(yaml.safe_dump(dict(dagger.file(self._name, self._bookings.name, self._rows))))
        return path


def _columns(plan: Any, before: set[str], found: list[Any]) -> list[str]:
    """Whether the rows have the columns that the plan leaves."""
    gone = {each["before"]["name"] for each in plan["columns"] if each["after"] is None}
    come = {each["after"]["name"] for each in plan["columns"] if each["before"] is None}
    promised = (before - gone) | come
    return [f"a row has {sorted(row)}, not {sorted(promised)}" for row in found[:1] if row.keys() != promised]


def main(edits: int, seed: int) -> int:
    """Run on a stack of its own, and say what came of it; answers the exit code."""
    folder = Path(tempfile.mkdtemp(prefix="daggers-plan-truth-")).resolve()
    try:
        with running_stack(folder / "stack") as stack:
            truth = Truth(stack.kafka, Cli(stack.state_dir), folder, seed, _say)
            truth.live(classes(edits, random.Random(seed)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    _say(f"{edits} edits, {truth.lies} lies")
    return 1 if truth.lies else 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
