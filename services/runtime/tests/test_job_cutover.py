"""An edit that runs beside the driver before, and goes on in its place: real drivers, and whoever is killed.

The test does what a scheduler does. Rows say which query made them; every window is recounted by hand.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import pytest
from daggers.v1 import spec_pb2
from services.runtime.tests.job_driver import kafka_sink
from services.runtime.tests.launches import Dagger, Launch
from services.runtime.tests.sink_contract import records
from tests.integration.bookings import NOON, booking

from daggerspec import rundir
from daggerspec.shadow import ShadowState
from runtime.state.store.local import LocalStore

pytestmark = pytest.mark.integration
CITIES = (1, 2, 3)
SIZE_S = 4
LATE_S = 60
OLD = f"""
SELECT 1 AS tag_query, city_id AS tag_city, COUNT(1) AS n,
       TUMBLE_END(rowtime, INTERVAL '{SIZE_S}' SECOND) AS window_timestamp
FROM data_stream GROUP BY TUMBLE(rowtime, INTERVAL '{SIZE_S}' SECOND), city_id"""
NEW = f"""
SELECT 2 AS tag_query, city_id AS tag_city, SUM(city_id) AS n,
       TUMBLE_END(rowtime, INTERVAL '{SIZE_S}' SECOND) AS window_timestamp
