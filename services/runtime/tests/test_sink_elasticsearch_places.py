"""The sink `elasticsearch` behind names that move: aliases, roll-overs, indices of a day."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final
from uuid import uuid4

import pytest
from daggers.v1 import spec_pb2
from services.runtime.tests.sink_cases.elasticsearch import ask, documents, sink
from services.runtime.tests.sink_contract import Counts, batch
from services.runtime.tests.sink_elasticsearch import target

from runtime import sinks
from runtime.clients import sending
from runtime.clients.http import client
from runtime.errors import JobError, TemporaryError

pytestmark = pytest.mark.integration
FIRST: Final = "2026-01-01T12:01:00Z"
NEXT_DAY: Final = "2026-01-02T00:01:00Z"
Found = Counter[tuple[str, str, int]]
"""How often a document is there, by its index, city and count."""


@pytest.fixture(autouse=True)
def _closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sending, "PATIENCE_S", 0.3)
    yield
    client.pool.clear()


class Place:
    """Names in a server that nobody else has, and what is written behind them."""

    def __init__(self, url: str) -> None:
        self.url, self.name = url, f"place-{uuid4().hex[:12]}"
        self.sink = sink(url, index=self.name)

    def ask(self, path: str, method: str = "GET", body: Any = None) -> Any:
        return ask(f"{self.url}/{path}", method, body)

    def index(self, number: int, **more: Any) -> str:
        """Make an index of this place."""
        name = f"{self.name}-{number:06d}"
        self.ask(name, "PUT", more)
        return name

    def point(self, *actions: dict[str, Any]) -> None:
        """Change what its alias stands for, in one step."""
        self.ask("_aliases", "POST", {"actions": list(actions)})

    def add(self, index: str, **more: Any) -> dict[str, Any]:
        return {"add": {"index": index, "alias": self.name, **more}}

    def remove(self, index: str) -> dict[str, Any]:
        return {"remove": {"index": index, "alias": self.name}}

    def write(self, counts: Counts, batch_id: int = 0, **said: Any) -> int:
        """Write a batch as a task does; how many rows were refused."""
        writer = sinks.open_writer(target(self.sink, (1, batch_id), **said))
        refused = len(writer.write(batch(counts), batch_id).refused)
        return refused + len(writer.finish().refused)

    def found(self, pattern: str = "*") -> Found:
        rows = documents(self.sink, f"{self.name}{pattern}")
        return Counter((row["_index"], row["tag_city"], row["n"]) for row in rows)


@pytest.fixture
def place(opensearch: str) -> Place:
    return Place(opensearch)


def cities(*names: str, n: int = 1, end: str = FIRST) -> Counts:
    return {(end, name): n for name in names}


def refused(write: Callable[[], Any]) -> JobError:
    with pytest.raises(JobError) as caught:
        write()
    return caught.value


def test_rows_go_to_where_an_alias_leads_now_and_none_is_lost_as_it_moves(place: Place) -> None:
    old, new = place.index(1), place.index(2)
    place.point(place.add(old))
    sinks.check(target(place.sink))
    assert place.write(cities("a", "b"), 0) == 0
    place.point(place.remove(old), place.add(new))
    assert place.write(cities("c"), 1) == 0
    assert place.write(cities("c", n=2), 2) == 0

    assert place.found() == {(old, "a", 1): 1, (old, "b", 1): 1, (new, "c", 2): 1}


@pytest.mark.parametrize("updates", [False, True])
def test_a_row_takes_its_own_place_in_the_index_that_is_written_to_and_in_no_other(
    place: Place, updates: bool
) -> None:
    old = place.index(1)
    place.point(place.add(old, is_write_index=True))
    place.write(cities("a", "b"), 0, updates=updates)
    place.write(cities("a", n=2), 1, updates=updates)
    place.ask(f"{place.name}/_rollover", "POST", {})
    new = f"{place.name}-000002"
    for _ in range(2):
        place.write(cities("a", n=3), 2, updates=updates)

    assert place.found() == {(old, "a", 2): 1, (old, "b", 1): 1, (new, "a", 3): 1}


def test_rows_wait_while_an_alias_says_of_no_index_that_it_is_written_to(place: Place) -> None:
    old, new = place.index(1), place.index(2)
    place.point(place.add(old))
    place.write(cities("a"), 0)
    place.point(place.add(new))  # two, and neither is the one
    told = refused(lambda: place.write(cities("b"), 1)).error
    place.point(place.add(new, is_write_index=True))

    assert (told.reason, told.retryable) == ("SINK_MISSING", True)
    assert place.write(cities("b"), 1) == 0
    assert place.found() == {(old, "a", 1): 1, (new, "b", 1): 1}


def test_rows_wait_while_an_index_is_closed_and_go_on_where_they_were(place: Place) -> None:
    old = place.index(1)
    place.point(place.add(old))
    place.write(cities("a"), 0)
    place.ask(f"{old}/_close", "POST")
    told = refused(lambda: place.write(cities("a", "b", n=2), 1)).error
    place.ask(f"{old}/_open", "POST")
    place.write(cities("a", "b", n=2), 1)

    assert (told.reason, told.retryable) == ("SINK_MISSING", True)
    assert place.found() == {(old, "a", 2): 1, (old, "b", 2): 1}


def test_an_index_of_a_day_has_the_rows_of_that_day_whenever_and_however_they_are_cut(place: Place) -> None:
    place.sink.sink.elasticsearch.index = f"{place.name}-${{window_timestamp:%Y.%m.%d}}"
    first, second = f"{place.name}-2026.01.01", f"{place.name}-2026.01.02"
    both = {**cities("a", "b"), **cities("a", n=7, end=NEXT_DAY)}
    sinks.check(target(place.sink))
    assert place.write(both, 0) == 0
    assert place.write(cities("a", n=7, end=NEXT_DAY), 1) == 0  # of the same batch, cut in another way
    assert place.write(both, 2) == 0
    place.ask(f"{first}/_settings", "PUT", {"index.blocks.write": True})  # as a policy does with what is old
    with pytest.raises(TemporaryError):
        place.write({**cities("late"), **cities("b", n=8, end=NEXT_DAY)}, 3)
    place.ask(f"{first}/_settings", "PUT", {"index.blocks.write": None})
    place.write({**cities("late"), **cities("b", n=8, end=NEXT_DAY)}, 3)

    assert place.found() == {
        (first, "a", 1): 1,
        (first, "b", 1): 1,
        (first, "late", 1): 1,
        (second, "a", 7): 1,
        (second, "b", 8): 1,
    }


def test_what_is_written_through_a_data_stream_goes_on_as_it_is_rolled_over(place: Place) -> None:
    own = place.sink.sink.elasticsearch
    own.operation = spec_pb2.ElasticsearchSink.OPERATION_CREATE
    template = {
        "index_patterns": [place.name],
        "data_stream": {"timestamp_field": {"name": "window_timestamp"}},
        "template": {"mappings": {"properties": {"window_timestamp": {"type": "date"}}}},
    }
    place.ask(f"_index_template/{place.name}", "PUT", template)
    place.ask(f"_data_stream/{place.name}", "PUT")
    sinks.check(target(place.sink))
    for _ in range(2):
        assert place.write(cities("a", "b"), 0) == 0
    place.ask(f"{place.name}/_rollover", "POST", {})
    for _ in range(2):
        assert place.write(cities("c"), 1) == 0
    counts = Counter((city, n) for _, city, n in place.found("").elements())

    assert counts == {("a", 1): 1, ("b", 1): 1, ("c", 1): 1}


STRICT: Final = {"dynamic": "strict", "properties": {"n": {"type": "long"}}}
OF_ANOTHER_TYPE: Final = {"properties": {"n": {"type": "boolean"}}}


def test_of_the_indices_behind_an_alias_the_one_that_is_written_to_counts(place: Place) -> None:
    """An older one has another type of a field, and one is closed to further fields: nobody writes there."""
    old, strict, new = (
        place.index(1, mappings=OF_ANOTHER_TYPE),
        place.index(2, mappings=STRICT),
        place.index(3),
    )
    place.point(place.add(old), place.add(strict), place.add(new, is_write_index=True))
    told = sinks.rehearse(target(place.sink), None)
    sinks.check(target(place.sink))
    assert place.write(cities("a")) == 0
    place.point(place.add(new, is_write_index=False), place.add(old, is_write_index=True))
    wrong = refused(lambda: sinks.check(target(place.sink))).error

    assert told.endswith("has fields for these rows.")
    assert (wrong.reason, wrong.retryable) == ("SINK_SCHEMA", False)
    assert f"n is boolean in {old}, which no long fits" in wrong.detail


def test_of_indices_of_which_none_is_written_to_the_request_is_told_that_helps(place: Place) -> None:
    old, new = place.index(1), place.index(2)
    place.point(place.add(old), place.add(new))
    wrong = refused(lambda: sinks.rehearse(target(place.sink), None)).error
    _, _, statement = wrong.detail.partition(": POST /_aliases ")
    place.ask("_aliases", "POST", json.loads(statement))
    sinks.check(target(place.sink))

    assert (wrong.reason, wrong.retryable) == ("SINK_MISSING", True)
    assert place.write(cities("a")) == 0
    assert place.found() == {(new, "a", 1): 1}


def test_what_a_strict_mapping_lacks_is_added_to_the_index_that_is_written_to_alone(place: Place) -> None:
    old, new = place.index(1, mappings=OF_ANOTHER_TYPE), place.index(2, mappings=STRICT)
    place.point(place.add(old), place.add(new, is_write_index=True))
    told = refused(lambda: sinks.check(target(place.sink))).error.detail
    place.sink.sink.elasticsearch.create_index = True
    sinks.check(target(place.sink))
    fields = {
        name: {*own["mappings"].get("properties", {})}
        for name, own in place.ask(f"{place.name}/_mapping").items()
    }

    assert f"PUT /{place.name}/_mapping?write_index_only=true " in told
    assert fields == {old: {"n"}, new: {"n", "tag_city", "window_timestamp"}}
    assert place.write(cities("a")) == 0


def test_of_the_indices_of_a_data_stream_the_last_one_counts(place: Place) -> None:
    own = place.sink.sink.elasticsearch
    own.operation = spec_pb2.ElasticsearchSink.OPERATION_CREATE
    time = {"window_timestamp": {"type": "date"}}
    template = {
        "index_patterns": [place.name],
        "data_stream": {"timestamp_field": {"name": "window_timestamp"}},
        "template": {"mappings": {"properties": {**time, "n": {"type": "boolean"}}}},
    }
    place.ask(f"_index_template/{place.name}", "PUT", template)
    place.ask(f"_data_stream/{place.name}", "PUT")
    wrong = refused(lambda: sinks.check(target(place.sink))).error
    template["template"] = {"mappings": {"properties": time}}
    place.ask(f"_index_template/{place.name}", "PUT", template)
    place.ask(f"{place.name}/_rollover", "POST", {})
    sinks.check(target(place.sink))

    assert "n is boolean in .ds-" in wrong.detail
    assert place.write(cities("a")) == 0
