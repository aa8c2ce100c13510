"""The native consumer and Python's give the same records, byte for byte, and meet the same errors."""

from __future__ import annotations

import ctypes
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
import structlog
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from services.runtime.tests.source_assignment import reader_plan
from services.runtime.tests.source_native import topic_of
from services.runtime.tests.source_preaggregate import MINUTE
from services.runtime.tests.source_ranges import send, send_in_transactions
from services.runtime.tests.streams import FILES, booking

from daggersql import Condition, Field, Partial, PartialAggregation
from runtime.decode.decoder import find_message, message_pool
from runtime.errors import JobError
from runtime.source.offsets import Partition
from runtime.source.reader import native_library
from runtime.source.reader.consumers import ConsumerCache, Open
from runtime.source.reader.control_rows import RangeStatistics, statistics_row
from runtime.source.reader.native_consumer import NativeConsumer
from runtime.source.reader.native_library import NativeLibrary
from runtime.source.reader.preaggregate import PreAggregation
from runtime.source.reader.python_consumer import PythonConsumer
from runtime.source.reader.rows import Rows
from runtime.source.records import HEADERS_COLUMN, LIMITS, Limits, Properties, Records
from runtime.source.tasks import OffsetRange

pytestmark = pytest.mark.timeout(100)
PATIENCE_S = 60
_MIB = 2**20
_FETCH = 1  # of Kafka's protocol
SMALL = [LIMITS, Limits(records=7), Limits(bytes=100)]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> NativeLibrary:
    """The native reader, built for this run."""
    folder = tmp_path_factory.mktemp("native")
    why = native_library.build(folder)
    if "no C compiler" in why:
        pytest.skip(why)
    assert not why, why
    return NativeLibrary(native_library.place(folder))


def both(library: NativeLibrary, limits: Limits = LIMITS) -> list[Open]:
    """Opens the native consumer, and Python's."""
    return [partial(NativeConsumer, library, limits=limits), partial(PythonConsumer, limits=limits)]


def read(open_: Open, kafka: str, wanted: OffsetRange, *, paths: tuple[str, ...] = ()) -> list[Records]:
    """The records of a range as they came, for a query that reads these paths."""
    plan = replace(reader_plan(Path()), kafka={"bootstrap.servers": kafka}, paths=paths)
    with closing(ConsumerCache(open_)) as cache:
        return list(cache.read(plan, wanted, 1))


def whole(pieces: Sequence[Records]) -> dict[str, list[object]]:
    """All columns of all of them."""
    for piece in pieces:
        piece.values.validate(full=True)
        piece.keys.validate(full=True)
    return {
        "offsets": [value for piece in pieces for value in piece.offsets.tolist()],
        "times": [value for piece in pieces for value in piece.times.tolist()],
        "values": [value for piece in pieces for value in piece.values.to_pylist()],
        "keys": [value for piece in pieces for value in piece.keys.to_pylist()],
    }


# ---- On a broker of librdkafka's own, which fails on demand ------------------------------------------------


class TestBroker:
    """librdkafka's broker for tests, in this process."""

    __test__ = False

    def __init__(self) -> None:
        self._kafka = kafka = ctypes.CDLL(native_library.cimpl.__file__)
        pointer, text, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
        for name, arguments, answer in (
            ("rd_kafka_conf_new", [], pointer),
            ("rd_kafka_new", [ctypes.c_int, pointer, pointer, size], pointer),
            ("rd_kafka_conf_set", [pointer, text, text, pointer, size], ctypes.c_int),
            ("rd_kafka_destroy", [pointer], None),
            ("rd_kafka_mock_cluster_new", [pointer, ctypes.c_int], pointer),
            ("rd_kafka_mock_cluster_destroy", [pointer], None),
            ("rd_kafka_mock_cluster_bootstraps", [pointer], text),
            ("rd_kafka_mock_broker_set_down", [pointer, ctypes.c_int32], ctypes.c_int),
            ("rd_kafka_mock_broker_set_up", [pointer, ctypes.c_int32], ctypes.c_int),
            ("rd_kafka_mock_push_request_errors_array", [pointer, ctypes.c_int16, size, pointer], None),
        ):  # fmt: skip
            function = getattr(kafka, name)
            function.argtypes, function.restype = arguments, answer
        conf = kafka.rd_kafka_conf_new()
        kafka.rd_kafka_conf_set(conf, b"log_level", b"0", None, 0)
        self._handle = kafka.rd_kafka_new(0, conf, None, 0)
        self._cluster = kafka.rd_kafka_mock_cluster_new(self._handle, 1)
        self.address: str = kafka.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()

    def fails(self, *codes: int) -> None:
        """Answers the next requests for records with these errors."""
        self._kafka.rd_kafka_mock_push_request_errors_array(
            self._cluster, _FETCH, len(codes), (ctypes.c_int * len(codes))(*codes)
        )

    def goes_away(self) -> None:
        """Drops its connections and takes none."""
        self._kafka.rd_kafka_mock_broker_set_down(self._cluster, 1)

    def comes_back(self) -> None:
        self._kafka.rd_kafka_mock_broker_set_up(self._cluster, 1)

    def close(self) -> None:
        self._kafka.rd_kafka_mock_cluster_destroy(self._cluster)
        self._kafka.rd_kafka_destroy(self._handle)


