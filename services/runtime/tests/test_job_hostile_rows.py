"""One row never ends a dagger: hostile records go through a driver into each of the eleven sinks.

`make test` has one dagger with all of them; `make test-long` a dagger for each sink, with the edges of every
type and values of 20 MB. clevertap and mixpanel are fakes that hold them to what these say that they take.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psycopg
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic
from daggers.v1 import spec_pb2, telemetry_pb2
from google.protobuf import descriptor_pb2
from services.runtime.tests import grpcserver
from services.runtime.tests.job_driver import influx_sink
from services.runtime.tests.launches import Dagger, Launch, descriptors
from services.runtime.tests.sink_contract import Bench, create, points, records
from services.runtime.tests.sink_hostile_rows import TEMPLATES
from tests.conformance.expressions.answers import record, table

from daggerspec.topics import QUARANTINE
from runtime import sinks

pytestmark = pytest.mark.integration
GOOD: Final = {"good": 7, "last": 8}
"""The counts of the rows before and behind all others, by their city."""
NOON: Final = "2026-01-01T12:01:00Z"
# As far as SQL can move a time: a year beyond what any library of a sink knows.
_FAR: Final = "TIMESTAMPADD(YEAR, i1, TIMESTAMPADD(YEAR, i1, TIMESTAMPADD(YEAR, i1, t1)))"
SQL: Final = f"""\
SELECT COALESCE(JSON_VALUE(s2, '$.a'), s1) AS tag_city, COALESCE(i3, l1) AS n,
       CASE WHEN i1 <> 0 THEN {_FAR} ELSE t1 END AS window_timestamp
FROM data_stream"""
WIDE: Final = f"""\
SELECT COALESCE(JSON_VALUE(s2, '$.a'), s1) AS tag_city, l1 AS n,
       CASE WHEN i1 <> 0 THEN {_FAR} ELSE t1 END AS window_timestamp,
       s3 AS text, i2 AS small, l2 AS large, u1 AS unsigned, d1 AS real, f1 AS single, b1 AS yes, `by` AS raw,
       CAST(l2 AS TINYINT) AS tiny, CAST(d1 AS DECIMAL(38, 18)) AS exact, t2 AS other_time,
       CAST(CASE WHEN i1 <> 0 THEN {_FAR} ELSE t2 END AS DATE) AS day, ls AS texts, ld AS reals, ms AS by_key,
       w1 AS wrapped, ARRAY[t1, {_FAR}] AS times, MAP['a', d1] AS by_text, ARRAY[`by`] AS raws
