"""The demo from end to end: register, create, feed, watch, stop feeding, recount, compare."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from daggers.v1 import gateway_pb2, spec_pb2

from cli.errors import RefusedError
from cli.files.proto_files import load
from cli.framework import phase_wait
from cli.framework.gateway import Gateway
from cli.output.printer import Printer
from daggerclient import AcceptedRequest, NotReachedError
from daggerclient.daggerfile.parse import DaggerFile, parse
from daggerspec.row import Row
from devstack.demo import metrics, observation
from devstack.demo.display import Display, Picture, View
from devstack.demo.encoding import BOOKING, PING, example_files
from devstack.demo.feeder import FedEvents, Feeder, Topics, create_topics, next_window
from devstack.demo.incident import NAME as INCIDENT
from devstack.demo.incident import Incident
from devstack.demo.oncall import OnCall
from devstack.demo.recount import Key, RowComparison, bookings_table, compare, rows_table, supply_table
from devstack.demo.rowrule import LASTS_S, RowRule, add_rule
from devstack.demo.rowrule import NAME as RULE
from devstack.services import CLUSTER
from devstack.state import Influx, Stack

SEED = 42
TEAM = "pricing"
"""The team of the examples."""
TOPICS = Topics()
STARTUP_S = 180.0
POLL_S = 1.0
# Holds that suit a short demo.
MONITOR = {
    "DAGGERS_MONITOR_HOLD_S": "2",
    "DAGGERS_MONITOR_RESOLVE_HOLD_S": "2",
}
BROKEN_SHARE = 0.5
"""Share of broken records at which the demo raises an alert: the feeder means some to be there."""
# after the last event: a driver whose alert has to be over starts again, and the last windows close, within
# idle_timeout + watermark_delay + 5 s by contract
CLOSING_S = STARTUP_S + 30.0
REPORTING_S = 30.0


@dataclass(frozen=True)
class Subject:
    """One of the demo's daggers: its file, its topic, and how its rows are counted independently."""

    file: str
    topic: str
    tags: tuple[str, ...]
    field: str
    recount: Callable[[FedEvents, datetime], Mapping[Key, int]]


BOOKINGS = "completed_bookings"
SUBJECTS = {
    BOOKINGS: Subject(
        "completed_bookings.yaml",
        TOPICS.bookings,
        ("tag_city_id", "tag_s2id", "tag_vehicle_type"),
        "num_of_bookings",
        lambda fed, start: bookings_table(fed.bookings, start),
    ),
    "driver_supply": Subject(
        "driver_supply.yaml",
        TOPICS.pings,
        ("s2id", "driver_status"),
        "drivers",
        lambda fed, start: supply_table(fed.pings, start),
    ),
}
STREAMS = tuple(
    spec_pb2.Stream(name=name, cluster=CLUSTER, topics=[topic], message=message, time_field="event_timestamp")
    for name, topic, message in (
        ("bookings", TOPICS.bookings, BOOKING),
        ("driver_pings", TOPICS.pings, PING),
    )
)


@dataclass(frozen=True)
class Verdict:
    """Outcome: windows and rows expected, records late and quarantined, and what differs."""

    windows: int
    rows: int
    late: int
    quarantined: int
    mismatches: tuple[str, ...]

    def sentence(self) -> str:
        """Return the line that people and scripts look for."""
        return f"verified: {self.windows} windows, {self.rows} rows, {len(self.mismatches)} mismatches"


@dataclass(frozen=True)
class Acts:
    """Acts beside the rows: a dagger fails and is mended, and a rule on rows fires and is over."""

    incident: Incident
    rule: RowRule | None
    """None where the demo is too short for it."""
    oncall: OnCall
    say: Callable[[str], None]
    """Shows a line to whoever watches."""

    def step(self) -> None:
        """Show what on-call was told, and do what that leads to. Raises RefusedError."""
        lines = self.oncall.read_lines()
        for line in lines:
            self.say(f"on-call | {line}")
        self.incident.step(lines)
        if self.rule is not None:
            self.rule.step(lines)

    def list_open(self) -> list[str]:
        """List what is not over yet."""
        acts = ((INCIDENT, self.incident), (RULE, self.rule))
        return [name for name, act in acts if act is not None and not act.over]


