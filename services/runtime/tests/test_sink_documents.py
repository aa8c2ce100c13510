"""Rows of random schemas in the sinks that write documents of JSON: each comes back as it was."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path

import pytest
from daggers.v1 import spec_pb2
from hypothesis import example, given
from hypothesis import strategies as st
from services.runtime.tests import httpserver
from services.runtime.tests.sink_cases import elasticsearch, http, redis
from services.runtime.tests.sink_contract import fresh_topic, records
from services.runtime.tests.sink_properties import FEW, target, written
from services.runtime.tests.sinkvalues import FAR, LONG, Row, Table, from_json, in_json, tables
from tests import redis as redis_server

pytestmark = pytest.mark.integration
Documents = tuple[spec_pb2.ResolvedSink, Callable[[], Iterable[Row]]]
"""A sink, and what reads the documents that came since it was asked last."""
read_json = partial(json.loads, parse_float=Decimal)


def _in_kafka(request: pytest.FixtureRequest, folder: Path) -> Iterator[Documents]:
    del folder
    servers = request.getfixturevalue("kafka")
    sink = spec_pb2.ResolvedSink()
    sink.kafka.bootstrap_servers = servers
    sink.sink.kafka.topic, sink.sink.kafka.format = fresh_topic(servers), spec_pb2.KafkaSink.FORMAT_JSON
    since = dict[int, int]()

    def read() -> Iterator[Row]:
        for record in records(servers, sink.sink.kafka.topic, since):
            since[record.partition() or 0] = (record.offset() or 0) + 1
            yield read_json(record.value() or b"")

    yield sink, read


def _in_redis(request: pytest.FixtureRequest, folder: Path) -> Iterator[Documents]:
    address, password = request.getfixturevalue("redis")
    sink = redis.sink(address, password, folder, key=f"{folder}${{id}}")

    def read() -> Iterator[Row]:
        for key in list(looking.scan_iter(f"{folder}*", 1000)):
            yield read_json(str(looking.getdel(key)))

    with redis_server.client(address, password) as looking:
        yield sink, read


def _over_http(request: pytest.FixtureRequest, folder: Path) -> Iterator[Documents]:
    del request, folder
    with httpserver.serving() as server:

        def read() -> Iterator[Row]:
            came, server.received = server.received, []
            yield from (read_json(request.body) for request in came)

        yield http.sink(server.url), read


def _in_opensearch(request: pytest.FixtureRequest, folder: Path) -> Iterator[Documents]:
    """In an index that takes whatever comes: it looks into no field."""
    del folder
    sink = elasticsearch.sink(request.getfixturevalue("opensearch"))
    index = f"{sink.sink.elasticsearch.url}/{sink.sink.elasticsearch.index}"

    def create() -> None:
        elasticsearch.ask(index, "PUT", {"mappings": {"dynamic": False}})

    def read() -> list[Row]:
        found = elasticsearch.documents(sink, parse_float=Decimal)
        elasticsearch.ask(index, "DELETE")
        create()
        return found

    create()
    yield sink, read


@pytest.fixture(scope="module", params=[_in_kafka, _in_redis, _over_http, _in_opensearch])
def documents(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Documents]:
    """Of each such sink."""
    yield from request.param(request, tmp_path_factory.mktemp("documents"))


def read_as(document: Row, table: Table) -> Row:
    """The values of a document, for who knows the types of its columns."""
    return {name: from_json(document[name], kind.arrow) for name, kind in table.named.items()}


@FEW
@given(table=tables(), size=st.integers(1, 10))
@example(table=FAR, size=5)
def test_every_row_is_a_document_that_reads_back_as_it_was(
    documents: Documents, table: Table, size: int
) -> None:
    sink, read = documents
    rows = [{**row, "id": number, "__key_0": number} for number, row in enumerate(table.rows)]

    refused = written(target(sink, {"id": LONG, **table.named}, {"__key_0": LONG}), rows, size)

    found = list(read())
    assert refused == {}
    assert sorted(document["id"] for document in found) == list(range(len(rows)))
    assert {document["id"]: read_as(document, table) for document in found} == {
        row["id"]: {name: in_json(row[name], kind.arrow) for name, kind in table.named.items()}
        for row in rows
    }