FROM data_stream"""
_ODD_TEXTS: Final = (
    "", " ", "\0", "a\0b", '"', "'", "\\", "\\N", ",", ";", "\n", "\r\n", "a\r\nX: y", "\t", "null", "NaN",
    "{}", "..", "/", "?#%", "☃𝄞\u202e", "\ufeff", "\x7f\x1b", "é" * 20_000, "${x}", "%s{}", "=cmd()",
    "\ufffe\uffff",
)  # fmt: skip
_TIMES: Final = (
    "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999Z", "1970-01-01T00:00:00Z",
    "1969-12-31T23:59:59.999999Z", "1582-10-10T00:00:00Z", "2024-02-29T23:59:59Z",
)  # fmt: skip


def narrow() -> list[dict[str, Any]]:
    """The edges of a text, a time and a number in the columns of every sink."""
    given: list[dict[str, Any]] = [{"s1": text, "t1": NOON, "l1": 1} for text in _ODD_TEXTS]
    for number, text in enumerate(("x\\ud83dy", "\\udc00")):  # half a character, as JSON may have it
        given.append({"s1": f"h{number}", "s2": f'{{"a":"{text}"}}', "t1": NOON, "l1": number})
    given += [{"s1": f"t{number}", "t1": time, "l1": 1} for number, time in enumerate(_TIMES)]
    given += [
        {"s1": f"y{years}", "t1": NOON, "i1": years, "l1": 1} for years in (3_000, 10_000, -10_000, -700)
    ]
    given += [{"s1": f"n{number}", "t1": NOON, "l1": number} for number in (2**63 - 1, -(2**63), 0, -1)]
    given += [{"s1": "no time", "l1": 1}, {"s1": "in the past", "t1": "0001-01-01T00:00:00Z", "i1": -1}]
    return given


def wide() -> list[dict[str, Any]]:
    """Those, and the edges of every other type."""
    given = narrow()
    for place, text in enumerate(_ODD_TEXTS):
        given.append(
            {"s1": f"w{place}", "t1": NOON, "s3": text, "ls": [text, ""], "ms": {text: text, "k": text}}
        )
    for real in ("NaN", "Infinity", "-Infinity", -0.0, 5e-324, 1.7976931348623157e308, 0.1):
        given.append({"s1": f"d{real}", "t1": NOON, "d1": real, "ld": [real, 1.0]})
    for single in ("NaN", "Infinity", "-Infinity", -0.0, 1e-45, 3.4e38):
        given.append({"s1": f"f{single}", "t1": NOON, "f1": single})
    for number in (0, 1, -1, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63)):
        small = max(min(number, 2**31 - 1), -(2**31))
        given.append({"s1": f"l{number}", "t1": NOON, "l2": number, "i2": small, "w1": number})
    given += [{"s1": f"u{number}", "t1": NOON, "u1": number} for number in (2**63, 2**64 - 1)]
    given += [
        {"s1": f"b{len(raw)}", "t1": NOON, "by": raw} for raw in ("", "AA==", "/w==", "7aCA", "/w==" * 9_000)
    ]
    given += [{"s1": f"o{time}", "t1": NOON, "t2": time} for time in _TIMES]
    return given


@dataclass
class Hostile(Dagger):
    """A dagger over records with a field of every type."""

    def spec(self, run_dir: Path) -> spec_pb2.JobSpec:
        job = super().spec(run_dir)
        job.streams[0].stream.message, job.streams[0].stream.time_field = table().message.full_name, "at"
        job.descriptors.CopyFrom(_all_files())
        return job

    def send(self, given: Sequence[dict[str, Any]]) -> None:
        """Write records, however large."""
        producer = Producer({"bootstrap.servers": self.kafka, "message.max.bytes": 100_000_000})
        for number, fields in enumerate(given):
            key = (None, b"", b"\0")[number % 3]
            producer.produce(self.topic, record(fields, number).SerializeToString(), key)
        assert producer.flush(60) == 0


def _all_files() -> descriptor_pb2.FileDescriptorSet:
    found = descriptors()
    names = {file.name for file in found.file}
    more = [*descriptor_pb2.FileDescriptorSet.FromString(grpcserver.DESCRIPTORS).file]
    own = descriptor_pb2.FileDescriptorProto()
    for file in (*table().message.file.dependencies, table().message.file):
        file.CopyToProto(own)
        more.append(descriptor_pb2.FileDescriptorProto.FromString(own.SerializeToString()))
    found.file.extend(file for file in more if file.name not in names)
    unique = {file.name: file for file in found.file}
    return descriptor_pb2.FileDescriptorSet(file=unique.values())


def prepared(name: str, dagger: Hostile, request: pytest.FixtureRequest) -> Bench:
    """The sink of a kind's case, with formats of times wherever it takes them, which may refuse every row."""
    bench = Bench(name, request)
    if name == "influx":  # a measurement of the dagger's name
        influx = request.getfixturevalue("influx")
        bench.resolved, bench.read = (
            influx_sink(influx),
            lambda: {(time, city): n for time, n, city in points(influx, dagger.name)},
        )
    own = getattr(bench.resolved.sink, name)
    for field, value in TEMPLATES.get(name, {}).items():
        if isinstance(value, dict):
            getattr(own, field).update(value)
        else:
            setattr(own, field, value)
    bench.resolved.sink.max_refused = 1.0
    dagger.sinks.append(bench.resolved)
    return bench


def through(dagger: Hostile, given: Sequence[dict[str, Any]]) -> Launch:
    """Have a driver take these records, and then one that is good; its launch, which has ended well."""
    first, last = ({"s1": city, "t1": NOON, "l1": n} for city, n in GOOD.items())
    dagger.send([first, *given])
    with dagger.launch() as launch:
        launch.until(lambda beat: beat.rows_in >= len(given) + 1 and beat.rows_out and all(beat.rows_out))
        before = [*launch.beats[-1].rows_out]
        dagger.send([last])
        launch.until(lambda beat: all(now > then for now, then in zip(beat.rows_out, before, strict=True)))
        assert launch.stop() == 0
    return launch