class Demo:
    """A demo on a stack that is up."""

    def __init__(
        self,
        stack: Stack,
        gateway: Gateway,
        examples: Path,
        out: Printer,
        more: Sequence[spec_pb2.Sink] = (),
    ) -> None:
        """Begin a demo; `more` are sinks of the bookings beside their own: named, and recounted as well."""
        self._more = more
        self._stack = stack
        self._gateway = gateway
        self._examples = examples
        self._out = out
        self._own: Influx | None = None
        self._expected: dict[str, Mapping[Key, int]] = {}

    def run(self, seconds: float) -> Verdict:
        """Feed for so many seconds, then compare. Raises RefusedError when the daggers do not get to run."""
        schema = self._register()
        self._create()
        feeder = Feeder(self._stack.kafka, TOPICS, schema, start=next_window(), seed=SEED)
        feeder.start()
        try:
            with Display(self._out.messages if self._out.json else self._out.console) as display:
                like = self._gateway.get(BOOKINGS).spec
                influx = self._own or self._stack.influx
                acts = Acts(
                    Incident(self._gateway, self._stack, like, influx, display.say),
                    RowRule(BOOKINGS) if seconds >= LASTS_S else None,
                    OnCall(self._stack),
                    display.say,
                )
                self._watch(feeder, acts, display, seconds)
                feeder.stop()
                for name, subject in SUBJECTS.items():
                    self._expected[name] = subject.recount(feeder.fed, feeder.start_time)
                self._until_closed(feeder, acts, display)
        finally:
            feeder.stop()
        return self._verdict(feeder, acts)

    def _register(self) -> spec_pb2.Schema:
        gateway = self._gateway
        with self._out.steps.step("registering schemas, streams and a sink"):
            create_topics(self._stack.kafka, TOPICS)
            schema = load(example_files(self._examples), ())
            gateway.call(gateway.catalog.RegisterSchema, gateway_pb2.RegisterSchemaRequest(schema=schema))
            for stream in STREAMS:
                gateway.call(gateway.catalog.RegisterStream, gateway_pb2.RegisterStreamRequest(stream=stream))
            self._own = metrics.register(gateway, self._stack, TEAM)
        return schema

    def _create(self) -> None:
        """Create both daggers, then wait for both: their drivers start at the same time."""
        created = []
        for subject in SUBJECTS.values():
            file = self._examples / "daggers" / subject.file
            for dagger in map(with_short_windows, parse(file.read_text(encoding="utf-8"), str(file))):
                dagger.spec.sinks.extend(self._sinks(dagger.name))
                dagger.spec.conditions["quarantine_rate"].limit = BROKEN_SHARE
                if dagger.name == BOOKINGS:
                    add_rule(dagger.spec)
                if self._own is not None:
                    metrics.written_by(dagger.spec)
                applied = self._gateway.apply(dagger.name, dagger.spec)
                created.append(AcceptedRequest(applied.dagger, applied.sequence))
        for written in created:
            phase_wait.until_running(self._gateway, written, STARTUP_S, self._out.steps)

    def _sinks(self, name: str) -> Sequence[spec_pb2.Sink]:
        return self._more if name == BOOKINGS else ()

    def _watch(self, feeder: Feeder, acts: Acts, display: Display, seconds: float) -> None:
        with ExitStack() as watching:
            watches = {
                name: watching.enter_context(observation.Watch(self._gateway, name)) for name in SUBJECTS
            }
            while (elapsed := (datetime.now(UTC) - feeder.start_time).total_seconds()) < seconds:
                views = self._views(lambda name: watches[name].rows())
                if not feeder.fed.late and all(view.rows for view in views):
                    feeder.feed_late()
                display.show(_picture(elapsed, "feeding", feeder, views))
                acts.step()
                if feeder.error:
                    return
                time.sleep(min(POLL_S, max(seconds - elapsed, 0)))

    def _until_closed(self, feeder: Feeder, acts: Acts, display: Display) -> None:
        """Wait until the windows of the last events are there and the alerts are over.

        What differs at the deadline is a mismatch.
        """
        deadline = time.monotonic() + CLOSING_S
        while time.monotonic() < deadline:
            views = self._views(lambda name: observation.rows(self._gateway, name))
            elapsed = (datetime.now(UTC) - feeder.start_time).total_seconds()
            display.show(_picture(elapsed, "closing the last windows", feeder, views))
            acts.step()
            if not feeder.fed.late and all(view.rows for view in views):
                feeder.feed_late()
            same = all(self._compare_rows(view.name, view.rows).mismatches == () for view in views)
            if same and feeder.fed.late and not acts.list_open():
                return
            time.sleep(POLL_S)

    def _verdict(self, feeder: Feeder, acts: Acts) -> Verdict:
        windows = rows = late = quarantined = 0
        mismatches = [f"{name}: its alert did not fire and resolve" for name in acts.list_open()]
        for name, subject in SUBJECTS.items():
            for sink in (observation.SINK, *(sink.name for sink in self._sinks(name))):
                compared = self._compare_rows(name, observation.rows(self._gateway, name, sink))
                windows += compared.windows
                rows += compared.rows
                mismatches += [f"{name} in {sink}: {mismatch}" for mismatch in compared.mismatches]
            aside, differing = self._set_aside(name, subject.topic, feeder.fed)
            mismatches += differing
            late += feeder.fed.late[subject.topic]
            quarantined += aside
        return Verdict(windows, rows, late, quarantined, tuple(mismatches))

    def _compare_rows(self, name: str, rows: Sequence[Row]) -> RowComparison:
        subject = SUBJECTS[name]
        return compare(self._expected[name], rows_table(rows, subject.tags, subject.field))

    def _set_aside(self, name: str, topic: str, fed: FedEvents) -> tuple[int, list[str]]:
        """Return how many records must be in quarantine, and what differs in their counts, or late ones'."""
        reasons = {"MALFORMED": fed.broken[topic], "FROM_THE_FUTURE": fed.future[topic]}
        expected = {reason: count for reason, count in reasons.items() if count}
        deadline = time.monotonic() + REPORTING_S
        while True:
            sums = observation.sum_heartbeats(self._stack, name)
            quarantined = observation.set_aside(self._gateway, name)
            checks = (
                ("late records in heartbeats", fed.late[topic], sums.late),
                ("quarantined records in heartbeats", expected, dict(sums.quarantined)),
                ("records in quarantine", expected, dict(quarantined)),
            )
            differing = [
                f"{name}: {title}: expected {wanted}, found {seen}"
                for title, wanted, seen in checks
                if wanted != seen
            ]
            if not differing or time.monotonic() > deadline:
                return sum(expected.values()), differing
            time.sleep(POLL_S)

    def _views(self, rows: Callable[[str], list[Row]]) -> list[View]:
        views = []
        for name in SUBJECTS:
            dagger = self._gateway.get(name)
            if dagger.phase == gateway_pb2.FAILED:
                raise NotReachedError(dagger, f"{name} FAILED")
            views.append(View(name, gateway_pb2.Phase.Name(dagger.phase), rows(name)))
        return views


def with_short_windows(file: DaggerFile) -> DaggerFile:
    """Return the dagger with windows of 10 s in place of 60 s, so that a short demo sees many of them."""
    spec = spec_pb2.DaggerSpec()
    spec.CopyFrom(file.spec)
    spec.sql = file.spec.sql.replace("'60' SECOND", "'10' SECOND")
    return DaggerFile(file.name, spec, first_lines=file.first_lines)


def find_examples() -> Path:
    """Find the folder examples/ of the clone this command runs from. Raises RefusedError if there is none."""
    for folder in Path(__file__).resolve().parents:
        if (folder / "examples" / "daggers").is_dir():
            return folder / "examples"
    raise RefusedError("the demo needs examples/ of a clone: run it from one, or name it by --examples")


def _picture(elapsed: float, step: str, feeder: Feeder, views: list[View]) -> Picture:
    return Picture(max(elapsed, 0), step, len(feeder.fed.bookings), len(feeder.fed.pings), views)
