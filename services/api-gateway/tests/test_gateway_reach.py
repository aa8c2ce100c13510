"""Attacks by tenants on what their daggers may reach: addresses, topics, consumer groups."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import grpc
import pytest
from daggers.v1 import events_pb2, gateway_pb2, spec_pb2
from tests.samplehosts import Host, serving
from tests.tenants import FILE, META, World, world

from access import Principal
from api_gateway.validate.reachability import KafkaId, Reach, ReachLimits
from chassis.egress.addresses import Address, EgressRules, parse
from chassis.egress.proxies import Proxies
from chassis.errors import ApiError
from chassis.interceptors import Context
from daggerspec.defaults import fill_defaults
from eventlog.testing import given
from fleet import Fleet
from fleet.fold import resolve

pb = gateway_pb2
Refused = Callable[[Awaitable[Any]], Awaitable[ApiError]]
KAFKA = {"local": "k1", "again": "k1", "other": "k2"}
INWARD = (
    *("http://127.0.0.1:8087", "http://localhost:8087", "http://2130706433:8087", "http://0x7f000001:8087"),
    *("http://0177.0.0.1:8087", "http://127.1:8087", "http://[::1]:8087", "http://[::ffff:127.0.0.1]:8087"),
    *(
        "http://169.254.169.254",
        "http://[::ffff:a9fe:a9fe]",
        "https://168.63.129.16",
        "https://[fd00:ec2::254]",
    ),
    *(
        "https://[fec0::1]",
        "https://[3fff::1]",
        "https://[5f00::1]",
        "https://192.88.99.1",
        "https://10.0.0.1",
    ),
)


def spec(samples: Any, team: str = "pricing", **sink: Any) -> spec_pb2.DaggerSpec:
    made = samples.spec()
    made.team = team
    if sink:
        del made.sinks[:]
        made.sinks.add(**sink)
    return made


def own(samples: Any, url: str) -> spec_pb2.DaggerSpec:
    return spec(samples, influx={"address": {"url": url, "bucket": "b"}})


def to(samples: Any, topic: str, cluster: str = "local", team: str = "pricing") -> spec_pb2.DaggerSpec:
    return spec(samples, team, kafka={"topic": topic, "cluster": cluster})


def create(asked: spec_pb2.DaggerSpec, name: str = "mine") -> pb.CreateDaggerRequest:
    return pb.CreateDaggerRequest(name=name, spec=asked)


def found(error: ApiError) -> list[tuple[str, str]]:
    return [(violation.field, violation.reason) for violation in error.violations]


@asynccontextmanager
async def tenants(
    harness: Any,
    samples: Any,
    *,
    enforce: bool = True,
    answers: bool = True,
    bounds: ReachLimits = ReachLimits(),  # noqa: B008 - a constant
) -> AsyncIterator[World]:
    """Two teams on clusters of which two are one Kafka by other addresses, and a host that can tell."""
    host = Host(ids=KAFKA if answers else {})
    async with (
        serving(("a", host)) as log,
        world(harness, samples, enforce=enforce, log=log, bounds=bounds) as made,
    ):
        for name, servers in (
            ("again", "kafka.example:9092"),
            ("other", "b:1"),
            ("twin", "x:1, 127.0.0.1:9092"),
        ):
            cluster = spec_pb2.Cluster(name=name, kafka=spec_pb2.KafkaAddress(bootstrap_servers=servers))
            await made.root.RegisterCluster(pb.RegisterClusterRequest(cluster=cluster))
        yield made


@pytest.fixture
async def enforcing(harness: Any, samples: Any) -> AsyncIterator[World]:
    bounds = ReachLimits(EgressRules.parse("", "192.168.0.0/16"), ("{team}.",))
    async with tenants(harness, samples, bounds=bounds) as made:
        yield made


# ---- Addresses ---------------------------------------------------------------------------------------------


async def test_an_address_that_leads_inward_is_refused_in_every_spelling(
    enforcing: World, samples: Any, refusal: Refused
) -> None:
    editor = enforcing.bot("editor")
    said = {url: found(await refusal(editor.CreateDagger(create(own(samples, url))))) for url in INWARD}

    place = ("spec.sinks[0].influx.address.url", "ADDRESS_REFUSED")
    assert said == {url: [place] for url in INWARD}


@pytest.mark.parametrize("url", ["http://127.0.0.1:8086", "http://192.168.1.1:8086", "https://93.184.216.34"])
async def test_what_is_registered_or_allowed_or_public_is_reached(
    enforcing: World, samples: Any, url: str
) -> None:
    """The first is the cluster's own, where an administrator registered it."""
    asked = own(samples, url)
    if url == samples.cluster().influx.url:
        asked.sinks[0].influx.address.bucket = samples.cluster().influx.bucket

    await enforcing.bot("editor").CreateDagger(create(asked))


