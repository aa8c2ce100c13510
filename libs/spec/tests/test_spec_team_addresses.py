"""Parts of a registered sink's address that one team has for itself: a container, a token."""

from __future__ import annotations

from typing import Any

import pytest
from daggers.v1 import spec_pb2
from libs.spec.tests.spec_secrets import Known, influx, registering

from daggerspec import sinks
from daggerspec.kind import ValidationContext

TEAMS = ["pricing", "delivery"]


def by_team(team: str = "pricing", kind: str = "influx", **address: Any) -> list[dict[str, Any]]:
    said = {"address": address} if kind == "influx" else address
    return [{"team": team, "sink": {kind: said}}]


class Shared(Known):
    """A catalogue of a sink in which a team has a bucket and a token of its own."""

    def sink(self, name: str) -> Any:
        own = by_team(bucket="pricing", token={"name": "token"})
        return spec_pb2.RegisteredSink(name=name, teams=TEAMS, sink=influx("others"), by_team=own)


@pytest.mark.parametrize(
    ("team", "bucket", "token"), [("pricing", "pricing", "token"), ("delivery", "rows", "others")]
)
def test_daggers_write_to_the_container_of_their_team_with_its_token(
    team: str, bucket: str, token: str
) -> None:
    spec = spec_pb2.DaggerSpec(team=team, cluster="local")
    sink = spec_pb2.Sink(registered="crm", influx={"measurement": "m"})
    resolved, wrong = sinks.resolve("sinks[0]", sink, ValidationContext("d", spec, Shared()))

    address = resolved.sink.influx.address
    assert (address.url, address.bucket, address.token.name) == ("http://influx:8086", bucket, token)
    assert list(wrong) == []
    assert str(sinks.destination(resolved)) == f"influx://influx:8086/{bucket}/m"


def test_a_team_has_parts_of_the_address_in_the_sink_of_its_teams() -> None:
    own = by_team(bucket="pricing", token={"name": "token"})

    assert registering(influx(), by_team=own) == []
    assert registering(influx(), teams=[], exempt=True, by_team=own) == []


WRONG = {
    "another server": (by_team(url="http://elsewhere:8086"), "[0].sink.influx", "OTHER_SERVER"),
    "no team of it": (by_team("delivery", bucket="b"), "[0].team", "UNEXPECTED"),
    "no name of a team": (by_team("P!", bucket="b"), "[0].team", "INVALID_NAME"),
    "a team twice": (by_team(bucket="b") + by_team(bucket="c"), "[1].team", "DUPLICATE"),
    "another kind": (by_team(kind="redis", address="a:1"), "[0].sink", "WRONG_KIND"),
    "what daggers say": (
        [{"team": "pricing", "sink": {"influx": {"measurement": "m"}}}],
        "[0].sink.influx.measurement",
        "UNEXPECTED",
    ),
    "another registered sink": (
        [{"team": "pricing", "sink": {"influx": {"address": {"bucket": "b"}}, "registered": "others"}}],
        "[0].sink.registered",
        "UNEXPECTED",
    ),
    "a secret of others": (
        by_team(token={"name": "others"}), "[0].sink.influx.address.token", "SECRET_FORBIDDEN",
    ),
    "a bucket that cannot be": (by_team(bucket="b\n"), "[0].sink.influx.address.bucket", "INVALID_CHARACTER"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_with_the_parts_of_a_team_names_its_place(name: str) -> None:
    own, field, reason = WRONG[name]

    assert (f"sink.by_team{field}", reason) in registering(influx(), by_team=own)


def test_a_topic_of_another_cluster_is_another_server() -> None:
    class Two(Known):
        def cluster(self, name: str) -> spec_pb2.Cluster | None:
            kafka = spec_pb2.KafkaAddress(bootstrap_servers=f"{name}:9092")
            return spec_pb2.Cluster(name=name, kafka=kafka)

    value = spec_pb2.RegisteredSink(
        name="crm",
        teams=["pricing"],
        sink={"kafka": {"cluster": "one"}},
        by_team=by_team(kind="kafka", cluster="two"),
    )
    wrong = [(one.field, one.reason) for one in sinks.registration("sink", value, Two())]

    assert wrong == [("sink.by_team[0].sink.kafka", "OTHER_SERVER")]
