"""Any rows of a batch are bad, whatever their server says of them, and processes die between two tries: those
rows alone are refused, and each of the others is there. A property of every sink that has a server; rows of
`parquet` are refused by the sink itself (`test_sink_properties`), and `log` refuses none.
"""

from __future__ import annotations

import json
import random
import string
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import psycopg
import pyarrow as pa
import pytest
from confluent_kafka.admin import NewTopic
from daggers.v1 import spec_pb2
from grpc import StatusCode
from hypothesis import example, given, settings
from hypothesis import strategies as st
from services.runtime.tests import grpcserver, httpserver
from services.runtime.tests.collectors import CleverTap, Mixpanel
from services.runtime.tests.httpserver import Received, Reply
from services.runtime.tests.sink_cases import clevertap, elasticsearch, grpc, http, mixpanel
from services.runtime.tests.sink_cases import postgres as tables
from services.runtime.tests.sink_cases import redis as keys
from services.runtime.tests.sink_contract import COUNTS, batch, create, influx_sink, points, records, target
from tests import redis as redis_server

from runtime import sinks
from runtime.clients import bisection, sending, topiclimits
from runtime.clients import postgres as postgres_clients
from runtime.clients import redis as redis_clients
from runtime.clients.http import client
from runtime.clients.topiclimits import TopicLimits
from runtime.errors import JobError
from runtime.sinks import BatchRef, Part
from runtime.sinks import kafka as kafka_sink_module

FEW = settings(max_examples=settings.default.max_examples // 20)
"""Five in `make test`, fifty in `make test-long`."""
NOON: Final = next(iter(COUNTS))[0]
BAD: Final = "bad"
"""Begins the city of each row that a server refuses."""
_NUMBERS = count()
Cities = set[str]
Read = Callable[[], Cities]
Place = tuple[spec_pb2.ResolvedSink, Read]


class KilledError(Exception):
    """The process is gone."""


@contextmanager
def dying(after: int | None) -> Iterator[None]:
    """A process that dies before it tries once more, after so many tries; None: it does not."""
    whole, tried = bisection.Bisection.next, count(1)

    def next_(self: Any, now: float) -> Any:
        if after is not None and next(tried) > after:
            raise KilledError
        return whole(self, now)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(bisection.Bisection, "next", next_)
        yield


def is_killed(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_killed, error.exceptions))
    return isinstance(error, KilledError)


def refused(
    resolved: spec_pb2.ResolvedSink, rows: pa.RecordBatch, deaths: Sequence[int], *, all_may: bool
) -> Cities:
    """Write a batch of one partition until a process comes to its end; whose rows are refused.

    Raises: JobError, where rows wait.
    """
    own = Part(BatchRef("c", 0, 1), 0)
    made = target(f"d{next(_NUMBERS)}", resolved, grpcserver.DESCRIPTORS)
    aimed = replace(made, part=own, may_refuse=all_may)
    for after in [*deaths, None]:
        with dying(after):
            try:
                writer = sinks.open_writer(aimed)
                outcomes = [writer.write(rows, 0), writer.finish()]
                break
            except Exception as error:
                if not is_killed(error):
                    raise
    cities = Cities()
    for outcome in outcomes:
        held = rows if outcome.rows is None else outcome.rows
        cities |= {held["tag_city"][each.row].as_py() for each in outcome.refused}
    return cities


def holds(
    place: Callable[[], Place], bad: Sequence[bool], deaths: Sequence[int], all_may: bool, long: int = 0
) -> None:
    """The property, of rows of which these are bad; a bad one has so many more characters."""
    bisection.history_of.cache_clear()
    client.pool.clear()  # with the requests that other examples compare with
    noise = "".join(random.Random(1).choices(string.ascii_letters, k=long))
    cities = [f"{BAD} {number} {noise}" if is_bad else f"good {number}" for number, is_bad in enumerate(bad)]
    rows = batch({(NOON, city): number for number, city in enumerate(cities)})
    resolved, read = place()
    wrong = {city for city in cities if city.startswith(BAD)}
    if len(wrong) < len(cities) or all_may:
        assert refused(resolved, rows, deaths, all_may=all_may) == wrong
    else:
        with suppress(JobError):  # none passes: all are refused, or wait
            assert refused(resolved, rows, deaths, all_may=all_may) == wrong
    assert read() == set(cities) - wrong


