"""On-call: seven faults of a running dagger, each named by `daggers get` at once, and by its page.

Each fault happens to real processes: broken and late records in the topic, a producer that falls silent, a
database that cannot be reached, drivers that are killed, a secret that is gone, a broker that is killed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from conftest import Stack, running_stack
from tests.documents.pages import ROOT
from tests.documents.pages import Page as Document
from tests.integration.bookings import NOON, Bookings, booking
from tests.integration.cli import Cli, Outcome, runs
from tests.integration.faults import driver, kill, kill_driver, until
from tests.proxy import Proxy, port_of
from tests.walks.conftest import Say
from tests.walks.monitors import serving_monitor
from tests.walks.receivers import Page, Receivers, receivers

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(1500)]

NAMED_S = 10.0
BUSY_S = 5.0
"""What a busy machine may add."""
PAGED_S = 150.0
GAP_S = 60.0
"""Without a record for so long, input is missed: the least that a dagger may say."""
PORTAL = "https://portal.example"
LIMITS = {
    "DAGGERS_MONITOR_HOLD_S": "1",
    "DAGGERS_MONITOR_RESOLVE_HOLD_S": "3",
    "DAGGERS_MONITOR_PROGRESS_S": "15",
    "DAGGERS_MONITOR_KAFKA_AWAY_S": "10",
    "DAGGERS_MONITOR_PORTAL_URL": PORTAL,
}
"""Of an impatient on-call: a walk has no quarter of an hour."""
RUNBOOK = Document(ROOT / "docs" / "operations.md")
SQL = """\
SELECT city_id AS tag_city_id, count(1) AS num_of_bookings,
       TUMBLE_END(rowtime, INTERVAL '2' SECOND) AS window_timestamp
FROM `data_stream` GROUP BY TUMBLE(rowtime, INTERVAL '2' SECOND), city_id"""
PARTS = {"measured", "who has to act", "last change", "next", "runbook"}

Told = dict[str, Any]


@dataclass
class Producer:
    """A service that writes five bookings a second, as long as it is well."""

    bookings: Bookings
    _silent: threading.Event = field(default_factory=threading.Event)
    _ended: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    since: float = 0.0
    """When it began to write."""
    last: float = 0.0
    """When it wrote last."""

    def run(self) -> None:
        """Write until it is ended."""
        while not self._ended.wait(0.2):
            if not self._silent.is_set():
                self.write(booking(time.time() - NOON))
                self.last = time.time()

    def write(self, *values: bytes) -> None:
        """Write these."""
        with self._lock:
            for value in values:
                self.bookings.produce(value)

    def falls_silent(self) -> None:
        """Write nothing more until it speaks."""
        self._silent.set()

    def speaks(self) -> None:
        """Write again."""
        self.since = time.time()
        self._silent.clear()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Around its life."""
        thread = threading.Thread(target=self.run)
        self.since = time.time()
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join(30)


@dataclass
class OnCall:
    """Who is woken up: what `daggers get` tells them, and their pager."""

    cli: Cli
    name: str
    receivers: Receivers
    say: Say

    def sees(self, fault: str, begun: float, named: Callable[[Outcome], bool]) -> None:
        """`daggers get` names the fault, ten seconds after it began at most."""
        while not named(told := self.cli.try_("get", self.name)):
            assert time.time() - begun < NAMED_S + BUSY_S, f"{fault}: {told}"
            time.sleep(0.3)  # looking again, as a person would; bounded by the assertion
        took = time.time() - begun
        self.say(f"{fault}: named after {took:.1f} s")

        assert took < NAMED_S + BUSY_S

    def is_paged(
        self, condition: str, begun: float, *, of: str = "", parts: set[str] = PARTS
    ) -> tuple[Page, Told]:
        """The page of a condition that began then, with all its parts; in both receivers."""
        page = self._page(condition, begun, resolved=False)
        until(lambda: any(_is_of(event, page) for event in self.receivers.events), deadline_s=PAGED_S)
        event = next(event for event in self.receivers.events if _is_of(event, page))
        anchor = page.facts["runbook"].partition("#")[2]
        self.say(f"  paged after {page.at - begun:.1f} s: {event['payload']['summary']}")

        assert page.dagger == (of or self.name)
        assert parts <= page.facts.keys()
        assert "daggers " in page.facts["next"]
        assert anchor in RUNBOOK.anchors
        assert page.link == (PORTAL if of else f"{PORTAL}/daggers/{self.name}")
        assert 0 < page.since <= page.at
        assert {key: event["payload"]["custom_details"][key] for key in parts} == {
            key: page.facts[key] for key in parts
        }
        return page, event

    def hears_that_it_is_over(self, condition: str, begun: float) -> None:
        """The page that says so."""
        self._page(condition, begun, resolved=True)

    def _page(self, condition: str, begun: float, *, resolved: bool) -> Page:
        def found() -> Iterator[Page]:
            for page in list(self.receivers.pages):
                if (page.condition, page.resolved) == (condition, resolved) and page.at >= begun:
                    yield page

        try:
            until(lambda: any(found()), deadline_s=PAGED_S)
        except AssertionError:
            raise AssertionError(f"no page of {condition!r}: {self.receivers.pages}") from None
        return next(found())