@pytest.fixture
def broker() -> Iterator[TestBroker]:
    with closing(TestBroker()) as made:
        yield made


def test_a_topic_that_is_denied_is_told_in_the_same_sentence(
    broker: TestBroker, library: NativeLibrary
) -> None:
    partition = Partition("refused", 0)
    send(broker.address, partition, range(3))
    told = []
    for open_ in both(library):
        broker.fails(*[KafkaError.TOPIC_AUTHORIZATION_FAILED] * 3)
        with pytest.raises(JobError, match="KAFKA_DENIED") as caught:
            read(open_, broker.address, OffsetRange(partition, "id", 0, 9))
        told.append(str(caught.value))

    assert told[0] == told[1]


@pytest.mark.parametrize(
    "wrong",
    [
        {"nonsense": "1"},
        {"security.protocol": "nonsense"},
        {"fetch.wait.max.ms": "-9"},
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"},
    ],
    ids=str,
)
def test_what_librdkafka_refuses_of_a_configuration_is_told_in_the_same_sentence(
    library: NativeLibrary, wrong: Properties
) -> None:
    properties = {"group.id": "g", "log_level": 0, **wrong}
    told = []
    for open_ in both(library):
        with pytest.raises(KafkaException) as caught:
            open_(properties, Partition("t", 0))
        told.append(repr(caught.value))

    assert told[0] == told[1]


def test_a_broker_that_goes_away_is_waited_for(broker: TestBroker, library: NativeLibrary) -> None:
    partition = Partition("away", 0)
    send(broker.address, partition, range(10))
    found = []
    for open_ in both(library):
        properties = {"bootstrap.servers": broker.address, "reconnect.backoff.max.ms": "200"}
        plan = replace(reader_plan(Path()), kafka=properties)
        with closing(ConsumerCache(open_)) as cache:
            before = list(cache.read(plan, OffsetRange(partition, "id", 0, 4), 1))
            broker.goes_away()
            started: Iterator[Records] = cache.read(plan, OffsetRange(partition, "id", 2, 9), 1)
            broker.comes_back()
            found.append((whole(before)["offsets"], whole(list(started))["offsets"]))

    assert found == [([0, 1, 2, 3], [2, 3, 4, 5, 6, 7, 8])] * 2


def test_a_consumer_is_closed_twice_without_harm_and_with_records_waiting(
    broker: TestBroker, library: NativeLibrary
) -> None:
    partition = Partition("closed", 0)
    send(broker.address, partition, range(100))
    for open_ in both(library, Limits(bytes=1)):
        consumer = open_({"bootstrap.servers": broker.address, "group.id": "g"}, partition)
        consumer.assign(0)
        first = next(_some(consumer.next))
        consumer.close()
        consumer.close()

        assert first.values.to_pylist() == [b"0"]