def set_aside(kafka: str, dagger: str) -> list[telemetry_pb2.Quarantined]:
    """What the quarantine has of a dagger."""
    found = [record for record in records(kafka, QUARANTINE) if record.key() == dagger.encode()]
    return [telemetry_pb2.Quarantined.FromString(record.value() or b"") for record in found]


def good(name: str, bench: Bench, request: pytest.FixtureRequest) -> dict[str, Any]:
    """The counts of the good rows, by their city; Python reads no year beyond 9999, so some by themselves."""
    match name:
        case "postgres":
            own = bench.resolved.sink.postgres
            server: str = request.getfixturevalue("postgres")
            with psycopg.connect(f"{server}/postgres?options=-csearch_path%3D{own.schema}") as connection:
                rows = connection.execute(f"SELECT tag_city, n FROM {own.table}").fetchall()
        case "parquet":
            files = Path(bench.resolved.sink.parquet.location).glob("counts/dt=*/**/*.parquet")
            read = [pq.ParquetFile(file).read(["tag_city", "n"]).to_pylist() for file in files]
            rows = [(row["tag_city"], row["n"]) for part in read for row in part]
        case _:
            rows = [(city, n) for (_, city), n in bench.read().items()]
    return {city: n for city, n in rows if city in GOOD}


def judge(benches: dict[str, Bench], launch: Launch, given: int, request: pytest.FixtureRequest) -> None:
    """The good rows are where they belong, and each other row is written, or set aside with a reason."""
    assert not {beat.error.reason for beat in launch.beats if beat.HasField("error")}
    refused = set_aside(request.getfixturevalue("kafka"), launch.dagger.name)
    taken = dict(zip(benches, launch.beats[-1].rows_out, strict=True))
    aside = Counter(record.sink for record in refused)
    assert {name: taken[name] + aside[name] for name in benches} == dict.fromkeys(benches, given + 2)
    for record_ in refused:
        assert re.fullmatch("[A-Z_]+", record_.reason)
        assert record_.row or (record_.truncated and len(record_.sha256) == 32)
    for name, bench in benches.items():
        if name != "log":
            assert {city: int(n) for city, n in good(name, bench, request).items()} == GOOD, name


def judge_times(launch: Launch, names: Iterable[str], request: pytest.FixtureRequest) -> None:
    """Sinks that write times by a format have refused those that it cannot write."""
    refused = set_aside(request.getfixturevalue("kafka"), launch.dagger.name)
    for name in TEMPLATES.keys() & {*names}:
        assert {"OUT_OF_RANGE", "SINK_REFUSED"} & {each.reason for each in refused if each.sink == name}


def judge_all(
    dagger: Hostile, names: Iterable[str], given: Sequence[dict[str, Any]], request: pytest.FixtureRequest
) -> None:
    """Give a dagger with these sinks such records, times among them, and judge what became of each."""
    benches = {name: prepared(name, dagger, request) for name in names}
    launch = through(dagger, given)

    judge(benches, launch, len(given), request)
    judge_times(launch, benches, request)


def test_a_dagger_with_every_sink_takes_whatever_comes(
    tmp_path: Path, kafka: str, request: pytest.FixtureRequest
) -> None:
    dagger = Hostile(tmp_path, kafka, sql=SQL)
    judge_all(dagger, sinks.names(), narrow(), request)


@pytest.mark.long
@pytest.mark.parametrize("name", sinks.names())
def test_every_types_edges_go_into_every_sink(
    tmp_path: Path, kafka: str, request: pytest.FixtureRequest, name: str
) -> None:
    dagger = Hostile(tmp_path, kafka, sql=SQL if name == "grpc" else WIDE)
    judge_all(dagger, [name], wide(), request)


@pytest.mark.long
@pytest.mark.parametrize("name", sinks.names())
def test_a_value_of_20_mb_goes_into_every_sink_or_leaves_its_hash(
    tmp_path: Path, kafka: str, request: pytest.FixtureRequest, name: str
) -> None:
    dagger = Hostile(tmp_path, kafka, sql=SQL)
    topic = NewTopic(f"large-{dagger.name}", 1, 1, config={"max.message.bytes": "50000000"})
    dagger.topic = create(kafka, topic)
    benches = {name: prepared(name, dagger, request)}
    given = [{"s1": "x" * 20_000_000, "t1": NOON, "l1": 1}, {"s1": "\0" * 20_000_000, "t1": NOON, "l1": 1}]
    launch = through(dagger, given)

    judge(benches, launch, len(given), request)
