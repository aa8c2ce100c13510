"""What each kind of sink writes to: which two of them are one place, and how people write it."""

from __future__ import annotations

from typing import Any

import pytest
from daggers.v1 import spec_pb2
from hypothesis import given
from hypothesis import strategies as st
from libs.spec.tests.test_spec_secrets import Known

from daggerspec import sinks
from daggerspec.destination import Destination, parse
from daggerspec.kind import Asked

BUCKET = "influx://influx:8086/b"
CASES: dict[str, list[tuple[dict[str, Any], str]]] = {
    "influx": [
        ({"address": {"url": "http://Influx.:8086", "org": "o", "bucket": "b"}}, f"{BUCKET}/fares"),
        ({"address": {"url": "https://influx", "bucket": "b/autogen"}}, "influx://influx:443/b/fares"),
        ({"address": {"url": "http://influx:8086", "bucket": "b/short"}, "measurement": "a/b *"},
         "influx://influx:8086/b%2Fshort/a%2Fb%20%2A"),
    ],
    "postgres": [
        ({"address": {"host": "DB", "database": "d"}, "table": "t"}, "postgres://db:5432/d.public/t"),
        ({"address": {"host": "db", "port": 6432, "database": "d"}, "schema": "s", "table": "T"},
         "postgres://db:6432/d.s/T"),
    ],
    "elasticsearch": [
        ({"url": "http://es:9200/", "index": "trips"}, "elasticsearch://es:9200//trips"),
        ({"url": "http://es", "index": "trips-${window_timestamp:%Y}"}, "elasticsearch://es:80//trips-*"),
    ],
    "redis": [
        ({"address": "cache:6379", "key": "trips:${city}", "database": 2}, "redis://cache:6379/2/trips:*"),
        ({"address": "cache:6379", "key": "${city}"}, "redis://cache:6379/0/*"),
    ],
    "http": [
        ({"url": "https://crm/api/", "path": "/v1/orders"}, "http://crm:443//%2Fapi%2Fv1%2Forders"),
        ({"url": "http://crm", "path": "/v1/${id}/x"}, "http://crm:80//%2Fv1%2F*"),
    ],
    "grpc": [({"target": "crm:443", "method": "shop.Orders/Put"}, "grpc://crm:443/shop.Orders/Put")],
    "clevertap": [
        ({"account": "A-1", "region": "in1", "event": "e"}, "clevertap://in1.api.clevertap.com:443/A-1/e"),
        ({"account": "A-1", "region": "in1", "profile": True}, "clevertap://in1.api.clevertap.com:443/A-1/"),
    ],
    "mixpanel": [({"project": "42", "event": "e"}, "mixpanel://api.mixpanel.com:443/42/e")],
    "parquet": [
        ({"location": "/files/a", "table": "t"}, "parquet:////%2Ffiles%2Fa%2Ft%2F*"),
        ({"location": "s3://b/lake", "table": "t", "endpoint": "http://s3:9000"},
         "parquet://s3:9000/b/lake%2Ft%2F*"),
        ({"location": "s3://b", "region": "eu-west-1"}, "parquet://amazonaws.com:443/b/fares%2F*"),
    ],
    "kafka": [({"topic": "rows"}, "kafka://kafka:9092//rows")],
    "log": [({}, "")],
}  # fmt: skip
"""Of a kind: sinks of the dagger `fares`, and what each writes to."""


def destination(kind: str, said: dict[str, Any]) -> Destination | None:
    """What a sink of the dagger `fares` writes to."""
    spec = spec_pb2.DaggerSpec(cluster="local")
    sink = spec_pb2.Sink(**{kind: said})
    sinks.fill(sink, "fares", spec)
    resolved, _ = sinks.resolve("", sink, Asked("fares", spec, Known()))
    return sinks.destination(resolved)


@pytest.mark.parametrize("kind", sinks.names())
def test_a_kind_says_what_it_writes_to(kind: str) -> None:
    for said, text in CASES[kind]:
        place = destination(kind, said)

        assert ("" if place is None else str(place)) == text
        assert place is None or parse(text) == place


@pytest.mark.parametrize(
    ("one", "other", "overlaps"),
    [
        ("k://s/c/n", "k://s/c/n", True),
        ("k://s/c/n", "k://s/c/nn", False),
        ("k://s/c/n*", "k://s/c/nn", True),
        ("k://s/c/nn", "k://s/c/n*", True),
        ("k://s/c/n*", "k://s/c/n", True),
        ("k://s/c/nn*", "k://s/c/n", False),
        ("k://s/c/*", "k://s/c/anything", True),
        ("k://s/c/a*", "k://s/c/b*", False),
        ("k://s/c/a*", "k://s/c/ab*", True),
        ("k://s/c/n", "k://s/d/n", False),
        ("k://s/c/n", "k://t/c/n", False),
        ("k://s/c/n", "j://s/c/n", False),
    ],
)  # fmt: skip
def test_two_destinations_are_one_place_where_a_row_can_be_in_both(
    one: str, other: str, overlaps: bool
) -> None:
    assert parse(one).overlaps(parse(other)) is overlaps
    assert parse(other).overlaps(parse(one)) is overlaps


@given(st.builds(Destination, st.from_regex("[a-z]+", fullmatch=True), st.text(), st.text(), st.text(),
                 st.booleans()))  # fmt: skip
def test_the_text_of_a_destination_is_read_as_it(place: Destination) -> None:
    assert parse(str(place)) == place


@pytest.mark.parametrize("text", ["", "k", "k://", "k://s", "k://s/c", "://s/c/n", "k://s/c/n/more"])
def test_what_is_no_destination_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="KIND://SERVER/CONTAINER/NAME"):
        parse(text)