ROWS = st.lists(st.booleans(), min_size=1, max_size=40)
DEATHS = st.lists(st.integers(0, 12), max_size=2)


@pytest.fixture(autouse=True, scope="module")
def _soon() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sending, "_FIRST_PAUSE_S", 0.001)
        patched.setattr(kafka_sink_module, "DELIVERY_TIMEOUT_MS", 5_000)
        yield
    client.pool.clear()
    grpcserver.forget()


@pytest.fixture(scope="module")
def server() -> Iterator[httpserver.Server]:
    with httpserver.serving() as made:
        yield made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("secrets")


# ---- Servers that answer as they are told ------------------------------------------------------------------


@FEW
@given(ROWS, DEATHS, st.booleans(), st.sampled_from([400, 409, 413, 422, 200]), st.sampled_from([1, 7]))
@example([True, False, True], [2], False, 200, 1)
def test_requests_of_http(
    server: httpserver.Server, bad: list[bool], deaths: list[int], all_may: bool, status: int, at_once: int
) -> None:
    """200: without the text that a success has."""

    def place() -> Place:
        taken = Cities()

        def answer(got: Received) -> Reply:
            found = {row["tag_city"] for row in (got.json if at_once > 1 else [got.json])}
            if any(city.startswith(BAD) for city in found):
                return Reply(status, b"no")
            taken.update(found)
            return Reply(200, b"taken")

        server.answer = answer
        return http.sink(server.url, success_contains="taken", rows_per_request=at_once), lambda: taken

    holds(place, bad, deaths, all_may)


_CALLS: Final = [
    *(StatusCode.INVALID_ARGUMENT, StatusCode.NOT_FOUND, StatusCode.OUT_OF_RANGE, StatusCode.DATA_LOSS),
    *(StatusCode.FAILED_PRECONDITION, StatusCode.INTERNAL, StatusCode.UNKNOWN, StatusCode.OK),
]


@FEW
@given(ROWS, DEATHS, st.booleans(), st.sampled_from(_CALLS))
def test_calls_of_grpc(bad: list[bool], deaths: list[int], all_may: bool, status: StatusCode) -> None:
    """OK: without what a success says."""
    with grpcserver.serving() as calls:
        taken = Cities()

        def answer(got: grpcserver.Received) -> grpcserver.Reply:
            if got.row.tag_city.startswith(BAD):
                return grpcserver.Reply(status)
            taken.add(got.row.tag_city)
            return grpcserver.Reply(message=grpcserver.Row(n=1).SerializeToString())

        calls.answer = answer
        said = {"success_if": "response.n == 1", "response": grpcserver.MESSAGE}
        try:
            holds(lambda: (grpc.sink(calls.target, **said), lambda: taken), bad, deaths, all_may)
        finally:
            grpcserver.forget()


@FEW
@given(ROWS, DEATHS, st.booleans(), st.sampled_from(["mapper_parsing_exception", "made_up_exception", "413"]))
def test_documents_of_a_server_that_says_anything(
    server: httpserver.Server, bad: list[bool], deaths: list[int], all_may: bool, error: str
) -> None:
    def place() -> Place:
        taken = Cities()

        def answer(got: Received) -> Reply:
            found = [json.loads(line)["tag_city"] for line in got.body.splitlines()[1::2]]
            if error == "413" and any(city.startswith(BAD) for city in found):
                return Reply(413)
            taken.update(city for city in found if not city.startswith(BAD))
            no = {"status": 400, "error": {"type": error, "reason": "no"}}
            items = [{"index": no if city.startswith(BAD) else {"status": 201}} for city in found]
            return Reply(body=json.dumps({"errors": len(taken) < len(found), "items": items}).encode())

        server.answer = answer
        return elasticsearch.sink(server.url), lambda: taken

    holds(place, bad, deaths, all_may)


