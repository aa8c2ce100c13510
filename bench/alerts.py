"""Alerts: what rules cost a dagger, how soon people are told, ten thousand incidents at once, starts.

    .venv/bin/python bench/alerts.py [PART ...]

judging     ten rules on 10,000 keys, so 100,000 verdicts for each window of 10 s, of 100,000 records: the CPU
            of one driver with the rules beside the same driver without them, in turn. One rule is true of a
            hundred keys all the time, the others of none. Rules come and go without a restart.
delay       end of a window to the receiver, above the watermark's delay of 5 s: four keys fire, and are over
            in the window after it. Each has a call of its own, a tenth of a second apart.
storm       10,000 keys of ten rules fire in one window, and are over together. Routes group them by rule:
            each receiver's message is read, and every incident is looked for in it.
restart     a monitor starts on a log of 1,000,000 events of alerts: until it serves.
simulation  `daggers alerts test` over the records of seven days, ten a second: 6,048,000. They are written
            at once, so by Kafka's time they are of the last minutes.

Everything runs on the embedded stack, with a monitor of the bench's own, whose receivers are a server of the
bench. It ends with 1 where a bar is missed.
"""

from __future__ import annotations

import argparse
import itertools
import os
import signal
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from random import Random
from typing import Any, Final

import ages
import dagger
import workload
from chosen import chosen
from confluent_kafka import Consumer, Producer, TopicPartition
from daggers.v1 import alerts_pb2
from google.protobuf.message import Message
from machine import Meter, Spent, header
from monitor import TEAM, Receivers, monitoring, receiving
from seed import COUNT, RowCounter
from stack import Stack, stack

from eventlog import Draft, topics

Part = Callable[[Stack], bool]
"""Prints a line; tells whether its bar is met."""
RULES: Final = 10
KEYS: Final = 10_000
_DEADLINE_S: Final = 300.0
_WATERMARK_S: Final = 5.0

# ---- Judging -----------------------------------------------------------------------------------------------

JUDGED_RECORDS, JUDGED_RATE = 1_500_000, 10_000
MOST_MORE: Final = 0.10
_RUNS: Final = 5


def _sql(key: str, seconds: int) -> str:
    window = f"rowtime, INTERVAL '{seconds}' SECOND"
    return (
        f"SELECT {key} AS tag_key, count(1) AS {COUNT}, TUMBLE_END({window}) AS window_timestamp"
        f" FROM `data_stream` GROUP BY TUMBLE({window}), {key}"
    )


def _pool(keys: int, chance: Random) -> list[Any]:
    """Bookings of so many drivers."""
    bookings = workload.bodies(chance)
    for number, booking in enumerate(bookings):
        booking.driver_id = f"driver-{number % keys:06d}"
    return bookings


def judging(on: Stack) -> bool:
    """Compare the CPU of a driver with ten rules and without."""
    fill = partial(workload.fill, rate=JUDGED_RATE, pool=partial(_pool, KEYS))
    dagger.prepare(on)
    fill(on.kafka, dagger.TOPIC, JUDGED_RECORDS)
    definition = {
        "sql": _sql("driver_id", 10),
        "sinks": [{"kafka": {"topic": dagger.ROWS_TOPIC, "format": "json"}}],
    }
    rules = [
        {"name": "rule_0", "when": f"tag_key LIKE '%00' AND {COUNT} > 0"},
        *({"name": f"rule_{number}", "when": f"{COUNT} > {1_000 + number}"} for number in range(1, RULES)),
    ]
    rows = RowCounter(on.kafka, dagger.ROWS_TOPIC)
    dagger.apply(on, "judged", definition)
    rows.wait_for(JUDGED_RECORDS)
    session, spent = on.driver_session("judged"), dict[bool, list[Spent]]({False: [], True: []})
    with Meter(session) as meter:
        for run, ruled in enumerate([False, True] * _RUNS, 1):
            dagger.apply(on, "judged", {**definition, "alerts": rules} if ruled else definition)
            _await_rules(on, "judged")
            assert on.driver_session("judged") == session
            os.killpg(session, signal.SIGSTOP)
            fill(on.kafka, dagger.TOPIC, JUDGED_RECORDS, start=workload.START + run * 3_600)
            before = meter.read()
            os.killpg(session, signal.SIGCONT)
            rows.wait_for((run + 1) * JUDGED_RECORDS)
            spent[ruled].append(meter.read() - before)
    on.daggers("delete", "judged", "--wait")
    # The first of each compiles what the others run.
    bare, with_rules = (statistics.median(run.cpu for run in spent[ruled][1:]) for ruled in (False, True))
    windows = JUDGED_RECORDS // JUDGED_RATE // 10
    more = with_rules / bare - 1
    print(
        f"judging {RULES * KEYS:,} (rule x key) in each of {windows} windows: {bare:.1f} CPU-s without rules,"
        f" {with_rules:.1f} with them: {more:+.1%} ({_list(spent[False])}; {_list(spent[True])})",
        flush=True,
    )
    return more <= MOST_MORE


