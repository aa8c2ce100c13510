"""Where secrets are, whose they are, where they may be sent; sinks that are registered with them."""

from __future__ import annotations

import shlex

import pytest
from daggers.v1 import spec_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from libs.spec.tests.spec_secrets import Known, influx, registering

from daggerspec import address, places, secrets, sinks
from daggerspec.keys import flat

SECRET = spec_pb2.SecretRef.DESCRIPTOR
KAFKA = spec_pb2.Sink(kafka=spec_pb2.KafkaSink(cluster="local"))
PLACES = (
    "/etc/daggers/pricing pricing https://crm:443 influx:8086; env:PRICING_* pricing *; /srv/all * kafka:9092"
)


def found(value: spec_pb2.Secret) -> list[tuple[str, str]]:
    return [(violation.field, violation.reason) for violation in secrets.violations("secret", value)]


@pytest.mark.parametrize(
    ("allowed", "to", "is_covered"),
    [
        ("http://influx:8086", "http://influx:8086", True),
        ("http://influx:8086", "http://INFLUX:8086/path", True),
        ("http://influx.:8086", "http://influx:8086", True),
        ("https://crm", "https://crm:443/v1", True),
        ("influx:8086", "https://influx:8086", True),
        ("kafka:9092", "kafka:9092", True),
        ("[::1]:9092", "[::1]:9092", True),
        ("https://crm", "http://crm:443", False),
        ("http://influx:8086", "http://influx", False),
        ("http://influx:8086", "influx:8086", False),
        ("kafka:9092", "kafka:9092,mine:9092", False),
        ("http://influx:8086", "http://influx:8086@mine", False),
        ("http://influx:8086", "http://mine\\@influx:8086", False),
        ("http://influx:8086", "http://mine#@influx:8086", False),
        ("http://influx:8086", "http://influx:8086.mine", False),
        ("http://influx:8086", "http://influx:8086\\.mine", False),
        ("http://influx:8086", "http://mine/?http://influx:8086", False),
        ("http://influx:8086", "http://influx:8086 mine", False),
        ("http://influx:8086", "", False),
        ("http://127.0.0.1:80", "http://2130706433:80", False),
    ],
)
def test_an_address_is_covered_by_its_own_server_and_no_other(
    allowed: str, to: str, is_covered: bool
) -> None:
    assert address.covers([allowed], to) is is_covered


def test_all_servers_of_an_address_must_be_allowed() -> None:
    assert address.covers(["a:1", "b:2"], "a:1, b:2")


def test_a_secret_says_where_it_is_and_where_it_may_go() -> None:
    good = spec_pb2.Secret(
        name="crm-token", team="crm", place={"file": "/etc/crm"}, addresses=["https://crm", "kafka:9092"]
    )

    assert found(good) == []
    assert found(spec_pb2.Secret(name="T", team="a b", addresses=["https://crm/path", "crm"])) == [
        ("secret.name", "INVALID_NAME"),
        ("secret.team", "INVALID_NAME"),
        ("secret.place", "REQUIRED"),
        ("secret.addresses[0]", "INVALID_ADDRESS"),
        ("secret.addresses[1]", "INVALID_ADDRESS"),
    ]
    assert found(spec_pb2.Secret(name="token", place={"name": "other", "addresses": ["a:1"]})) == [
        ("secret.place", "INVALID_REFERENCE"),
        ("secret.place.addresses", "UNEXPECTED"),
        ("secret.addresses", "REQUIRED"),
    ]


@pytest.mark.parametrize("team", ["hr", "x", "a" * 63])
def test_a_secret_and_a_sink_are_of_a_team_with_a_name_as_short_as_teams_have(team: str) -> None:
    secret = spec_pb2.Secret(name="token", team=team, place={"env": "T"}, addresses=["a:1"])

    assert (found(secret), registering(KAFKA, teams=[team])) == ([], [])


@pytest.mark.parametrize("team", ["hr-", "1st", "a" * 64])
def test_what_no_team_can_be_called_no_secret_and_no_sink_is_of(team: str) -> None:
    secret = spec_pb2.Secret(name="token", team=team, place={"env": "T"}, addresses=["a:1"])

    assert found(secret) == [("secret.team", "INVALID_NAME")]
    assert registering(KAFKA, teams=[team]) == [("sink.teams[0]", "INVALID_NAME")]