def asking(samples: Any, token_url: str, url: str = "https://93.184.216.34") -> spec_pb2.DaggerSpec:
    asked = {"token_url": token_url, "client_id": "daggers", "client_secret": {"env": "SECRET"}}
    return spec(samples, http={"url": url, "auth": {"oauth2": asked}})


async def test_tokens_are_asked_for_where_rows_may_go_alone(
    enforcing: World, samples: Any, refusal: Refused
) -> None:
    root = enforcing.root  # who alone may name a variable
    said = {url: found(await refusal(root.CreateDagger(create(asking(samples, url))))) for url in INWARD}
    both = found(await refusal(root.CreateDagger(create(asking(samples, INWARD[0], INWARD[1])))))
    await root.CreateDagger(create(asking(samples, "https://93.184.216.35")))

    place = ("spec.sinks[0].http.auth.oauth2.token_url", "ADDRESS_REFUSED")
    assert said == {url: [place] for url in INWARD}
    assert both == [("spec.sinks[0].http.url", "ADDRESS_REFUSED"), place]


ELSEWHERE = ("/data", "/data/pricing2", "/data/other", "/etc", "/allx")


def files(samples: Any, location: str, team: str = "pricing") -> spec_pb2.DaggerSpec:
    return spec(samples, team, parquet={"location": location, "table": "t"})


@pytest.mark.parametrize("enforce", [True, False])
async def test_files_are_written_below_folders_of_the_team_alone(
    harness: Any, samples: Any, refusal: Refused, enforce: bool
) -> None:
    """While the gate observes, too: nobody has written files before."""
    bounds = ReachLimits(folders=("/data/{team}", "/all"))
    async with tenants(harness, samples, enforce=enforce, bounds=bounds) as made:
        editor = made.bot("editor")
        said = {}
        for each in ELSEWHERE:
            said[each] = found(await refusal(editor.CreateDagger(create(files(samples, each)))))
        for number, each in enumerate(("/data/pricing", "/data/pricing/a/b", "/all/x")):
            await editor.CreateDagger(create(files(samples, each), f"mine-{number}"))

    assert said == {each: [("spec.sinks[0].parquet.location", "FOLDER_REFUSED")] for each in ELSEWHERE}


async def test_files_are_written_nowhere_unless_an_administrator_says_where(
    harness: Any, samples: Any, refusal: Refused
) -> None:
    sink = spec_pb2.RegisteredSink(name="lake", sink={"parquet": {"location": "/lake"}}, teams=["pricing"])
    async with tenants(harness, samples) as made:
        editor = made.bot("editor")
        own = found(await refusal(editor.CreateDagger(create(files(samples, "/lake")))))
        theirs = found(await refusal(made.bot("owner").RegisterSink(pb.RegisterSinkRequest(sink=sink))))
        await made.root.RegisterSink(pb.RegisterSinkRequest(sink=sink))
        asked = spec(samples, parquet={"table": "t"}, registered="lake")
        await editor.CreateDagger(create(asked))

    assert own == [("spec.sinks[0].parquet.location", "FOLDER_REFUSED")]
    assert theirs == [("sink.sink.parquet.location", "FOLDER_REFUSED")]


async def test_a_gateway_that_observes_says_what_it_would_refuse(harness: Any, samples: Any) -> None:
    async with tenants(harness, samples, enforce=False) as observing:
        asked = own(samples, "http://169.254.169.254")
        asked.consumer_group = "payments"
        editor = observing.bot("editor")
        answer = await editor.Validate(pb.ValidateRequest(name="mine", spec=asked))
        made = (await editor.CreateDagger(create(asked))).dagger

    warned = {
        (finding.field, finding.code)
        for finding in answer.findings
        if finding.severity == pb.SEVERITY_WARNING
    }
    assert warned >= {
        ("spec.sinks[0].influx.address.url", "ADDRESS_REFUSED"),
        ("spec.consumer_group", "FOREIGN_GROUP"),
    }
    assert [warning.partition(":")[0] for warning in made.warnings] >= ["ADDRESS_REFUSED", "FOREIGN_GROUP"]