def _is_of(event: Told, page: Page) -> bool:
    """Whether PagerDuty was told the same of the same incident."""
    if event["event_action"] != "trigger":
        return False
    payload = event["payload"]
    told = payload["source"], payload["class"], payload["custom_details"]["incident"]
    return bool(told == (page.dagger, page.condition.replace(" ", "_"), page.incident))


def warns(*codes: str) -> Callable[[Outcome], bool]:
    """Whether one of these warnings stands there."""

    def named(told: Outcome) -> bool:
        vitals = told.json["vitals"] or {"warnings": []}
        return any(vital["code"].startswith(codes) and vital["next"] for vital in vitals["warnings"])

    return named


def ended(told: Outcome) -> bool:
    """Whether it says that the driver has ended, and of what."""
    vitals, last = told.json["vitals"] or {"warnings": []}, told.json["last_exit"]
    said = any(vital["message"].startswith("its driver has ended ") for vital in vitals["warnings"])
    return said and last is not None and last["error"]["reason"] in ("KILLED", "DRIVER_LOST")


def alerts(condition: str) -> Callable[[Outcome], bool]:
    """Whether this alert is open."""
    return lambda told: any(each["condition"] == condition for each in told.json["alerts"])


def writes(dagger: Told) -> bool:
    """Whether rows go to its sinks."""
    return ((dagger["vitals"] or {}).get("rows_per_s") or 0) > 0


def kill_next_driver(stack: Stack, name: str, killed: set[int]) -> set[int]:
    """Wait for a driver that is none of these, and kill it; the process ids of what was killed."""
    until(lambda: bool(driver(stack, name).keys() - killed))
    victims = set(driver(stack, name))
    kill_driver(stack, name)
    return victims


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    """A stack of its own: its monitor and its broker are replaced and killed."""
    with running_stack(tmp_path / "stack") as running:
        yield running


def test_on_call_is_told_what_is_wrong_of_seven_faults(stack: Stack, tmp_path: Path, say: Say) -> None:
    cli, bookings = Cli(stack.state_dir), Bookings(stack.kafka, Cli(stack.state_dir))
    token = tmp_path / "token"
    token.write_text(stack.influx["token"])
    producer = Producer(bookings)
    with ExitStack() as around:
        told = around.enter_context(receivers())
        around.enter_context(serving_monitor(stack, told, tmp_path, LIMITS))
        database = around.enter_context(Proxy(port_of(stack.influx["url"])))
        sink = {"influx": {"url": database.url, "token": {"file": str(token)}}}
        conditions = {"no_input": {"limit": f"{GAP_S:g}s"}}
        name, file = bookings.dagger(tmp_path, sql=SQL, sinks=[sink], start="latest", conditions=conditions)
        on_call = OnCall(cli, name, told, say)
        cli("apply", "-f", file, "--wait")
        around.enter_context(producer.running())
        cli.until(name, writes)

        # 1. A producer writes what is no booking.
        begun = time.time()
        producer.write(*[b"\xff\xff\xff"] * 50)
        on_call.sees("broken records", begun, warns("QUARANTIN"))
        on_call.is_paged("quarantine rate", begun)

        # 2. Another one writes what happened an hour ago.
        begun = time.time()
        producer.write(*[booking(begun - 3600 - NOON)] * 100)
        on_call.sees("late records", begun, warns("LATE_R"))
        on_call.is_paged("late rows", begun)

        # 3. All of them fall silent, after they wrote for long enough to be missed.
        until(lambda: time.time() - producer.since > 2 * GAP_S, deadline_s=3 * GAP_S)
        producer.falls_silent()
        page, _ = on_call.is_paged("no input", producer.last)
        on_call.sees("no input", page.at, alerts("NO_INPUT"))
        producer.speaks()
        on_call.hears_that_it_is_over("no input", page.at)

        # 4. The database cannot be reached.
        begun = time.time()
        database.cut()
        on_call.sees("a sink away", begun, warns("SINK_"))
        on_call.is_paged("no progress", begun)
        database.open()
        on_call.hears_that_it_is_over("no progress", begun)

        # 5. Its driver is killed, and each one that is launched in its place.
        begun = time.time()
        killed = kill_next_driver(stack, name, set())
        on_call.sees("a driver killed", begun, ended)
        for _ in range(2):
            killed |= kill_next_driver(stack, name, killed)
        on_call.is_paged("restart loop", begun)
        cli.until(name, runs)

        # 6. A secret is gone when the driver is launched again.
        token.unlink()
        cli("restart", name)
        cli.until(name, lambda dagger: dagger["phase"] == "FAILED")
        begun = time.time()
        on_call.sees("a secret gone", begun, warns("SECRET_MISSING"))
        on_call.is_paged("failed", begun - NAMED_S, parts=PARTS - {"measured"})
        token.write_text(stack.influx["token"])
        cli("start", name, "--wait")
        on_call.hears_that_it_is_over("failed", begun)

        # 7. The broker is killed.
        producer.falls_silent()
        begun = time.time()
        kill(stack, "kafka")
        on_call.sees("Kafka away", begun, lambda told: "Kafka" in told.err)
        on_call.is_paged("kafka away", begun, of="platform", parts=PARTS - {"last change"})
        cli("local", "up", "--detach", "--only", "kafka")
        on_call.hears_that_it_is_over("kafka away", begun)
        producer.speaks()
        cli.until(name, runs)
        cli("delete", name, "--wait")
