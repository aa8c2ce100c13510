"""Secrets that daggers find by themselves, where the administrator of a host switches them off."""

from typing import Any

import pytest
from daggers.v1 import events_pb2, gateway_pb2, spec_pb2
from services.scheduler.tests.scheduler_world import World
from structlog.testing import capture_logs

from daggerspec.catalogue import UnresolvedName
from daggerspec.places import parse
from eventlog.testing import given
from fleet import Fleet
from scheduler.drivers.secret_places import SecretRule

META = events_pb2.RequestMeta(actor="ada")
PLACES = parse("/etc/daggers/pricing pricing http://influx:8086")
OWN = {"file": "/etc/daggers/pricing/token"}


def fleet(*sinks: Any) -> Fleet:
    """Knows a cluster with a token of its own, a secret, a sink, and a dagger with these sinks."""
    influx = {"url": "http://influx:8086", "bucket": "b", "token": {"env": "CLUSTERS"}}
    secret = {"name": "token", "team": "pricing", "place": {"env": "T"}, "addresses": ["http://influx:8086"]}
    address = {"url": "http://influx:8086", "bucket": "b", "token": {"name": "token"}}
    spec = spec_pb2.DaggerSpec(team="pricing", cluster="local", sinks=sinks)
    made = Fleet()
    for record in given(
        events_pb2.ClusterRegistered(meta=META, cluster={"name": "local", "influx": influx}),
        events_pb2.SecretRegistered(meta=META, secret=secret),
        events_pb2.SinkRegistered(meta=META, sink={"name": "crm", "sink": {"influx": {"address": address}}}),
        events_pb2.DaggerRequested(meta=META, name="counts", spec=spec),
    ):
        assert made.apply(record).changed
    return made


def influx(token: dict[str, str], url: str = "http://influx:8086") -> dict[str, Any]:
    return {"influx": {"address": {"url": url, "bucket": "b", "token": token}}}


def outside(rule: SecretRule, *sinks: Any) -> list[tuple[str, str]]:
    known = fleet(*sinks)
    return rule.outside(known, known.daggers["counts"])


def test_what_clusters_and_registrations_have_is_no_business_of_the_rule() -> None:
    named = influx({"name": "token"})
    registered = {"influx": {"measurement": "m"}, "registered": "crm"}

    assert outside(SecretRule(), {"influx": {}}, {"log": {}}, named, registered) == []


def test_a_secret_is_in_a_place_of_its_team_and_goes_where_the_place_allows() -> None:
    rule = SecretRule(PLACES)
    mine = "http://mine:8086"

    assert outside(rule, influx(OWN)) == []
    assert outside(rule, influx(OWN, mine), influx({"env": "AWS_SECRET_ACCESS_KEY"})) == [
        ("spec.sinks[0].influx.address.token", mine),
        ("spec.sinks[1].influx.address.token", "http://influx:8086"),
    ]


def test_while_it_observes_a_launch_says_what_would_be_refused() -> None:
    known = fleet(influx({"env": "OTHER"}))
    rule = SecretRule(PLACES)
    with capture_logs() as lines:
        rule.check(known, known.daggers["counts"])
        rule.tell(known, known.daggers["counts"])

    [line] = lines
    assert (line["event"], line["dagger"]) == ("secret.place_refused", "counts")
    assert "OTHER" not in str(line)


def test_once_it_enforces_a_launch_is_refused() -> None:
    known = fleet(influx({"env": "OTHER"}))

    with pytest.raises(UnresolvedName, match="register it, and name it instead") as refused:
        SecretRule(PLACES, enforced=True).check(known, known.daggers["counts"])

    assert refused.value.reason == "SECRET_PLACE"


@pytest.mark.parametrize("enforced", [False, True])
async def test_a_running_dagger_goes_on_until_it_is_switched_off(world: World, enforced: bool) -> None:
    await world.ask()
    spec = spec_pb2.DaggerSpec(cluster="local", sql="run", sinks=[influx({"env": "OTHER"})])
    await world.append(events_pb2.DaggerRequested(meta=META, name="d", spec=spec))
    async with world.serving(secrets=SecretRule(PLACES, enforced=enforced)):
        if not enforced:
            await world.launched()
            return
        failed = await world.until(lambda dagger: bool(dagger.phase == gateway_pb2.FAILED))

    assert failed.last_error is not None
    assert failed.last_error.reason == "SECRET_PLACE"
    assert "Launched" not in world.story()
