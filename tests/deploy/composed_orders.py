"""Orders of docs/own-schema.md that are fed into a deployment, and what its daggers make of them."""

from __future__ import annotations

import csv
import io
import json
import random
import threading
import time
import urllib.request
from collections import Counter
from datetime import datetime
from importlib import util
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, Message, Producer
from grpc_tools import protoc
from tests.deploy.composed import Deployment, say
from tests.walks.walk_analyst import steps

MINUTE_MS = 60_000
GRACE_MS = 30_000
"""A window that ended less than this ago may not be written yet."""
NAMES = ("coffee_first", "coffee_second")
TEAM = "pricing"
"""Of both; Compose registers it, with a bucket of this name."""
DAGGER = """\
name: {name}
team: pricing
cluster: compose
streams:
  - {{table: data_stream, stream: coffee_orders, watermark_delay: 10s, idle_timeout: 10s, start: latest}}
sql: |
  SELECT city AS tag_city, count(1) AS orders, sum(price) AS turnover,
         TUMBLE_END(rowtime, INTERVAL '60' SECOND) AS window_timestamp
  FROM data_stream GROUP BY TUMBLE(rowtime, INTERVAL '60' SECOND), city
sinks:
  - {{influx: {{measurement: {name}}}{beside}}}
trigger: 1s
emit: final
"""