async def test_what_a_dagger_has_already_it_keeps(harness: Any, samples: Any, refusal: Refused) -> None:
    asked = own(samples, "http://10.0.0.1:8086")
    asked.consumer_group = "payments"
    asked.sinks.add(kafka={"topic": "rows", "cluster": "local"})
    async with tenants(harness, samples, enforce=False) as observing:
        await observing.bot("editor").CreateDagger(create(asked))
        log = observing.log
    asked.trigger.FromSeconds(7)
    async with harness.running(log, enforce=True, tokens=lambda: FILE) as client:
        editor = World(client, log, harness.audits).bot("editor")
        changed = await editor.UpdateDagger(pb.UpdateDaggerRequest(name="mine", spec=asked))
        asked.sinks[0].influx.address.url = "http://10.0.0.2:8086"
        error = await refusal(editor.UpdateDagger(pb.UpdateDaggerRequest(name="mine", spec=asked)))

    assert changed.dagger.version == 2
    assert found(error) == [("spec.sinks[0].influx.address.url", "ADDRESS_REFUSED")]


async def test_an_owner_registers_no_sink_inside_and_an_administrators_is_exempt(
    enforcing: World, samples: Any, refusal: Refused
) -> None:
    sink = spec_pb2.RegisteredSink(name="crm", teams=["pricing"])
    sink.sink.influx.address.url, sink.sink.influx.address.bucket = "http://10.0.0.1:8086", "b"
    register = pb.RegisterSinkRequest(sink=sink)
    named = spec(samples, influx={}, registered="crm")

    error = await refusal(enforcing.bot("owner").RegisterSink(register))
    await enforcing.root.RegisterSink(register)
    await enforcing.bot("editor").CreateDagger(create(named))

    assert found(error) == [("sink.sink.influx.address.url", "ADDRESS_REFUSED")]
    assert error.violations[0].description.endswith(
        " by `daggers sink apply`, and the sink says `registered: NAME` then"
    )
    assert not resolve.sink(enforcing.client.gateway.fold.fleet, "mine", named, named.sinks[0]).HasField(
        "egress"
    )


@pytest.mark.parametrize(
    ("answer", "bounds", "reasons"),
    [
        (["93.184.216.34"], ReachLimits(), []),
        (["93.184.216.34", "10.0.0.1"], ReachLimits(), ["ADDRESS_REFUSED"]),
        ([], ReachLimits(), ["ADDRESS_REFUSED"]),
        ([], ReachLimits(EgressRules.parse("influx.tenant.example")), []),
        ([], ReachLimits(proxies=Proxies({"https": "http://proxy:3128"})), []),
    ],
    ids=["public", "one of them private", "not known", "not known, vouched for", "not known, but by a proxy"],
)
async def test_a_name_is_judged_by_its_addresses(
    samples: Any, answer: list[str], bounds: ReachLimits, reasons: list[str]
) -> None:
    def resolver(host: str, port: int) -> list[Address]:
        assert (host, port) == ("influx.tenant.example", 443)
        if not answer:
            raise OSError
        return [parse(each) for each in answer]

    fleet = Fleet()
    for record in given(events_pb2.ClusterRegistered(cluster=samples.cluster())):
        fleet.apply(record)
    # Nobody is asked about a Kafka: the spec names none.
    reach = Reach(fleet, cast(KafkaId, None), bounds, enforce=True, resolver=resolver)
    asked = fill_defaults("mine", own(samples, "https://influx.tenant.example"))

    held = [resolve.sink(fleet, "mine", asked, sink) for sink in asked.sinks]
    judged = await reach.check_spec("spec", "mine", asked, held, Principal("account:a"), cast(Context, None))

    assert [each.reason for each in judged.wrong] == reasons
    if reasons and not answer:
        assert "its name leads nowhere that the gateway can find" in judged.wrong[0].message


# ---- Consumer groups ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "group", ["payments", "daggers.counts", "delivery.eta", "daggers.", "pricing", "Daggers.mine"]
)
async def test_a_group_of_somebody_else_is_refused(
    enforcing: World, samples: Any, refusal: Refused, group: str
) -> None:
    asked = spec(samples)
    asked.consumer_group = group

    error = await refusal(enforcing.bot("editor").CreateDagger(create(asked)))

    assert found(error) == [("spec.consumer_group", "FOREIGN_GROUP")]
    assert "must be daggers.mine, or begin with pricing." in error.violations[0].message