@FEW
@given(ROWS, DEATHS, st.booleans(), st.sampled_from([509, 512, 522, 999]), st.booleans())
def test_records_of_clevertap(
    server: httpserver.Server,
    folder: Path,
    bad: list[bool],
    deaths: list[int],
    all_may: bool,
    code: int,
    back: bool,
) -> None:
    def place() -> Place:
        made = CleverTap(server)
        made.gives_back = back
        made.code = lambda record: code if record["identity"].startswith(BAD) else 0
        return clevertap.sink(server.url, folder), lambda: {record["identity"] for record in made.processed}

    holds(place, bad, deaths, all_may)


@FEW
@given(ROWS, DEATHS, st.booleans())
def test_events_of_mixpanel(
    server: httpserver.Server, folder: Path, bad: list[bool], deaths: list[int], all_may: bool
) -> None:
    def place() -> Place:
        made = Mixpanel(server)
        made.wrong = lambda event: (
            "properties.n" if event["properties"]["distinct_id"].startswith(BAD) else ""
        )
        events = made.imported.values
        return mixpanel.sink(server.url, folder), lambda: {
            event["properties"]["distinct_id"] for event in events()
        }

    holds(place, bad, deaths, all_may)


_PARTIAL: Final = "writing points to database: partial write: any words dropped={0}"
_POINTS: Final = {
    "named": (422, f"failure {_PARTIAL}"),
    "named, of 2.0": (500, f"unexpected error {_PARTIAL}"),
    "named, of 2.7": (422, f"failure {_PARTIAL} for database: d for retention policy: p"),
    "whole": (400, "unable to parse 'any words'"),
    "too large": (413, "any words"),
}


@FEW
@given(ROWS, DEATHS, st.booleans(), st.sampled_from(sorted(_POINTS)))
def test_points_of_a_server_that_says_anything(
    server: httpserver.Server, folder: Path, bad: list[bool], deaths: list[int], all_may: bool, what: str
) -> None:
    status, words = _POINTS[what]
    (folder / "token").write_text("t")

    def place() -> Place:
        taken = Cities()

        def answer(got: Received) -> Reply:
            found = {
                line.split(",tag_city=")[-1].partition(" n=")[0].replace("\\ ", " ")
                for line in got.body.decode().splitlines()
            }
            wrong = {city for city in found if city.startswith(BAD)}
            if not wrong or what.startswith("named"):
                taken.update(found - wrong)
            said = json.dumps({"message": words.format(len(wrong))}).encode()
            return Reply(status, said) if wrong else Reply(204)

        server.answer = answer
        address = {"url": server.url, "org": "o", "bucket": "b", "token_file": str(folder / "token")}
        return influx_sink(address, f"m{next(_NUMBERS)}"), lambda: taken

    holds(place, bad, deaths, all_may)


# ---- Real servers ------------------------------------------------------------------------------------------


@pytest.mark.integration
@FEW
@given(ROWS, DEATHS, st.booleans())
def test_points_of_influxdb(
    influx: dict[str, str], bad: list[bool], deaths: list[int], all_may: bool
) -> None:
    """A tag is too long."""

    def place() -> Place:
        name = f"m-{uuid4().hex[:12]}"
        return influx_sink(influx, name), lambda: {city for _, _, city in points(influx, name)}

    holds(place, bad, deaths, all_may, long=70_000)


@pytest.mark.integration
@FEW
@given(ROWS, DEATHS, st.booleans())
def test_documents_of_opensearch(opensearch: str, bad: list[bool], deaths: list[int], all_may: bool) -> None:
    """A term is longer than Lucene takes."""
    made = elasticsearch.sink(opensearch, create_index=True)

    def place() -> Place:
        sinks.check(target("d", made))
        return made, lambda: {document["tag_city"] for document in elasticsearch.documents(made)}

    try:
        holds(place, bad, deaths, all_may, long=40_000)
    finally:
        elasticsearch.ask(f"{opensearch}/{made.sink.elasticsearch.index}", "DELETE")