class Feed:
    """Orders, each stamped just before it is sent, and what Kafka has of them.

    The next are stamped when those before are acknowledged: while Kafka is away time stands still, and
    nothing is late.
    """

    def __init__(self, ours: Deployment, order: Any) -> None:
        self.sent: list[tuple[int, str, int]] = []
        """Event time (ms), city, price in cents."""
        self.refused = 0
        """How often an order was refused, as one that nobody may write; it was sent again then."""
        self._again: list[tuple[int, str, int]] = []
        self._order = order
        self._producer = Producer(
            {"bootstrap.servers": ours.kafka, "enable.idempotence": True, "message.timeout.ms": 3_600_000,
             "log_level": 0}
        )  # fmt: skip
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._longest = 0.0

    def __enter__(self) -> Feed:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Send no more, and wait until Kafka has all."""
        self._stop.set()
        self._thread.join()

    def pause(self) -> float:
        """The longest time that Kafka took to acknowledge since this was called before, in seconds."""
        longest, self._longest = self._longest, 0.0
        return longest

    def _run(self) -> None:
        while not self._stop.wait(0.25):
            begun = time.monotonic()
            for _ in range(10):
                at = int((time.time() - random.random()) * 1000)
                self._send((at, random.choice(["berlin", "jakarta"]), random.randint(200, 600)))
            while self._producer.flush(1) or self._again:
                again, self._again = self._again, []
                time.sleep(0.2 if again else 0)
                for order in again:
                    self._send(order)
            self._longest = max(self._longest, time.monotonic() - begun)

    def _send(self, sent: tuple[int, str, int]) -> None:
        at, city, cents = sent
        order = self._order(city=city, price=cents / 100)
        order.placed_at.FromMilliseconds(at)

        def acknowledged(error: KafkaError | None, _: Message) -> None:
            if error is None:
                self.sent.append(sent)
                return
            # Kafka has just learned that there are rules, and not yet which.
            assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED, error
            self.refused += 1
            self._again.append(sent)

        self._producer.produce("coffee-orders", order.SerializeToString(), on_delivery=acknowledged)


def forged(ours: Deployment) -> int | None:
    """Why a record that a stranger writes to the control topic is refused, as a code of Kafka."""
    codes = []
    producer = Producer({"bootstrap.servers": ours.kafka, "message.timeout.ms": 20_000, "log_level": 0})
    producer.produce(
        "daggers.control", b"x", on_delivery=lambda error, _: codes.append(error and error.code())
    )
    producer.flush(60)
    [code] = codes
    return code


def order_class(folder: Path) -> Any:
    """The message of docs/own-schema.md."""
    (folder / "coffee.proto").write_text(next(step.text for step in steps() if step.language == "protobuf"))
    well_known = Path(protoc.__file__).parent / "_proto"
    code = protoc.main(["", f"-I{folder}", f"-I{well_known}", f"--python_out={folder}", "coffee.proto"])
    assert code == 0
    spec = util.spec_from_file_location("coffee_pb2", folder / "coffee_pb2.py")
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Order


def windows(feed: Feed, since: int, upto: int) -> dict[tuple[int, str], tuple[int, int]]:
    """Orders and cents of each window (its end in ms) and city, counted in plain Python."""
    orders, cents = Counter[tuple[int, str]](), Counter[tuple[int, str]]()
    for at, city, price in feed.sent:
        if since < (end := (at // MINUTE_MS + 1) * MINUTE_MS) <= upto:
            orders[end, city] += 1
            cents[end, city] += price
    return {key: (orders[key], cents[key]) for key in orders}


def written(
    ours: Deployment, name: str, since: int, upto: int, bucket: str = "daggers"
) -> dict[tuple[int, str], tuple[int, int]]:
    """The same, as InfluxDB has it."""
    flux = f'from(bucket: "{bucket}") |> range(start: -30d) |> filter(fn: (r) => r._measurement == "{name}")'
    token = ours("exec", "-T", "influxdb", "cat", "/run/daggers/influx/token").strip()
    request = urllib.request.Request(
        f"http://127.0.0.1:{ours.ports['INFLUXDB_PORT']}/api/v2/query?org=daggers",
        json.dumps({"query": flux, "dialect": {"annotations": []}}).encode(),
        {"content-type": "application/json", "authorization": f"Token {token}"},
    )
    values: dict[tuple[int, str], dict[str, float]] = {}
    with urllib.request.urlopen(request, timeout=60) as answer:
        tables = answer.read().decode().split("\r\n\r\n")
    for table in tables:
        for row in csv.DictReader(io.StringIO(table.strip())):
            end = round(datetime.fromisoformat(row["_time"]).timestamp() * 1000)
            if since < end <= upto:
                values.setdefault((end, row["tag_city"]), {})[row["_field"]] = float(row["_value"])
    return {key: (int(of["orders"]), round(of["turnover"] * 100)) for key, of in values.items()}


def launched(ours: Deployment, feed: Feed, in_team_bucket: str = "") -> int:
    """Register what is fed and apply both daggers; from which time (ms) on each window is whole.

    `in_team_bucket`: the one that writes to the bucket of its team.
    """
    ours.try_("run", "--rm", "-T", "daggers", "schema", "register", "coffee.proto")
    while not feed.sent:
        time.sleep(0.2)  # the first records make the topic
    ours.daggers(
        "stream", "register", "coffee_orders", "--cluster", "compose", "--topic", "coffee-orders",
        "--message", "coffee.v1.Order", "--time-field", "placed_at",
    )  # fmt: skip
    for name in NAMES:
        beside = ", registered: metrics" if name == in_team_bucket else ""
        (ours.folder / f"{name}.yaml").write_text(DAGGER.format(name=name, beside=beside))
        ours.daggers("apply", f"{name}.yaml", "--wait", "--timeout", "400", timeout=600)
    return (int(time.time() * 1000) // MINUTE_MS + 2) * MINUTE_MS


def generations(ours: Deployment) -> dict[str, int]:
    """How often each dagger was launched."""
    shown = json.loads(ours.daggers("list", "-o", "json"))
    return {dagger["name"]: dagger["generation"] for dagger in shown}


def running(ours: Deployment, above: dict[str, int] | None = None, deadline_s: float = 420) -> float:
    """Wait until daggers are RUNNING; how long that took, in seconds.

    above: the launches that are over, by dagger.
    """
    begun = time.monotonic()
    while True:
        done = ours.try_("run", "--rm", "-T", "daggers", "list", "-o", "json")
        if done.returncode == 0:
            run = {
                dagger["name"]: dagger["generation"]
                for dagger in json.loads(done.stdout)
                if dagger["phase"] == "RUNNING"
            }
            if all(run.get(name, -1) > (above or {}).get(name, -1) for name in NAMES):
                return time.monotonic() - begun
        assert time.monotonic() < begun + deadline_s, f"not RUNNING: {done.stdout}{done.stderr}"
        time.sleep(2)  # polling a deployment; bounded by the deadline


def restart_loops(ours: Deployment) -> list[str]:
    """Which daggers a RESTART_LOOP has fired for, though it may be over."""
    alerts = json.loads(ours.daggers("alerts", "list", "--all", "-o", "json"))
    say(f"alerts: {[(alert['dagger'], alert['condition']) for alert in alerts]}")
    return [alert["dagger"] for alert in alerts if alert["condition"] == "RESTART_LOOP"]


def recounted(ours: Deployment, feed: Feed, since: int, in_team_bucket: str = "") -> bool:
    """Whether the rows of both daggers are what was fed, once all that was fed is written."""
    time.sleep(GRACE_MS / 1000)
    upto = max(at for at, *_ in feed.sent) - GRACE_MS
    counted = windows(feed, since, upto)
    records = sum(orders for orders, _ in counted.values())
    equal = records > 0
    for name in NAMES:
        bucket = TEAM if name == in_team_bucket else "daggers"
        stored = written(ours, name, since, upto, bucket)
        missing, extra = counted.keys() - stored.keys(), stored.keys() - counted.keys()
        wrong = [key for key in counted.keys() & stored.keys() if counted[key] != stored[key]]
        say(f"{name}: {records} records in {len(counted)} rows: missing {len(missing)}, extra {len(extra)},"
            f" wrong {len(wrong)}")  # fmt: skip
        equal = equal and stored == counted
    return equal
