"""The sink `elasticsearch` against an OpenSearch of the run's own, or an Elasticsearch."""

from __future__ import annotations

import json
import urllib.request
from typing import Any
from uuid import uuid4

import pytest
from daggers.v1 import spec_pb2
from services.runtime.tests import httpserver
from services.runtime.tests.sink_contract import Case, Counts

from daggerspec.sinks import elasticsearch as kind

SERVES_APART = True
"""Its server is a process of its own, which can be made to stand still."""
POISON = "x" * 40_000, 1
"""More than Lucene takes as one term."""
OTHERS = ("elasticsearch",)
"""Further servers that it is for, by their fixtures: `make test-long` asks the same of them."""


def case(dagger: str, request: pytest.FixtureRequest, printed: list[str], server: str = "opensearch") -> Case:
    del dagger, printed
    made = sink(request.getfixturevalue(server), create_index=True)

    def read() -> Counts:
        return {(row["window_timestamp"], row["tag_city"]): row["n"] for row in documents(made)}

    return made, read


def sink(url: str, **said: Any) -> spec_pb2.ResolvedSink:
    """A sink with its defaults said, and an index of its own."""
    made = spec_pb2.ResolvedSink()
    asked = {"index": f"sink-{uuid4().hex[:12]}", **said}
    made.sink.elasticsearch.CopyFrom(spec_pb2.ElasticsearchSink(url=url, **asked))
    kind.fill(made.sink.elasticsearch, "d", spec_pb2.DaggerSpec())
    return made


def ask(url: str, method: str = "GET", body: Any = None, **reading: Any) -> Any:
    """What the server answers, read as JSON is with these words."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read() or b"null", **reading)


def documents(made: spec_pb2.ResolvedSink, index: str = "", **reading: Any) -> list[dict[str, Any]]:
    """The documents of an index, each with its `_id`, read as JSON is with these words."""
    where = f"{made.sink.elasticsearch.url}/{index or made.sink.elasticsearch.index}"
    ask(f"{where}/_refresh", "POST")
    hits = ask(f"{where}/_search?size=10000", **reading)["hits"]["hits"]
    return [{"_id": hit["_id"], "_index": hit["_index"], **hit["_source"]} for hit in hits]


at = httpserver.at
silence = httpserver.silence
