"""Sinks over HTTP and gRPC that are registered: what they say, and what is left to a dagger's own."""

from __future__ import annotations

from typing import Any

import pytest
from daggers.v1 import spec_pb2
from libs.spec.tests.spec_secrets import Known

from daggerspec import destinations, sinks
from daggerspec.kind import ValidationContext

TOKEN = {"name": "token"}
KINDS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "http": (
        {"url": "http://influx:8086", "auth": {"header": {"name": "X-Api-Key", "value": TOKEN}}},
        {"path": "/v1"},
        "http://influx:8086",
    ),
    "elasticsearch": (
        {"url": "http://influx:8086", "auth": {"basic": {"user": "u", "password": TOKEN}}},
        {"index": "trips"},
        "http://influx:8086",
    ),
    "grpc": (
        {"target": "crm.example:443", "auth": {"bearer": TOKEN}},
        {"method": "shop.Orders/Put", "message": "shop.Order"},
        "crm.example:443",
    ),
    "clevertap": (
        {"account": "A-1", "region": "in1", "passcode": TOKEN},
        {"event": "e", "identity": "c"},
        "https://in1.api.clevertap.com",
    ),
    "mixpanel": (
        {"project": "42", "user": "u", "region": "eu", "secret": TOKEN},
        {"event": "e", "identity": "c"},
        "https://api-eu.mixpanel.com",
    ),
    "redis": (
        {"address": "cache.example:6379", "user": "u", "password": TOKEN, "database": 2},
        {"key": "trips:${city}", "type": "TYPE_HASH"},
        "cache.example:6379",
    ),
}
"""Of a kind: what is registered, what a dagger says, and where rows go."""


def address(kind: str) -> str:
    """The field that says where rows go."""
    return {"grpc": "target", "redis": "address"}.get(kind, "url")


class Holding(Known):
    """A catalogue that has one registered sink, and a secret for where it is."""

    def __init__(self, kind: str) -> None:
        held, _, self._url = KINDS[kind]
        sink = spec_pb2.RegisteredSink(name="crm", teams=["pricing"], sink={kind: held})
        self.registered = sinks.fill_registration_defaults(sink)

    def sink(self, name: str) -> Any:
        return self.registered if name == "crm" else None

    def message(self, name: str) -> Any:
        """Any message: what a dagger's rows are is asked elsewhere."""
        del name
        return spec_pb2.Secret.DESCRIPTOR

    def secret(self, name: str) -> spec_pb2.Secret:
        return spec_pb2.Secret(name=name, team="pricing", addresses=[self._url])


@pytest.mark.parametrize("kind", KINDS)
def test_a_registered_sink_says_where_rows_go_and_a_dagger_says_the_rest(kind: str) -> None:
    held = Holding(kind)
    spec = spec_pb2.DaggerSpec(team="pricing", sinks=[{kind: KINDS[kind][1], "registered": "crm"}])
    sinks.fill(spec.sinks[0], "d", spec)
    asked = ValidationContext("d", spec, held)

    assert list(sinks.registration("sink", held.registered, held)) == []
    resolved, wrong = sinks.resolve("sinks[0]", spec.sinks[0], asked)
    assert list(sinks.violations("sinks[0]", spec.sinks[0], asked, (resolved, wrong))) == []
    assert getattr(getattr(resolved.sink, kind), address(kind)) == KINDS[kind][2]
    assert destinations.reached_at(resolved.sink)[1] == KINDS[kind][2]
    assert resolved.HasField("egress")


@pytest.mark.parametrize("kind", KINDS)
def test_a_secret_that_may_not_be_sent_there_is_told(kind: str) -> None:
    held = Holding(kind)
    told = list(sinks.registration("sink", held.registered, Elsewhere()))

    assert [each.reason for each in told] == ["SECRET_ADDRESS"]


class Elsewhere(Known):
    """A catalogue whose secret is for another server."""

    def secret(self, name: str) -> spec_pb2.Secret:
        return spec_pb2.Secret(name=name, team="pricing", addresses=["https://elsewhere"])


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_registered_may_not_be_said_again(kind: str) -> None:
    where = {address(kind): "mine.example:80"}
    spec = spec_pb2.DaggerSpec(
        team="pricing", sinks=[{kind: {**KINDS[kind][1], **where}, "registered": "crm"}]
    )
    asked = ValidationContext("d", spec, Holding(kind))
    held = sinks.resolve("sinks[0]", spec.sinks[0], asked)
    told = list(sinks.violations("sinks[0]", spec.sinks[0], asked, held))

    assert (f"sinks[0].{kind}.{address(kind)}", "UNEXPECTED") in [
        (violation.field, violation.reason) for violation in told
    ]