def _some(take: Callable[[int, float], object]) -> Iterator[Records]:
    """The records that come, within a time."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if isinstance(came := take(100, 0.1), Records):
            yield came


def test_what_waits_is_dropped_when_another_place_is_read(broker: TestBroker, library: NativeLibrary) -> None:
    partition = Partition("moved", 0)
    send(broker.address, partition, range(100))
    found = []
    for open_ in both(library, Limits(bytes=1)):
        consumer = open_({"bootstrap.servers": broker.address, "group.id": "g"}, partition)
        consumer.assign(0)
        first = next(_some(consumer.next)).offsets.tolist()
        consumer.assign(50)
        found.append([first, next(_some(consumer.next)).offsets.tolist()])
        consumer.close()

    assert found == [[[0], [50]]] * 2


def test_who_is_not_assigned_gets_nothing_and_goes_on_where_it_is_assigned(
    broker: TestBroker, library: NativeLibrary
) -> None:
    partition = Partition("left", 0)
    send(broker.address, partition, range(100))
    found = []
    for open_ in both(library, Limits(bytes=1)):
        consumer = open_({"bootstrap.servers": broker.address, "group.id": "g"}, partition)
        consumer.assign(0)
        first = next(_some(consumer.next)).offsets.tolist()
        consumer.unassign()
        nothing = consumer.next(100, 0.2)
        consumer.assign(1)
        found.append([first, nothing, next(_some(consumer.next)).offsets.tolist()])
        consumer.close()

    assert found == [[[0], None, [1]]] * 2


class _Recorded(PythonConsumer):
    """Keeps whether it was told to fetch nothing more."""

    def __init__(self, properties: Properties, partition: Partition) -> None:
        super().__init__(properties, partition)
        self.left = 0

    def unassign(self) -> None:
        self.left += 1
        super().unassign()


def test_between_small_batches_nothing_is_fetched_ahead(broker: TestBroker) -> None:
    partition = Partition("small", 0)
    send(broker.address, partition, range(LIMITS.records + 20))
    made: list[_Recorded] = []

    def open_(properties: Properties, at: Partition) -> _Recorded:
        made.append(_Recorded(properties, at))
        return made[-1]

    plan = replace(reader_plan(Path()), kafka={"bootstrap.servers": broker.address})
    ends, offsets, left = [10, 20, LIMITS.records + 20], [], []
    with closing(ConsumerCache(open_)) as cache:
        for start, end in pairwise([0, *ends]):
            pieces = list(cache.read(plan, OffsetRange(partition, "id", start, end), 1))
            offsets += whole(pieces)["offsets"]
            left.append(made[0].left)

    assert (len(made), left) == (2, [1, 2, 2])  # that of the large range goes on fetching
    assert offsets == list(range(LIMITS.records + 20))


def test_where_nothing_was_built_records_are_read_by_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    structlog.reset_defaults()  # as in a worker
    (tmp_path / "broken.so").write_bytes(b"no library")
    loaded = []
    for built in (tmp_path / "nothing.so", tmp_path / "broken.so"):
        native_library.load.cache_clear()
        monkeypatch.setattr(native_library, "place", lambda built=built: built)
        loaded.append(native_library.load())
    native_library.load.cache_clear()

    assert loaded == [None, None]
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[0] for line in lines] == ["event='reader.library_skipped'"]


def test_where_no_compiler_is_nothing_is_built_and_the_reason_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    assert native_library.build(tmp_path) == "there is no C compiler (Debian: gcc and libc6-dev)"
    assert list(tmp_path.iterdir()) == []


def test_what_a_compiler_refuses_is_told_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler, folder = tmp_path / "cc", tmp_path / "folder"
    folder.mkdir()
    compiler.write_text("#!/bin/sh\necho 'native_reader.c:1: error: no' >&2; exit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert native_library.build(folder) == f"{compiler} fails: native_reader.c:1: error: no"
    assert list(folder.iterdir()) == []


def test_what_was_built_of_another_source_goes(library: NativeLibrary, tmp_path: Path) -> None:
    assert library
    (tmp_path / "native_reader-0123456789ab.so").touch()

    assert native_library.build(tmp_path) == ""
    assert list(tmp_path.iterdir()) == [native_library.place(tmp_path)]


# ---- On a real one -----------------------------------------------------------------------------------------


@pytest.mark.integration
@pytest.mark.parametrize("codec", ["none", "lz4", "zstd", "gzip", "snappy"])
def test_every_byte_offset_and_time_is_the_same(kafka: str, library: NativeLibrary, codec: str) -> None:
    partition, chance = topic_of(kafka), random.Random(codec)
    producer = Producer({"bootstrap.servers": kafka, "compression.type": codec, "linger.ms": 5})
    count = 3_000
    for number in range(count):
        producer.produce(
            partition.topic,
            value=chance.choice([None, b"", chance.randbytes(chance.randrange(400))]),
            key=chance.choice([None, b"", f"key {number}".encode()]),
            partition=0,
            timestamp=chance.choice([0, 1, 1_700_000_000_000 + number]),
            headers={"of": b"no use"} if number % 3 else None,
        )
    producer.flush()
    native, python = both(library)
    expected = whole(read(python, kafka, OffsetRange(partition, "id", 0, count)))

    assert expected["offsets"] == list(range(count))
    for limits in SMALL:
        for open_ in both(library, limits):
            assert whole(read(open_, kafka, OffsetRange(partition, "id", 0, count))) == expected
    for start, end in ((0, 1), (count - 1, count), (17, 1_999)):
        found, known = (
            whole(read(open_, kafka, OffsetRange(partition, "id", start, end))) for open_ in (native, python)
        )
        assert found == known
        assert found["values"] == expected["values"][start:end]


@pytest.mark.integration
def test_headers_come_with_the_same_records(kafka: str, library: NativeLibrary) -> None:
    partition, chance = topic_of(kafka), random.Random(3)
    producer = Producer({"bootstrap.servers": kafka, "linger.ms": 5})
    kinds = [None, [("a", b"1"), ("a", None), ("ü", b"\xff\x00")], [("large", chance.randbytes(50_000))]]
    sent = [chance.choice(kinds) for _ in range(500)]
    for number, headers in enumerate(sent):
        value, key = chance.choice([None, b"", b"%d" % number]), chance.choice([None, b"", b"k"])
        producer.produce(partition.topic, value, key=key, partition=0, headers=headers)
    producer.flush()
    wanted, native = OffsetRange(partition, "id", 0, len(sent)), both(library)[0]
    pieces = read(native, kafka, wanted, paths=(HEADERS_COLUMN,))
    found = [pair for piece in pieces if piece.headers is not None for pair in piece.headers.to_pylist()]

    assert whole(pieces) == whole(read(native, kafka, wanted))
    assert found == [[{"key": key, "value": value} for key, value in headers or ()] for headers in sent]


@pytest.mark.integration
def test_a_topic_that_has_times_of_the_broker_has_the_same_ones(kafka: str, library: NativeLibrary) -> None:
    partition = topic_of(kafka, **{"message.timestamp.type": "LogAppendTime"})
    send(kafka, partition, range(20))
    found = [whole(read(open_, kafka, OffsetRange(partition, "id", 0, 20))) for open_ in both(library)]

    assert found[0] == found[1]
    assert min(found[0]["times"]) > 1_700_000_000_000  # type: ignore[type-var,operator]


@pytest.mark.integration
def test_transactions_leave_the_same_gaps(kafka: str, library: NativeLibrary) -> None:
    partition = topic_of(kafka)
    send_in_transactions(kafka, partition, range(10))
    found = [
        [
            whole(read(open_, kafka, OffsetRange(partition, "id", start, end)))
            for start, end in ((0, 20), (3, 17), (18, 20))
        ]
        for open_ in both(library)
    ]

    assert found[0] == found[1]
    assert found[0][0]["values"] == [b"0", b"2", b"4", b"6", b"8"]


@pytest.mark.integration
def test_large_records_come_whole_and_one_by_one(kafka: str, library: NativeLibrary) -> None:
    partition = topic_of(kafka, **{"max.message.bytes": str(12 * _MIB)})
    producer = Producer({"bootstrap.servers": kafka, "message.max.bytes": 12 * _MIB})
    chance = random.Random(1)
    sizes = [10 * _MIB, 3, 10 * _MIB, 9 * _MIB, 2, 10 * _MIB]
    values = [chance.randbytes(size) for size in sizes]
    for value in values:
        producer.produce(partition.topic, value, partition=0)
        producer.flush()
    for open_ in both(library):
        pieces = read(open_, kafka, OffsetRange(partition, "id", 0, len(values)))

        assert [value for piece in pieces for value in piece.values.to_pylist()] == values
        assert max(piece.values.nbytes for piece in pieces) < 17 * _MIB


@pytest.mark.integration
def test_records_that_were_deleted_meanwhile_are_left_out_alike(kafka: str, library: NativeLibrary) -> None:
    partition = topic_of(kafka)
    send(kafka, partition, range(20))
    admin = AdminClient({"bootstrap.servers": kafka})
    [deleted] = admin.delete_records([TopicPartition(partition.topic, 0, 5)]).values()
    deleted.result()
    found = [whole(read(open_, kafka, OffsetRange(partition, "id", 2, 20))) for open_ in both(library)]

    assert found[0] == found[1]
    assert found[0]["offsets"] == list(range(5, 20))


@pytest.mark.integration
def test_a_topic_that_is_shorter_than_its_range_is_told_in_the_same_sentence(
    kafka: str, library: NativeLibrary
) -> None:
    partition = topic_of(kafka)
    send(kafka, partition, range(20))
    told = []
    for open_ in both(library):
        with pytest.raises(JobError, match="TOPIC_TRUNCATED") as caught:
            read(open_, kafka, OffsetRange(partition, "id", 30, 40))
        told.append(str(caught.value))

    assert told[0] == told[1]


@pytest.mark.integration
@pytest.mark.long
def test_compaction_leaves_the_same_gaps(kafka: str, library: NativeLibrary) -> None:
    partition = topic_of(
        kafka,
        **{"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "100",
           "max.compaction.lag.ms": "100", "delete.retention.ms": "100"},
    )  # fmt: skip
    producer = Producer({"bootstrap.servers": kafka})
    end = time.monotonic() + 2 * PATIENCE_S
    count, expected = 0, {"offsets": [0]}
    native, python = both(library)
    while len(expected["offsets"]) in (count, 1):  # nothing was compacted so far
        assert time.monotonic() < end, "the broker does not compact"
        for number in range(50):
            producer.produce(partition.topic, str(number), key=str(number % 5), partition=0)
        producer.flush()
        count += 50
        expected = whole(read(python, kafka, OffsetRange(partition, "id", 0, count)))
    while True:
        found = whole(read(native, kafka, OffsetRange(partition, "id", 0, count)))
        before, expected = expected, whole(read(python, kafka, OffsetRange(partition, "id", 0, count)))
        if before == expected:  # the broker did not go on compacting meanwhile
            break
        assert time.monotonic() < end, "the broker does not come to an end of compacting"

    assert found == expected


WANTED = (Condition("status", "=", ("COMPLETED",)),)
COUNTED = PartialAggregation(
    spark_sql="",
    pane=MINUTE,
    keys=(Field("status"), Field("city")),
    partials=(Partial("max", Field("city"), "int"),),
    functions=(),
)


@pytest.mark.integration
def test_a_repeated_batch_gives_equal_bytes_with_either(kafka: str, library: NativeLibrary) -> None:
    """Broken records among them, records without a value and from the future: what is quarantined, too."""
    partition, chance = topic_of(kafka), random.Random(5)
    producer = Producer({"bootstrap.servers": kafka})
    count = 12_000
    for number in range(count):
        sound = booking(number / 50, status=chance.choice(["COMPLETED", "NEW"]), city=number % 7)
        value = chance.choice([sound] * 50 + [None, b"\xff\xff", b"", sound[:-1]])
        producer.produce(partition.topic, value, key=str(number), partition=0, timestamp=1_767_225_600_000)
        producer.poll(0)
    producer.flush()

    made = [
        made_of(read(open_, kafka, OffsetRange(partition, "id", 0, count)), partition)
        for limits in SMALL[:2]
        for open_ in both(library, limits)
    ]

    assert [each == made[0] for each in made] == [True] * 4
    assert {record.reason for record in made[0][1]} == {"MALFORMED", "EMPTY_VALUE", "NO_EVENT_TIME"}


def made_of(pieces: Sequence[Records], partition: Partition) -> tuple[bytes, list[object]]:
    """What a task gives Spark of these records, as bytes, and what it quarantines."""
    message = find_message(message_pool(FILES), "t.Booking")
    rows = Rows(message, ("status", "city"), "event_timestamp", 300_000, WANTED)
    aggregation, statistics = PreAggregation(rows.schema, COUNTED), RangeStatistics()
    batches: list[pa.RecordBatch] = []
    quarantined: list[object] = []
    for piece in pieces:
        batch, refused = rows.rows(piece, partition, int(time.time() * 1000), statistics)
        quarantined += [rows.quarantine_record(each, partition) for each in refused]
        batches += aggregation.add(batch, statistics)
    batches += [*aggregation.rest(), statistics_row(aggregation.schema, statistics)]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, aggregation.schema) as stream:
        for batch in batches:
            stream.write_batch(batch)
    return sink.getvalue().to_pybytes(), sorted(quarantined, key=lambda record: record.offset)  # type: ignore[attr-defined]