def _list(runs: list[Spent]) -> str:
    return ", ".join(f"{run.cpu:.1f}" for run in runs)


def _await_rules(on: Stack, name: str) -> None:
    """Wait until the driver judges the rules of the newest revision."""
    version = int(on.daggers("get", name)["version"])
    for beat in dagger.heartbeats(on.kafka, name, _DEADLINE_S):
        if beat.rules_revision == version:
            return
    raise SystemExit(f"{name} did not take its rules")


# ---- From the window to the receiver -----------------------------------------------------------------------

_DELAY_TOPIC: Final = "delays"
LATEST_S: Final = 2.0
_WARM_S, _COUNTED_S = 60.0, 150.0


def delay(on: Stack) -> bool:
    """Measure how long after its window and the watermark's delay a notice is at its receiver."""
    dagger.prepare(on, _DELAY_TOPIC)
    with receiving() as receivers, monitoring(on, receivers):
        receivers.register(on)
        definition = {
            "sql": _sql("vehicle_type", 5),
            "sinks": [{"log": {"limit": 1}}],
            "alerts": [{"name": "even", "when": "MOD(SECOND(window_timestamp), 10) = 0"}],
        }
        dagger.apply(on, "delayed", definition, reads=_DELAY_TOPIC)
        with workload.feeding(on.kafka, 100, _DELAY_TOPIC):
            time.sleep(_WARM_S)
            since = time.time()
            time.sleep(_COUNTED_S)
        notices = [call for call in receivers.calls if call.at > since and call.path == "/"]
        on.daggers("delete", "delayed", "--wait")
    late = sorted(call.at - _window_of(call.document["data"]) - _WATERMARK_S for call in notices)
    if not late:
        raise SystemExit("no receiver was told of anything")
    p95 = ages.share_of(late, 0.95)
    print(
        f"end of window to receiver, above the watermark's delay, {len(late)} notices: p50"
        f" {ages.share_of(late, 0.5):.2f} s, p95 {p95:.2f} s, longest {late[-1]:.2f} s",
        flush=True,
    )
    return p95 <= LATEST_S


def _window_of(data: dict[str, Any]) -> float:
    return ages.instant(data.get("until") or data["since"])


# ---- Ten thousand at once ----------------------------------------------------------------------------------

_STORM_TOPIC: Final = "storms"
_STORM_KEYS: Final = 1_000