@pytest.mark.parametrize(
    "path",
    ["/proc/self/environ", "/dev/zero", "/sys/x", "//proc/1/environ", "/etc/../proc/1/environ", "/proc"],
)
def test_no_secret_is_among_processes_and_devices(path: str) -> None:
    secret = spec_pb2.Secret(name="token", place={"file": path}, addresses=["a:1"])

    assert found(secret) == [("secret.place.file", "INVALID_REFERENCE")]


@pytest.mark.parametrize(
    ("reference", "team", "to", "is_allowed"),
    [
        ({"file": "/etc/daggers/pricing/token"}, "pricing", "https://crm", True),
        ({"file": "/etc/daggers/pricing/deep/token"}, "pricing", "http://influx:8086", True),
        ({"env": "PRICING_TOKEN"}, "pricing", "http://anywhere", True),
        ({"file": "/srv/all/token"}, "others", "kafka:9092", True),
        ({"file": "/etc/daggers/pricing/token"}, "others", "https://crm", False),
        ({"file": "/etc/daggers/pricing/token"}, "pricing", "https://mine", False),
        ({"file": "/etc/daggers/pricing/../token"}, "pricing", "https://crm", False),
        ({"file": "/etc/daggers/pricing-2/token"}, "pricing", "https://crm", False),
        ({"file": "/etc/daggers/pricing"}, "pricing", "https://crm", False),
        ({"env": "PATH"}, "pricing", "http://anywhere", False),
        ({"env": "PRICING_TOKEN"}, "", "http://anywhere", False),
        ({"env": "PRICING_TOKEN"}, "pricing", "", False),
        ({"name": "token"}, "pricing", "https://crm", False),
    ],
)
def test_a_place_is_one_teams_and_for_its_addresses(
    reference: dict[str, str], team: str, to: str, is_allowed: bool
) -> None:
    known = places.parse(PLACES)

    assert places.allowed(known, spec_pb2.SecretRef(**reference), team, to) is is_allowed


ODD = "/a; b, c#d/$e='f'\"g\" %41 ü"


def test_what_a_team_is_told_of_places_are_its_own() -> None:
    assert places.describe_places(places.parse(PLACES), "others") == "/srv/all (to kafka:9092)"
    assert places.describe_places((), "others") == "none"


def test_a_place_with_spaces_is_quoted() -> None:
    [place] = places.parse("'/my stack/secrets' '*' *")
    [odd] = places.parse(f"{shlex.quote(ODD)} '*' '*'")

    assert odd == places.Place(ODD, "*", ("*",))

    assert place == places.Place("/my stack/secrets", "*", ("*",))


@pytest.mark.parametrize(
    "text",
    ["/etc", "/etc team", "/ team *", "etc team *", "/a/../b team *", "env:* team *", "/etc team host"],
)
def test_a_place_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        places.parse(text)


def test_a_launch_is_told_the_place_and_the_addresses_of_a_secret() -> None:
    held = spec_pb2.Secret(name="token", place={"env": "TOKEN"}, addresses=["kafka:9092"])
    stream = spec_pb2.ResolvedStream()
    stream.kafka.secret_properties["sasl.password"].name = "token"
    stream.kafka.secret_properties["ssl.key.password"].name = "gone"
    secrets.fill_places(stream, {"token": held}.get)
    told = stream.kafka.secret_properties

    assert told["sasl.password"] == spec_pb2.SecretRef(env="TOKEN", addresses=["kafka:9092"])
    assert told["ssl.key.password"].name == "gone"


def test_what_a_cluster_names_goes_to_the_cluster() -> None:
    cluster = spec_pb2.Cluster(influx={"url": "http://influx:8086", "token": {"name": "token"}})
    cluster.kafka.bootstrap_servers = "kafka:9092"
    cluster.kafka.secret_properties["sasl.password"].name = "token"
    wrong = list(secrets.of_cluster("cluster", cluster, Known().secret))

    assert [(violation.field, violation.reason) for violation in wrong] == [
        ('cluster.kafka.secret_properties["sasl.password"]', "SECRET_ADDRESS")
    ]
    assert "http://influx:8086" in wrong[0].message


