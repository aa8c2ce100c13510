"""Whichever consumer reads generated records: rows, and what queries make of them, are what Protobuf reads.

A seed is a schema, some records, and queries with the forms that fields of its types take. `make test` looks
at a few; `make test-long` at fresh ones for ten minutes, and prints the seed of any difference.
"""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from daggers.v1 import spec_pb2
from google.protobuf.descriptor import Descriptor
from services.runtime.tests import wireoracle, wirequeries, wireschemas
from services.runtime.tests.source_assignment import reader_plan
from services.runtime.tests.wireforms import WireForms
from tests.conformance.engine import Engine, engine

from daggerspec import query
from daggersql import Plan, Table, check
from runtime import compiled
from runtime.clients import mock_cluster
from runtime.decode import scanning
from runtime.decode.columns import FieldColumn, select
from runtime.decode.decoder import find_message, message_pool
from runtime.source.offsets import Offsets, Partition
from runtime.source.reader import native_library, task
from runtime.source.reader.consumers import ConsumerCache, Open
from runtime.source.reader.control_rows import STATISTICS
from runtime.source.reader.native_consumer import NativeConsumer
from runtime.source.reader.native_library import NativeLibrary
from runtime.source.reader.python_consumer import PythonConsumer
from runtime.source.tasks import OffsetRange, ReadRanges

SEEDS: Final = 2
FRESH_S: Final = 600.0
_RECORDS: Final = 15
_PARTITION: Final = Partition("wire", 0)
_HAS_TIME: Final = b"\x0a\x02\x08\x01"
_ANY_TIME_MS: Final = 400_000_000_000_000
"""No event time of the years 1 to 9999 is so far ahead."""


@dataclass
class Readers:
    """Both consumers over one topic, and an engine for what is read."""

    kafka: str
    spark: Engine
    opens: Mapping[str, Open]
    folder: Path
    end: int = 0

    def send(self, values: Sequence[bytes]) -> None:
        """Append records to the topic."""
        producer = Producer({"bootstrap.servers": self.kafka})
        for value in values:
            producer.produce(_PARTITION.topic, value, partition=0)
        assert producer.flush(30) == 0
        self.end += len(values)

    def rows(self, open_: Open, plan: Plan, files: Any, time_field: str, count: int) -> pa.Table:
        """What a task hands on of the last records for a query: in previews and daggers alike."""
        reads = replace(
            reader_plan(self.folder), topics=(_PARTITION.topic,), message="wire.Root", time_field=time_field,
            descriptors=files.SerializeToString(), kafka={"bootstrap.servers": self.kafka},
            tolerance=_ANY_TIME_MS, paths=tuple(path for path in plan.reads[0].paths if path != "rowtime"),
            start=Offsets({_PARTITION.topic: "id"}, {_PARTITION: 0}), range_end={_PARTITION: self.end},
        )  # fmt: skip
        wanted = OffsetRange(_PARTITION, "id", self.end - count, self.end)
        with closing(ConsumerCache(open_)) as cache, pytest.MonkeyPatch.context() as patch:
            patch.setattr(task, "_consumers", cache)
            batches = list(task.run(reads, ReadRanges((wanted,), int(time.time() * 1000), siblings=1)))
        found = pa.Table.from_batches(batches)
        return found.filter(found.column(STATISTICS).is_null()).drop_columns([STATISTICS])


@pytest.fixture(scope="module")
def readers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Readers]:
    folder = tmp_path_factory.mktemp("native")
    why = native_library.build(folder) or compiled.build(scanning.SOURCE, scanning.Library, folder)
    if "no C compiler" in why:
        pytest.skip(why)
    assert not why, why
    native = NativeLibrary(native_library.place(folder))
    opens = {"native": partial(NativeConsumer, native), "python": PythonConsumer}
    with (
        pytest.MonkeyPatch.context() as patch,
        mock_cluster.run_cluster([_PARTITION.topic]) as kafka,
        engine() as spark,
    ):
        library = scanning.Library(compiled.place(scanning.SOURCE, folder))
        patch.setattr(scanning, "load", lambda: library)
        yield Readers(kafka, spark, opens, tmp_path_factory.mktemp("examples"))