_STATES: Final = ("22003", "23514", "54000", "P0001", "ZZ999", "0A000", "XX001")
"""Codes of SQL's and of nobody's, for a trigger to raise."""


@pytest.mark.integration
@FEW
@given(ROWS, DEATHS, st.booleans(), st.sampled_from(_STATES), st.booleans())
def test_rows_of_postgres(
    postgres: str, folder: Path, bad: list[bool], deaths: list[int], all_may: bool, code: str, appends: bool
) -> None:
    made, url = tables.sink(postgres, folder)
    own = made.sink.postgres
    if appends:
        own.mode = spec_pb2.PostgresSink.MODE_APPEND
        del own.key[:]

    def place() -> Place:
        sinks.check(target("d", made))
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(
                "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF new.tag_city LIKE 'bad%'"
                f" THEN RAISE EXCEPTION 'no' USING ERRCODE = '{code}'; END IF; RETURN new; END $$"
            )
            connection.execute(
                "CREATE TRIGGER t BEFORE INSERT OR UPDATE ON counts FOR EACH ROW EXECUTE FUNCTION f()"
            )
        return made, read

    def read() -> Cities:
        with psycopg.connect(url, autocommit=True) as connection:
            found = [city for (city,) in connection.execute("SELECT tag_city FROM counts").fetchall()]
        assert len(found) == len({*found}), "a row is there twice"
        return {*found}

    try:
        holds(place, bad, deaths, all_may)
    finally:
        postgres_clients.drop(made)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA {own.schema} CASCADE")


@pytest.mark.integration
@FEW
@given(ROWS, DEATHS, st.booleans())
def test_keys_of_redis(
    redis: tuple[str, str], folder: Path, bad: list[bool], deaths: list[int], all_may: bool
) -> None:
    """A key holds a value of another type."""
    address, password = redis
    made = keys.sink(address, password, folder, type="TYPE_HASH", key=f"{uuid4().hex}:${{tag_city}}")
    prefix = made.sink.redis.key.partition("$")[0]

    def place() -> Place:
        with redis_server.client(address, password) as looking:
            for number, is_bad in enumerate(bad):
                if is_bad:
                    looking.rpush(f"{prefix}{BAD} {number} ", "another value")
        return made, read

    def read() -> Cities:
        with redis_server.client(address, password) as looking:
            return {key.removeprefix(prefix) for key in looking.scan_iter(f"{prefix}*", 1000, "hash")}

    try:
        holds(place, bad, deaths, all_may)
    finally:
        redis_clients.drop(made)


@pytest.mark.integration
@FEW
@given(ROWS, DEATHS, st.booleans(), st.booleans())
def test_records_of_kafka(
    kafka: str, bad: list[bool], deaths: list[int], all_may: bool, is_told: bool
) -> None:
    """A record is larger than its topic takes, of which the client may not be told."""
    topic = create(kafka, NewTopic(f"sink-{uuid4().hex[:8]}", 1, 1, config={"max.message.bytes": "2000"}))
    made = spec_pb2.ResolvedSink()
    made.kafka.bootstrap_servers, made.sink.kafka.topic = kafka, topic
    made.kafka.properties["compression.type"] = "none"
    made.sink.kafka.format = spec_pb2.KafkaSink.FORMAT_JSON

    def read() -> Cities:
        return {json.loads(record.value() or b"")["tag_city"] for record in records(kafka, topic)}

    with pytest.MonkeyPatch.context() as patched:
        if not is_told:
            patched.setattr(topiclimits, "of", lambda *_: TopicLimits())
        holds(lambda: (made, read), bad, deaths, all_may, long=3_000)
    kafka_sink_module._client.cache_clear()