def test_a_sink_is_registered_with_its_address_and_nothing_else() -> None:
    both = influx()
    both.influx.measurement, both.name, both.registered = "m", "one", "two"

    assert registering(influx()) == []
    assert registering(spec_pb2.Sink(kafka={"cluster": "local"}), teams=[]) == []
    assert registering(both) == [
        ("sink.sink.name", "UNEXPECTED"),
        ("sink.sink.registered", "UNEXPECTED"),
        ("sink.sink.influx.measurement", "UNEXPECTED"),
    ]


@pytest.mark.parametrize(
    ("sink", "wrong"),
    [
        (spec_pb2.Sink(), ("sink.sink", "REQUIRED")),
        (spec_pb2.Sink(log={}), ("sink.sink.log", "NO_ADDRESS")),
        (spec_pb2.Sink(influx={"address": {"bucket": "b"}}), ("sink.sink.influx.address.url", "REQUIRED")),
        (spec_pb2.Sink(kafka={}), ("sink.sink.kafka.cluster", "REQUIRED")),
        (spec_pb2.Sink(kafka={"cluster": "far"}), ("sink.sink.kafka.cluster", "UNKNOWN_CLUSTER")),
        (
            spec_pb2.Sink(influx={"address": {"url": "http://influx:8086", "token": {"env": "T"}}}),
            ("sink.sink.influx.address.token", "UNREGISTERED_SECRET"),
        ),
        (influx("nothing"), ("sink.sink.influx.address.token", "UNKNOWN_SECRET")),
        (influx("others"), ("sink.sink.influx.address.token", "SECRET_FORBIDDEN")),
        (influx(url="http://mine:8086"), ("sink.sink.influx.address.token", "SECRET_ADDRESS")),
        (influx(url="ftp://influx:8086"), ("sink.sink.influx.address.url", "INVALID_URL")),
    ],
)
def test_what_is_wrong_with_the_address_of_a_sink_is_told(
    sink: spec_pb2.Sink, wrong: tuple[str, str]
) -> None:
    assert wrong in registering(sink)


def test_a_secret_of_another_team_is_in_a_sink_that_an_administrator_registered() -> None:
    assert registering(influx("others"), exempt=True) == []


def test_a_limit_that_a_kind_does_not_keep_is_refused() -> None:
    limit = spec_pb2.RateLimit(rows_per_second=5, requests_per_second=5, max_in_flight=5)
    kafka = spec_pb2.Sink(kafka=spec_pb2.KafkaSink(cluster="local"))

    assert registering(influx(), limit=limit) == []
    assert [each for each in registering(kafka, limit=limit) if "limit" in each[0]] == [
        ("sink.limit.requests_per_second", "LIMIT_NOT_KEPT"),
        ("sink.limit.max_in_flight", "LIMIT_NOT_KEPT"),
    ]


def test_what_is_wrong_with_teams_and_limits_of_a_sink_is_told() -> None:
    limit = spec_pb2.RateLimit(rows_per_second=-1, requests_per_second=float("nan"))

    assert registering(influx(), teams=["pricing", "pricing", "A"], limit=limit) == [
        ("sink.teams[1]", "DUPLICATE"),
        ("sink.teams[2]", "INVALID_NAME"),
        ("sink.limit.rows_per_second", "OUT_OF_RANGE"),
        ("sink.limit.requests_per_second", "OUT_OF_RANGE"),
    ]


@pytest.mark.parametrize("kind", sinks.names())
def test_of_every_secret_of_a_kind_it_is_known_where_it_is_sent(kind: str) -> None:
    message = spec_pb2.Sink.DESCRIPTOR.fields_by_name[kind].message_type
    sent = {key.field for key in flat(sinks.load(kind).KEYS) if key.sent_to}

    assert sent == set(references(message, ""))


def references(message: Descriptor, prefix: str) -> list[str]:
    found = []
    for field in message.fields:
        if field.type != FieldDescriptor.TYPE_MESSAGE:
            continue
        if field.message_type is SECRET:
            found.append(f"{prefix}{field.name}")
        else:
            found += references(field.message_type, f"{prefix}{field.name}.")
    return found