def storm(on: Stack) -> bool:
    """Let 10,000 incidents begin, and end, at once; look for each in what a receiver is told."""
    dagger.prepare(on, _STORM_TOPIC)
    with receiving() as receivers, monitoring(on, receivers):
        receivers.register(on)
        routes = {
            "kind": "routes", "name": TEAM, "receivers": ["alertmanager"], "group_by": ["rule"],
            "group_wait": "30s", "group_interval": "30s", "repeat_interval": "off",
        }  # fmt: skip
        on.run_with_file(routes, "routes", "apply")
        definition = {"sql": _sql("driver_id", 10), "sinks": [{"log": {"limit": 1}}]}
        rules = [{"name": f"rule_{number}", "when": f"{COUNT} > 0"} for number in range(RULES)]
        dagger.apply(on, "stormy", {**definition, "alerts": rules}, reads=_STORM_TOPIC)
        since = time.time()
        start = int(since) // 10 * 10 - 3_600
        workload.fill(
            on.kafka, _STORM_TOPIC, 20_000, start=start, rate=2_000, pool=partial(_pool, _STORM_KEYS)
        )
        fired = _await_notices(receivers, 0, is_over=False)
        written = _list_written(on, since, alerts_pb2.AlertFired)
        first = len(receivers.calls)
        dagger.apply(on, "stormy", definition, reads=_STORM_TOPIC)
        resolved = _await_notices(receivers, first, is_over=True)
        on.daggers("delete", "stormy", "--wait")
    wanted = RULES * _STORM_KEYS
    print(
        f"{wanted:,} incidents at once: {len(written):,} in the log within {written[-1] - written[0]:.1f} s,"
        f" {sum(fired.values()):,} told in {len(fired)} messages, {sum(resolved.values()):,} ends in"
        f" {len(resolved)}",
        flush=True,
    )
    sizes = [*fired.values(), *resolved.values()]
    return sizes == [_STORM_KEYS] * (2 * RULES) and len(written) == wanted


def _await_notices(receivers: Receivers, first: int, *, is_over: bool) -> Counter[int]:
    """Wait until each incident was told; return by the number of each message how many were new in it."""
    end, seen, sizes = time.monotonic() + _DEADLINE_S, set[tuple[str, str]](), Counter[int]()
    for number in itertools.count(first):
        while number >= len(receivers.calls):
            if len(seen) >= RULES * _STORM_KEYS:
                return sizes
            if time.monotonic() > end:
                raise SystemExit(f"only {len(seen):,} incidents were told")
            time.sleep(0.1)
        call = receivers.calls[number]
        now = datetime.fromtimestamp(call.at, UTC)
        alerts = [
            alert for alert in call.document if (datetime.fromisoformat(alert["endsAt"]) <= now) == is_over
        ]
        names = {(alert["labels"]["rule"], alert["labels"]["key_tag_key"]) for alert in alerts}
        if new := names - seen:
            sizes[number] = len(new)
            seen |= new
    raise AssertionError


def _list_written(on: Stack, since: float, kind: type[Message]) -> list[float]:
    """List when Kafka took the records of one type."""
    wanted = kind.DESCRIPTOR.full_name.encode()
    found = (
        ages.written_at(message)
        for message in ages.messages(on.kafka, since, topics.ALERTS)
        if dict(message.headers() or ()).get("ce_type") == wanted
    )
    return sorted(found)


# ---- Restart -----------------------------------------------------------------------------------------------

EVENTS: Final = 1_000_000
LONGEST_START_S: Final = 30.0
_ALERTS: Final = 10_000
_OF_AN_INCIDENT: Final = 4


def restart(on: Stack) -> bool:
    """Start a monitor on a log of 1,000,000 events."""
    with receiving() as receivers, monitoring(on, receivers) as (_, empty_s):
        pass
    _write_history(on)
    with receiving() as receivers, monitoring(on, receivers) as (_, took_s):
        pass
    print(
        f"start of a monitor on {EVENTS:,} events of {_ALERTS:,} alerts: {took_s:.1f} s, {empty_s:.1f} s on a"
        " log without them",
        flush=True,
    )
    return took_s <= LONGEST_START_S


def _write_history(on: Stack) -> None:
    """Write incidents one after another, each with its begin, its end, and what became of their notices."""
    # as services write it: uncompressed
    producer = Producer({"bootstrap.servers": on.kafka, "linger.ms": 20, "enable.idempotence": True})
    consumer = Consumer({"bootstrap.servers": on.kafka, "group.id": "bench"})
    epoch = consumer.get_watermark_offsets(TopicPartition(topics.ALERTS, 0), 30)[1]
    consumer.close()
    claim = alerts_pb2.MonitorStarted(monitor_id="bench/0/0", host="bench")
    for number, event in enumerate(itertools.chain([claim], _list_events(epoch))):
        draft = Draft(f"bench-{number}", "/bench", "bench", datetime.now(UTC), event)
        value = event.SerializeToString()
        while True:
            try:
                producer.produce(topics.ALERTS, value, "bench", partition=0, headers=draft.headers())
                break
            except BufferError:
                producer.poll(0.05)
    producer.flush()