@pytest.mark.parametrize("group", ["", "daggers.mine", "pricing.fares"])
async def test_a_dagger_commits_in_its_own_group_and_in_those_of_its_team(
    enforcing: World, samples: Any, group: str
) -> None:
    asked = spec(samples)
    asked.consumer_group = group

    await enforcing.bot("editor").CreateDagger(create(asked))


async def test_an_administrator_gives_a_dagger_any_group_and_its_editors_go_on_with_it(
    enforcing: World, samples: Any
) -> None:
    asked = spec(samples)
    asked.consumer_group = "payments"
    await enforcing.root.CreateDagger(create(asked))
    asked.trigger.FromSeconds(7)

    changed = await enforcing.bot("editor").UpdateDagger(pb.UpdateDaggerRequest(name="mine", spec=asked))

    assert changed.dagger.version == 2


# ---- Topics ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cluster", ["local", "again", "twin"])
async def test_a_topic_of_another_team_is_refused_by_every_name_of_its_kafka(
    enforcing: World, samples: Any, refusal: Refused, cluster: str
) -> None:
    """`again` has another address and the same id, `twin` a server in common and no id."""
    await enforcing.bot("stranger").CreateDagger(create(to(samples, "rows", team="delivery"), "theirs"))

    error = await refusal(enforcing.bot("editor").CreateDagger(create(to(samples, "rows", cluster))))

    assert found(error) == [("spec.sinks[0].kafka.topic", "FOREIGN_TOPIC")]
    assert "rows is team delivery's" in error.violations[0].message


@pytest.mark.parametrize("cluster", ["local", "again", "twin"])
async def test_a_topic_stays_its_teams_when_no_dagger_writes_there_any_more(
    enforcing: World, samples: Any, refusal: Refused, cluster: str
) -> None:
    await enforcing.bot("stranger").CreateDagger(create(to(samples, "rows", team="delivery"), "theirs"))
    await enforcing.write(events_pb2.SchedulerStarted(scheduler_id="s"))
    epoch = enforcing.client.gateway.fold.fleet.leader.epoch
    await enforcing.root.DeleteDagger(pb.DeleteDaggerRequest(name="theirs"))
    await enforcing.write(events_pb2.Deleted(meta={"name": "theirs", "epoch": epoch}), "theirs")

    error = await refusal(enforcing.bot("editor").CreateDagger(create(to(samples, "rows", cluster))))

    assert found(error) == [("spec.sinks[0].kafka.topic", "FOREIGN_TOPIC")]


@pytest.mark.parametrize("cluster", ["local", "again", "twin"])
async def test_the_topic_of_a_stream_is_written_to_by_the_team_that_was_given_it_alone(
    enforcing: World, samples: Any, refusal: Refused, cluster: str
) -> None:
    stream = spec_pb2.Stream(name="trips", cluster="local", topics=["trips"], message="shop.Booking")
    stream.time_field = samples.stream().time_field
    await enforcing.root.RegisterStream(pb.RegisterStreamRequest(stream=stream))
    asked = create(to(samples, "trips", cluster))

    error = await refusal(enforcing.bot("editor").CreateDagger(asked))
    place = "kafka://127.0.0.1:9092//trips"
    given_to = events_pb2.DestinationGiven(meta=META, destination={"name": place, "team": "pricing"})
    await enforcing.write(given_to)
    made = await enforcing.bot("editor").CreateDagger(create(to(samples, "trips")))

    assert found(error) == [("spec.sinks[0].kafka.topic", "FOREIGN_TOPIC")]
    assert "read as stream trips" in error.violations[0].message
    assert made.dagger.version == 1


async def test_a_hidden_topic_of_another_program_is_refused(
    enforcing: World, samples: Any, refusal: Refused
) -> None:
    error = await refusal(enforcing.bot("editor").CreateDagger(create(to(samples, "_schemas"))))

    assert found(error) == [("spec.sinks[0].kafka.topic", "FOREIGN_TOPIC")]


async def test_a_topic_that_a_team_writes_to_may_become_a_stream_and_is_written_to_on(
    enforcing: World, samples: Any
) -> None:
    await enforcing.bot("editor").CreateDagger(create(to(samples, "trips"), "first"))
    stream = spec_pb2.Stream(name="trips", cluster="local", topics=["trips"], message="shop.Booking")
    stream.time_field = samples.stream().time_field
    await enforcing.root.RegisterStream(pb.RegisterStreamRequest(stream=stream))

    made = await enforcing.bot("editor").CreateDagger(create(to(samples, "trips"), "second"))

    assert made.dagger.version == 1


