"""The common workload: bookings of about 170 bytes on 4 partitions, event time one second per RATE records.

    .venv/bin/python bench/workload.py COUNT TOPIC BOOTSTRAP_SERVERS [RATE]
    .venv/bin/python bench/workload.py --live RATE TOPIC[,TOPIC …] BOOTSTRAP_SERVERS [PARTITIONS]

With 4,000,000 records at the default rate the first seed query has exactly 23,932 rows, whose counts add up
to 2,406,181 (1,003,312 in one window, 1,402,869 in the other).
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from google.protobuf import descriptor_pb2, message_factory
from grpc_tools import protoc

PROTO = Path(__file__).with_name("booking.proto")
MESSAGE, TIME_FIELD = "bench.v1.BookingLogMessage", "event_timestamp"
PARTITIONS = 4
RATE = 41_667
START = 1_700_000_000
ROWS, COUNTED = 23_932, 2_406_181
_POOL = 20_000


def compile_files(proto: Path = PROTO) -> descriptor_pb2.FileDescriptorSet:
    """Compile a file and all that it imports, in dependency order."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "set.pb"
        google = resources.files("grpc_tools") / "_proto"
        options = ["protoc", f"-I{proto.parent}", f"-I{google}", "--include_imports"]
        if protoc.main([*options, f"--descriptor_set_out={out}", proto.name]) != 0:
            raise SystemExit(f"{proto} does not compile")
        return descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())


@cache
def message_class(proto: Path = PROTO, message: str = MESSAGE) -> Any:
    """The class of a message, unless another is asked for that of the workload."""
    return message_factory.GetMessages(compile_files(proto).file)[message]


def create_topic(bootstrap_servers: str, topic: str, partitions: int = PARTITIONS) -> None:
    """A topic with so many partitions; fails when there is one."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    for done in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
        done.result(30)


def bodies(chance: random.Random) -> list[Any]:
    """Bookings without a time, to be stamped and written again and again."""
    kinds = ["bike", "car", "truck", "van"]
    pool = []
    for number in range(_POOL):
        booking = message_class()(
            order_number=f"RB-{number:09d}", status=chance.choices([1, 2, 3], [2, 6, 2])[0],
            city_id=chance.randrange(1, 50), vehicle_type=chance.choice(kinds),
            lat=-6.4 + chance.random() * 0.9, long=106.5 + chance.random() * 0.9,
            fare=chance.random() * 100000, driver_id=f"driver-{chance.randrange(200000):06d}",
            pickup_address=f"Jalan {chance.randrange(10**6)} No. {chance.randrange(200)}, Jakarta Selatan",
            promo_codes=[f"PROMO{chance.randrange(99)}"],
        )  # fmt: skip
        booking.customer.id = str(chance.randrange(10**7))
        booking.customer.name = f"Customer {chance.randrange(10**6)}"
        booking.customer.phone = f"+62812{chance.randrange(10**8):08d}"
        pool.append(booking)
    return pool


def fill(
    bootstrap_servers: str,
    topic: str,
    count: int,
    *,
    start: int = START,
    rate: int = RATE,
    pool: Callable[[random.Random], list[Any]] = bodies,
    time_field: str = TIME_FIELD,
) -> None:
    """Write `count` records, in event time from `start` (seconds) on; the same ones every time."""
    chance = random.Random(7)
    records = pool(chance)
    producer = open_producer(bootstrap_servers)
    for number in range(count):
        record = records[chance.randrange(len(records))]
        time_ = getattr(record, time_field)
        time_.seconds, time_.nanos = start + number // rate, (number % rate) * (1_000_000_000 // rate)
        write(producer, topic, number, record)
    producer.flush()


def live(bootstrap_servers: str, topics: Sequence[str], rate: int, partitions: int = PARTITIONS) -> None:
    """Write `rate` records a second to each topic, in event time as they are written, until the process is
    ended.
    """
    chance = random.Random(7)
    pool = bodies(chance)
    producer = open_producer(bootstrap_servers)
    begin, written = time.monotonic(), 0
    while True:
        time.sleep(0.02)
        now = time.time_ns()
        due = int((time.monotonic() - begin) * rate)
        for number in range(written, due):
            booking = pool[chance.randrange(_POOL)]
            booking.event_timestamp.seconds, booking.event_timestamp.nanos = divmod(now, 1_000_000_000)
            for topic in topics:
                write(producer, topic, number, booking, partitions)
        written = due


@contextmanager
def feeding(
    bootstrap_servers: str, rate: int, topic: str = "bookings", partitions: int = PARTITIONS
) -> Iterator[None]:
    """Have another process write `rate` records a second while the context is open, to each topic where there
    are several, with commas between them.
    """
    command = [sys.executable, __file__, "--live", str(rate), topic, bootstrap_servers, str(partitions)]
    feeder = subprocess.Popen(command)
    try:
        yield
    finally:
        feeder.terminate()
        feeder.wait()


def open_producer(bootstrap_servers: str) -> Producer:
    """A producer for many records."""
    return Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "linger.ms": 20,
            "batch.num.messages": 10_000,
            "queue.buffering.max.messages": 500_000,
            "compression.type": "lz4",
        }
    )


def write(producer: Producer, topic: str, number: int, booking: Any, partitions: int = PARTITIONS) -> None:
    """Write the record with this number, to the partition that follows from it."""
    value = booking.SerializeToString()
    while True:
        try:
            producer.produce(topic, value, partition=number % partitions)
            break
        except BufferError:
            producer.poll(0.05)
    if number % _POOL == 0:
        producer.poll(0)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        print(__doc__)
        sys.exit("--help" not in sys.argv)
    if sys.argv[1] == "--live":
        live(sys.argv[4], sys.argv[3].split(","), int(sys.argv[2]), *map(int, sys.argv[5:]))
    create_topic(sys.argv[3], sys.argv[2])
    fill(sys.argv[3], sys.argv[2], int(sys.argv[1]), rate=int(sys.argv[4]) if len(sys.argv) > 4 else RATE)
