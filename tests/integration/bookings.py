"""Booking events on fresh topics, and the plain recount their windows are compared with."""

import itertools
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

import yaml
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from google.protobuf import descriptor_pb2, message_factory
from grpc_tools import protoc
from tests.integration.cli import Cli

PROTO = Path(__file__).with_name("booking.proto")
COUNT_SQL = """\
SELECT city_id AS tag_city_id, count(1) AS num_of_bookings,
       TUMBLE_END(rowtime, INTERVAL '60' SECOND) AS window_timestamp
FROM `data_stream` WHERE status = 'COMPLETED'
GROUP BY TUMBLE(rowtime, INTERVAL '60' SECOND), city_id"""
WINDOW_S = 60
NOON = int(datetime(2026, 1, 1, 12, tzinfo=UTC).timestamp())


@cache
def message_class() -> Any:
    """The class of it.v1.Booking, built from the .proto file."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "set.pb"
        well_known = Path(protoc.__file__).parent / "_proto"
        code = protoc.main(
            ["protoc", f"-I{PROTO.parent}", f"-I{well_known}", "--include_imports",
             f"--descriptor_set_out={out}", PROTO.name]
        )  # fmt: skip
        assert code == 0
        files = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())
    return message_factory.GetMessages(files.file)["it.v1.Booking"]


def booking(
    second: float, *, status: str = "COMPLETED", city_id: int = 1, order: str = "", fare: float = 1.5
) -> bytes:
    """One encoded booking, `second` seconds of event time after noon."""
    message = message_class()(
        order_number=order, status=status, city_id=city_id, vehicle_type="bike", fare=fare
    )
    message.event_timestamp.FromMilliseconds(round((NOON + second) * 1000))
    encoded: bytes = message.SerializeToString()
    return encoded


@dataclass
class Bookings:
    """A fresh topic with a stream on it, and what was written there."""

    bootstrap_servers: str
    cli: Cli
    partitions: int = 1
    name: str = field(default_factory=lambda: f"bookings-{uuid4().hex[:8]}")
    config: Mapping[str, str] = field(default_factory=dict)
    """Of the topic."""
    producer: Mapping[str, str | int] = field(default_factory=dict)
    """Further properties of the producer."""
    cluster: str = "local"
    """Name of the cluster of stream and daggers."""

    def __post_init__(self) -> None:
        """Create the topic and register the stream."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        topic = NewTopic(self.name, self.partitions, 1, config=dict(self.config))
        for done in admin.create_topics([topic]).values():
            done.result(30)
        self._producer = Producer({"bootstrap.servers": self.bootstrap_servers, **self.producer})
        self.cli("schema", "register", PROTO)
        self.cli(
            "stream", "register", self.name, "--cluster", self.cluster, "--topic", self.name,
            "--message", "it.v1.Booking", "--time-field", "event_timestamp",
        )  # fmt: skip

    def produce(self, value: bytes, *, partition: int = 0, kafka_time_ms: int | None = None) -> None:
        """Queue one record; its Kafka timestamp is now unless given."""
        stamp = {} if kafka_time_ms is None else {"timestamp": kafka_time_ms}
        while True:
            try:
                self._producer.produce(self.name, value, partition=partition, **stamp)
            except BufferError:  # more wait than it takes at once
                self._producer.poll(1)
            else:
                self._producer.poll(0)
                return

    def flush(self) -> None:
        """Wait until the broker has everything."""
        assert self._producer.flush(30) == 0

    def write(self, values: Iterable[bytes]) -> None:
        """Write encoded records to partition 0 and wait until the broker has them."""
        for value in values:
            self.produce(value)
        self.flush()

    def dagger(self, folder: Path, **changes: Any) -> tuple[str, Path]:
        """A dagger file over this stream: name and path.

        `changes` replace keys; `start` and `idle_timeout` are the stream's.
        """
        stream = {"table": "data_stream", "stream": self.name, "watermark_delay": "5s",
                  "idle_timeout": changes.pop("idle_timeout", "5s"),
                  "start": changes.pop("start", "earliest")}  # fmt: skip
        name = f"d-{uuid4().hex[:8]}"
        spec = {"name": name, "team": "it", "cluster": self.cluster, "streams": [stream], "sql": COUNT_SQL,
                "sinks": [{"influx": {}}], "trigger": "1s", "emit": "final"}  # fmt: skip
        path = folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(spec | changes, sort_keys=False))
        return name, path


class Feed:
    """Writes the bookings of a second of event time five times a second, for as long as it is entered.

    `cities`: who has one in a second.
    """

    def __init__(self, stream: Bookings, cities: Callable[[int], Iterable[int]]) -> None:
        self.events: list[tuple[float, int]] = []
        """What was written: seconds since the epoch, and the city."""
        self.order = ""
        """The order number of what is written next."""
        self._stream, self._cities = stream, cities
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def _write(self) -> None:
        for second in itertools.count():
            cities, order = list(self._cities(second)), self.order
            self._stream.write(booking(second, city_id=city, order=order) for city in cities)
            self.events.extend((NOON + second, city) for city in cities)
            if self._enough.wait(0.2):
                return

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        self._thread.join()


def recount(events: Iterable[tuple[float, int]], window_s: int = WINDOW_S) -> Counter[tuple[str, str]]:
    """How many events each (window end, city) has; `events` are (second after noon, city_id)."""
    return Counter((window_end(second, window_s), str(city)) for second, city in events)


def counted(rows: Iterable[Mapping[str, Any]]) -> Counter[tuple[str, str]]:
    """The same table from a dagger's rows."""
    keys = Counter({(row["window_timestamp"], row["tags"]["tag_city_id"]): 0 for row in rows})
    for row in rows:
        keys[(row["window_timestamp"], row["tags"]["tag_city_id"])] += row["fields"]["num_of_bookings"]
    return keys


def window_end(second: float, window_s: int = WINDOW_S) -> str:
    """End of the window that holds a second after noon, as `daggers rows` writes it."""
    end = (int(NOON + second) // window_s + 1) * window_s
    return datetime.fromtimestamp(end, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def spread(seconds: Iterable[float], cities: int) -> list[tuple[float, int]]:
    """Events at these seconds, cities in turn."""
    return list(zip(seconds, itertools.cycle(range(1, cities + 1)), strict=False))