async def test_a_registered_sink_is_in_the_kafka_that_it_was_registered_with(
    enforcing: World, samples: Any, refusal: Refused
) -> None:
    sink = spec_pb2.RegisteredSink(name="topics", sink={"kafka": {"cluster": "again"}})
    await enforcing.root.RegisterSink(pb.RegisterSinkRequest(sink=sink))
    await enforcing.bot("stranger").CreateDagger(create(to(samples, "rows", team="delivery"), "theirs"))
    asked = [spec(samples, registered="topics", kafka={"topic": topic}) for topic in ("rows", "bookings-1")]

    errors = [await refusal(enforcing.bot("editor").CreateDagger(create(each))) for each in asked]

    assert [[reason for _, reason in found(error)] for error in errors] == [["FOREIGN_TOPIC"], ["LOOP"]]


async def test_a_topic_of_that_name_in_another_kafka_is_free(enforcing: World, samples: Any) -> None:
    await enforcing.bot("stranger").CreateDagger(create(to(samples, "rows", team="delivery"), "theirs"))

    await enforcing.bot("editor").CreateDagger(create(to(samples, "rows", "other")))


@pytest.mark.parametrize("cluster", ["again", "twin"])
async def test_rows_come_back_by_no_other_name_of_the_kafka_not_even_an_administrators(
    enforcing: World, samples: Any, refusal: Refused, cluster: str
) -> None:
    asked = create(to(samples, "bookings-1", cluster))
    errors = [await refusal(who.CreateDagger(asked)) for who in (enforcing.bot("editor"), enforcing.root)]

    assert [found(error) for error in errors] == [[("spec.sinks[0].kafka.topic", "LOOP")]] * 2


async def test_where_nobody_answers_which_kafka_it_is_that_is_said(harness: Any, samples: Any) -> None:
    async with tenants(harness, samples, answers=False) as made:
        asked = to(samples, "bookings-1", "again")
        answer = await made.bot("editor").Validate(pb.ValidateRequest(name="mine", spec=asked))
        created = (await made.bot("editor").CreateDagger(create(asked))).dagger

    said = [
        (finding.code, finding.severity)
        for finding in answer.findings
        if finding.field.endswith("kafka.topic")
    ]
    assert said == [("KAFKA_UNKNOWN", pb.SEVERITY_WARNING)]
    assert any(warning.startswith("KAFKA_UNKNOWN: ") for warning in created.warnings)


@pytest.mark.parametrize(
    "topic", ["daggers.control", "daggers.audit", "__consumer_offsets", "__transaction_state"]
)
async def test_nobody_writes_to_topics_of_the_platform_or_of_kafka(
    enforcing: World, samples: Any, refusal: Refused, topic: str
) -> None:
    errors = [
        await refusal(who.CreateDagger(create(to(samples, topic, cluster))))
        for who in (enforcing.bot("editor"), enforcing.root)
        for cluster in ("local", "other")
    ]

    assert [found(error) for error in errors] == [[("spec.sinks[0].kafka.topic", "RESERVED")]] * 4


async def test_a_stream_of_the_platforms_topics_is_an_administrators_to_make_and_to_grant(
    enforcing: World, samples: Any, refusal: Refused
) -> None:
    stream = samples.stream()
    stream.name, stream.topics[:] = "everything", ["daggers.control"]
    register = pb.RegisterStreamRequest(stream=stream)
    asked = spec(samples)
    asked.streams[0].stream = "everything"
    editor = enforcing.bot("editor")

    by_tenant = await refusal(editor.RegisterStream(register))
    await enforcing.root.RegisterStream(register)
    reading = await refusal(editor.CreateDagger(create(asked)))
    with pytest.raises(grpc.RpcError) as sampling:
        async for _ in editor.SampleStream(pb.SampleStreamRequest(name="everything")):
            pass

    assert (by_tenant.reason, reading.reason) == ("ROLE_MISSING", "STREAM_RESTRICTED")
    assert sampling.value.code() == grpc.StatusCode.PERMISSION_DENIED  # type: ignore[attr-defined] # the stubs leave it out


async def test_nobody_registers_a_stream_of_kafkas_own_topics(
    enforcing: World, samples: Any, refusal: Refused
) -> None:
    stream = samples.stream()
    stream.name, stream.topics[:] = "offsets", ["bookings-1", "__consumer_offsets"]

    error = await refusal(enforcing.root.RegisterStream(pb.RegisterStreamRequest(stream=stream)))

    assert found(error) == [("stream.topics[1]", "RESERVED")]