def _list_events(epoch: int) -> Iterator[Message]:
    for number in range(EVENTS // _OF_AN_INCIDENT):
        incident, alert = divmod(number, _ALERTS)
        meta = alerts_pb2.AlertMeta(
            epoch=epoch,
            dagger=f"dagger-{alert // 100}",
            condition=alerts_pb2.ALERT_CONDITION_RULE,
            incident=incident + 1,
            rule="errors",
            key={"tag_api": f"api-{alert % 100}"},
        )
        fired = alerts_pb2.AlertFired(
            meta=meta, severity=alerts_pb2.ALERT_SEVERITY_ERROR, summary="too many errors",
            team=TEAM, receivers=["slack"],
        )  # fmt: skip
        yield fired
        yield _build_sent(meta, alerts_pb2.ALERT_NOTICE_FIRED)
        yield alerts_pb2.AlertResolved(meta=meta, summary="it is well again")
        yield _build_sent(meta, alerts_pb2.ALERT_NOTICE_RESOLVED)


def _build_sent(
    meta: alerts_pb2.AlertMeta, notice: alerts_pb2.AlertNotice.ValueType
) -> alerts_pb2.NotificationSent:
    return alerts_pb2.NotificationSent(meta=meta, notice=notice, receiver="slack", attempt=1)


# ---- Simulation --------------------------------------------------------------------------------------------

_HISTORY_TOPIC: Final = "histories"
DAYS, HISTORY_RATE = 7, 10
LONGEST_SIMULATION_S: Final = 10.0


def simulation(on: Stack) -> bool:
    """Run `daggers alerts test` over the records of seven days."""
    records = DAYS * 86_400 * HISTORY_RATE
    dagger.prepare(on, _HISTORY_TOPIC)
    start = int(time.time()) // 60 * 60 - DAYS * 86_400
    workload.fill(on.kafka, _HISTORY_TOPIC, records, start=start, rate=HISTORY_RATE)
    document = {
        "name": "simulated", "team": TEAM, "cluster": "local", "sql": _sql("vehicle_type", 60),
        "streams": [{"stream": _HISTORY_TOPIC, "table": "data_stream"}],
        "sinks": [{"log": {}}],
        "alerts": [
            {"name": "many", "when": f"{COUNT} > 190", "for": "2 windows"},
            {"name": "few", "when": f"{COUNT} < 110", "clear": "10 %"},
        ],
    }  # fmt: skip
    took = []
    for _ in range(3):
        begin = time.monotonic()
        answer = on.run_with_file(document, "alerts", "test", "--last", f"{DAYS}d")
        took.append(time.monotonic() - begin)
    if answer["read"]["records"] != records:
        raise SystemExit(f"not the {records} records were read: {answer['read']}")
    texts = ", ".join(f"{seconds:.1f} s" for seconds in took)
    print(f"simulation of {DAYS} days, {records:,} records: {min(took):.1f} s of {texts}", flush=True)
    return min(took) <= LONGEST_SIMULATION_S


# ------------------------------------------------------------------------------------------------------------

PARTS: Final[dict[str, Part]] = {part.__name__: part for part in (judging, delay, storm, restart, simulation)}


def main() -> int:
    """Print a line for each part; return 1 where a bar is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    names = chosen(parser, parser.parse_args().parts, PARTS)
    print(header("pyspark", "confluent-kafka", "aiokafka"), flush=True)
    with stack() as on:
        on.end("health-monitor")  # the bench has its own
        missed = [name for name in names if not PARTS[name](on)]
    print(f"missed: {', '.join(missed) or 'none'}")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