class Seed:
    """A case: a schema, its records, and what Protobuf reads of them."""

    def __init__(self, number: int) -> None:
        rng = Random(number)
        self.number, self.files = number, wireschemas.schema(rng)
        self.message: Descriptor = find_message(message_pool(self.files), "wire.Root")
        forms = WireForms(rng, rng.choice([0.0, 0.05, 0.3]))
        self.values = [_HAS_TIME + forms.record(self.message) for _ in range(_RECORDS)]
        self.columns = select(self.message, [str(field.name) for field in self.message.fields])
        oracle = wireoracle.Oracle(self.files, "wire.Root")
        read = [oracle.row(value, self.columns) for value in self.values]
        self.rows = {
            place: row for place, row in enumerate(read) if isinstance(row, dict) and row["at"] is not None
        }
        """Of the records that give one, by their place."""
        self.broken = {place for place, row in enumerate(read) if row == wireoracle.BROKEN}
        self.rng = rng
        self.refused = 0
        """How many of its queries are too large for a driver."""

    def plan(self, sql: str, *, records: bool = False) -> Plan | None:
        """The plan of a query over its stream; None where it has too many fields."""
        checked = check(sql, [Table("data_stream", self.message, "at", records)])
        too_large = "QUERY_TOO_LARGE" in [finding.code for finding in checked.findings]
        self.refused += too_large
        assert too_large or checked.plan is not None, (self.number, sql, checked.findings)
        return checked.plan

    def differences(self, readers: Readers) -> Iterator[str]:
        """What comes out as it should not."""
        readers.send(self.values)
        yield from self._of_columns(readers)
        yield from self._of_forwarding(readers)
        for column in self.columns:
            if column.field.is_repeated and (column.children or column.kind.name != "STRUCT"):
                yield from self._of_elements(readers, column)

    def _answer(self, readers: Readers, sql: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
        """The rows of a query, by which consumer read the records."""
        plan, first = self.plan(sql), readers.end - _RECORDS
        if plan is None:
            return
        tables = {
            name: readers.rows(open_, plan, self.files, "at", _RECORDS)
            for name, open_ in readers.opens.items()
        }
        native, python = tables.values()
        if repr(native.to_pylist()) != repr(python.to_pylist()):  # NaN is NaN
            yield "both consumers", [{"native": native.to_pylist(), "python": python.to_pylist()}]
        found = readers.spark.answer(plan, {"data_stream": native}).to_pylist()
        for row in found:
            row["place"] -= first
        yield "", sorted(found, key=lambda row: int(row["place"]))

    def _of_columns(self, readers: Readers) -> Iterator[str]:
        """`*`, and every form of a field beside it."""
        forms = list(wirequeries.forms(self.columns, [*self.rows.values()], self.rng))
        forms = self.rng.sample(forms, min(len(forms), 60))
        shown = "".join(f", {form.sql} AS x{number}" for number, form in enumerate(forms))
        sql = f"SELECT *, __offset AS place{shown} FROM data_stream"
        for other, found in self._answer(readers, sql):
            if other:
                yield f"{other}: {found}"
                continue
            if [row["place"] for row in found] != [*self.rows]:
                yield f"rows {[row['place'] for row in found]}, not {[*self.rows]}"
                continue
            for row in found:
                read = self.rows[row["place"]]
                for column in self.columns:
                    got = wireoracle.shown(row[column.name], column)
                    if got != read[column.name]:
                        yield self._difference(row["place"], column.name, got, read[column.name])
                for number, form in enumerate(forms):
                    got, right = form.show(row[f"x{number}"]), form.of_row(read)
                    if got != right:
                        yield self._difference(row["place"], form.sql, got, right)

    def _of_elements(self, readers: Readers, column: FieldColumn) -> Iterator[str]:
        query_ = wirequeries.unnested(column)
        for other, found in self._answer(readers, query_.sql):
            if other:
                yield f"{other}: {found}"
                continue
            for place, read in self.rows.items():
                got = [
                    {name: show(row[name]) for name, show in query_.show.items()}
                    for row in found
                    if row["place"] == place
                ]
                right = query_.of_row(read)
                if column.is_map:
                    got, right = sorted(got, key=repr), sorted(right, key=repr)
                if got != right:
                    yield self._difference(place, query_.sql, got, right)

    def _of_forwarding(self, readers: Readers) -> Iterator[str]:
        """Records as they are, whatever is in them; and fields, as a forwarding names them."""
        spec = spec_pb2.DaggerSpec(streams=[spec_pb2.StreamInput(table="data_stream")])
        spec.forward.payload = spec_pb2.Forward.PAYLOAD_RECORD
        plan = self.plan(query.of(spec).sql, records=True)
        assert plan is not None
        for name, open_ in readers.opens.items():
            passed = readers.rows(open_, plan, self.files, "", _RECORDS)
            values = readers.spark.answer(plan, {"data_stream": passed}).column("value").to_pylist()
            if values != self.values:
                yield f"forwarded by {name}: {values}, not {self.values}"
        spec.forward.payload = spec_pb2.Forward.PAYLOAD_UNSPECIFIED
        spec.forward.fields.add(name="place", expression="__offset")
        for column in self.columns:
            spec.forward.fields.add(name=column.name, expression=f"`{column.name}`")
        for other, found in self._answer(readers, query.of(spec).sql):
            got = [
                {column.name: wireoracle.shown(row[column.name], column) for column in self.columns}
                for row in ([] if other else found)
            ]
            if other or got != [*self.rows.values()]:
                yield f"forwarded {other}: {got}, not {self.rows}"

    def _difference(self, place: int, what: str, got: Any, right: Any) -> str:
        where = f"seed {self.number}, record {place} {self.values[place].hex()}, {what}"
        return f"{where}:\nis {got}\nProtobuf {right}\n{self.files.file[-1]}"


@pytest.mark.parametrize("number", range(2000, 2000 + SEEDS))
def test_what_queries_make_of_a_seeds_records_is_what_protobuf_reads(readers: Readers, number: int) -> None:
    seed = Seed(number)

    assert (next(seed.differences(readers), ""), seed.refused) == ("", 0)


@pytest.mark.long
@pytest.mark.timeout(FRESH_S + 300)
def test_no_query_over_a_fresh_seed_shows_anything_else(
    readers: Readers, capsys: pytest.CaptureFixture[str]
) -> None:
    until, looked_at, refused, found = time.monotonic() + FRESH_S, 0, 0, ""
    while time.monotonic() < until and not found:
        number = secrets.randbits(48)
        try:
            seed = Seed(number)
            found = next(seed.differences(readers), "")
        except Exception as problem:
            raise AssertionError(f"seed {number}") from problem
        looked_at, refused = looked_at + 1, refused + seed.refused
    with capsys.disabled():
        sys.stdout.write(
            f"\n{looked_at} fresh schemas, {looked_at * _RECORDS} records by both consumers,"
            f" {refused} queries too large\n"
        )

    assert found == ""
    assert refused < looked_at / 2