FROM data_stream WHERE city_id <> 3 GROUP BY TUMBLE(rowtime, INTERVAL '{SIZE_S}' SECOND), city_id"""


@dataclass
class Edited(Dagger):
    """A dagger whose records come as the clock goes, and its shadow."""

    sql: str = OLD
    idle_timeout_s: int = 0
    beside: int = 0
    """Generation of the driver beside which the next launch begins; 0: it is no shadow."""
    events: list[tuple[float, int]] = field(default_factory=list)
    """Seconds after the epoch, and cities."""
    late: int = 0
    """Records that came a minute too late, once `sends_late`."""
    sends_late: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.rows = f"rows-{self.name}"
        self.sinks = [kafka_sink(self.kafka, self.rows)]

    def spec(self, run_dir: Path) -> spec_pb2.JobSpec:
        job = super().spec(run_dir)
        if self.beside:
            job.shadow.beside = self.beside
        return job

    @contextmanager
    def running(self) -> Iterator[Launch]:
        """Launch the query, until it has closed a window."""
        with self.launch() as launch:
            launch.until(lambda beat: beat.HasField("watermark"))
            yield launch

    def edit(self) -> Launch:
        """Launch the edited query as a shadow of the newest launch."""
        self.sql, self.beside = NEW, self.generation
        return self.launch()

    def launch_edited(self) -> Launch:
        """Launch the edited query as ever."""
        self.sql, self.beside = NEW, 0
        return self.launch()

    @contextmanager
    def fed(self) -> Iterator[None]:
        """Records of every city, ten times a second, until this ends."""
        enough = threading.Event()
        feeder = threading.Thread(target=self._feed, args=(enough,))
        feeder.start()
        try:
            yield
        finally:
            enough.set()
            feeder.join()

    def _feed(self, enough: threading.Event) -> None:
        while not enough.wait(0.1):
            now = round(time.time() * 1000) / 1000  # as its record has it
            self.write(*(booking(now - NOON, city_id=city) for city in CITIES))
            self.events += [(now, city) for city in CITIES]
            if self.sends_late.is_set():
                self.write(booking(now - NOON - LATE_S))
                self.late += 1

    def lease(self) -> int:
        """Who holds it."""
        return LocalStore(self.checkpoints).read()

    def found(self) -> dict[int, dict[int, Counter[tuple[int, int]]]]:
        """By the end of each window, and by query: city and value of each row, and how often it is there; a
        row that a batch repeated counts once.
        """
        windows: dict[int, dict[int, Counter[tuple[int, int]]]] = defaultdict(lambda: defaultdict(Counter))
        seen = set()
        for record in records(self.kafka, self.rows):
            known = dict(record.headers() or [])["ce_id"], record.value()
            if known in seen:
                continue
            seen.add(known)
            row = json.loads(record.value() or b"")
            end = int(datetime.fromisoformat(row["window_timestamp"]).timestamp())
            windows[end][int(row["tag_query"])][int(row["tag_city"]), row["n"]] += 1
        return windows

    def wrong(self) -> list[str]:
        """What is wrong with the windows up to the last one that is written: missing, doubled, miscounted."""
        found, said = self.found(), []
        counts: dict[int, Counter[int]] = defaultdict(Counter)
        for second, city in self.events:
            counts[int(second) // SIZE_S * SIZE_S + SIZE_S][city] += 1
        said += [f"window {end} has no record that is in time" for end in set(found) - set(counts)]
        newest = False
        for end in sorted(counts):
            if end > max(found):
                break
            by = found[end]
            if len(by) != 1:
                said.append(f"window {end} is of the queries {sorted(by)}")
                continue
            query = next(iter(by))
            newest = newest or query == 2
            if newest and query == 1:
                said.append(f"window {end} is of the old query")
            cities = CITIES if query == 1 else CITIES[:2]
            expected = Counter((city, counts[end][city] * (1 if query == 1 else city)) for city in cities)
            if by[query] != expected:
                said.append(f"window {end} of query {query} is {dict(by[query])}, not {dict(expected)}")
        return said

    def settled(self, launch: Launch) -> None:
        """Wait until the edited query has written some windows."""
        launch.until_true(lambda: sum(2 in by for by in self.found().values()) > 2)

    def reached(self, step: str, shadow: Launch) -> bool:
        """Whether a shadow that was handed over has come so far."""
        match step:
            case "leased":
                return self.lease() == shadow.generation
            case "counting":
                return any((self.checkpoints / "checkpoints").glob("*.handed"))
            case _:
                return 2 in self.queries()

    def queries(self) -> set[int]:
        """Those that have written."""
        return {query for by in self.found().values() for query in by}


def state_of(shadow: Launch) -> ShadowState:
    """What a shadow says."""
    try:
        return ShadowState.from_json((shadow.run_dir / rundir.SHADOW).read_text())
    except FileNotFoundError:
        return ShadowState()


def until(shadow: Launch, wanted: str) -> ShadowState:
    """What a shadow says once this is so."""
    shadow.until_true(lambda: bool(getattr(state_of(shadow), wanted)) or shadow.process.poll() is not None)
    assert shadow.process.poll() is None, shadow.log()[-4000:]
    return state_of(shadow)


def ended(shadow: Launch) -> ShadowState:
    """Tell a shadow that the driver beside it is dead; what it says then."""
    (shadow.run_dir / rundir.PREDECESSOR_ENDED).touch()
    return until(shadow, "final")


def hand(shadow: Launch, written: int) -> None:
    (shadow.run_dir / rundir.HANDED).write_text(str(written))


@pytest.mark.long
def test_a_shadow_goes_on_where_the_driver_beside_it_ends_and_no_window_is_missing_or_doubled(
    tmp_path: Path, kafka: str
) -> None:
    dagger = Edited(tmp_path, kafka)
    with dagger.fed(), dagger.running() as old, dagger.edit() as shadow:
        told = until(shadow, "caught_up")
        silent = not shadow.beats and dagger.lease() == old.generation
        (old.run_dir / rundir.BOUNDARY).write_text(str(told.next_end))
        code = old.wait()
        final = ended(shadow)
        held = (final.closed <= final.written, final.written >= told.next_end, dagger.queries())
        hand(shadow, final.written)
        shadow.running()
        dagger.settled(shadow)
        codes = [code, shadow.stop()]

    assert (codes, silent, held) == ([0, 0], True, (True, True, {1}))
    assert (dagger.wrong(), dagger.lease()) == ([], shadow.generation)


@pytest.mark.long
def test_records_that_come_late_during_a_cutover_are_in_no_window_and_each_is_reported(
    tmp_path: Path, kafka: str
) -> None:
    dagger = Edited(tmp_path, kafka)
    with dagger.fed(), dagger.running() as old:
        dagger.sends_late.set()
        with dagger.edit() as shadow:
            told = until(shadow, "caught_up")
            (old.run_dir / rundir.BOUNDARY).write_text(str(told.next_end))
            codes = [old.wait()]
            hand(shadow, ended(shadow).written)
            shadow.running()
            dagger.settled(shadow)
            dagger.sends_late.clear()
            before = dagger.late
            shadow.until(lambda beat: old.beats[-1].late_rows + beat.late_rows >= before)
            codes.append(shadow.stop())

    assert (codes, dagger.wrong()) == ([0, 0], [])
    of_old, of_shadow = old.beats[-1].late_rows, shadow.beats[-1].late_rows
    assert 0 < of_old < dagger.late
    assert dagger.late - of_old <= of_shadow < dagger.late


@pytest.mark.long
@pytest.mark.parametrize("decided", [False, True])
def test_a_driver_that_is_killed_beside_its_shadow_costs_no_window(
    tmp_path: Path, kafka: str, decided: bool
) -> None:
    dagger = Edited(tmp_path, kafka)
    with dagger.fed(), dagger.running() as old, dagger.edit() as shadow:
        told = until(shadow, "caught_up")
        if decided:
            (old.run_dir / rundir.BOUNDARY).write_text(str(told.next_end))
        old.kill()
        old.wait()
        hand(shadow, ended(shadow).written)
        dagger.settled(shadow)
        code = shadow.stop()

    assert (code, dagger.wrong()) == (0, [])


@pytest.mark.long
@pytest.mark.parametrize("step", ["caught up", "told that it is final", "leased", "counting", "writing"])
def test_a_shadow_that_is_killed_at_any_step_costs_no_window(tmp_path: Path, kafka: str, step: str) -> None:
    dagger = Edited(tmp_path, kafka)
    with dagger.fed(), dagger.running() as old, dagger.edit() as shadow:
        told = until(shadow, "caught_up")
        if step == "caught up":
            shadow.kill()
        (old.run_dir / rundir.BOUNDARY).write_text(str(told.next_end))
        codes = [old.wait()]
        if step != "caught up":
            final = ended(shadow)
        if step in ("leased", "counting", "writing"):
            hand(shadow, final.written)
            shadow.until_true(lambda: dagger.reached(step, shadow))
        shadow.kill()
        shadow.wait()
        with dagger.launch_edited() as last:
            dagger.settled(last)
            codes.append(last.stop())

    assert (codes, dagger.wrong(), dagger.lease()) == ([0, 0], [], last.generation)


@pytest.mark.long
def test_a_shadow_that_is_told_to_stop_leaves_nothing_that_counts(tmp_path: Path, kafka: str) -> None:
    dagger = Edited(tmp_path, kafka)
    with dagger.fed(), dagger.running() as old:
        with dagger.edit() as shadow:
            held = until(shadow, "holds")
            codes = [shadow.stop(), old.stop()]
        rows = dagger.queries()
        with dagger.launch_edited() as last:
            dagger.settled(last)

    assert (codes, rows, dagger.wrong()) == ([0, 0], {1}, [])
    assert (held.closed <= held.written, held.has_taken_over, shadow.beats) == (True, False, [])


@pytest.mark.long
def test_what_is_handed_over_from_somewhere_else_than_the_checkpoint_says_ends_the_shadow(
    tmp_path: Path, kafka: str
) -> None:
    dagger = Edited(tmp_path, kafka)
    with dagger.fed(), dagger.running() as old, dagger.edit() as shadow:
        until(shadow, "caught_up")
        code = old.stop()
        hand(shadow, ended(shadow).written + SIZE_S * 1_000_000)
        codes = [code, shadow.wait()]

    assert codes == [0, 70]
    assert (shadow.error()["reason"], shadow.error()["retryable"]) == ("SHADOW_LOST", True)
    assert (dagger.queries(), dagger.lease()) == ({1}, old.generation)
