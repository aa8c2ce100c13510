"""From names to addresses, and how a dagger is shown."""

from datetime import UTC, timedelta

import pytest
from daggers.v1 import events_pb2, gateway_pb2, spec_pb2
from google.protobuf import timestamp_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message

from daggerspec import defaults
from daggerspec.catalogue import UnresolvedName
from eventlog.testing import START, given
from fleet import Fleet
from fleet.decide.backoff import delay
from fleet.fold import resolve
from fleet.fold.view import find_outdated_daggers, to_proto

META = events_pb2.RequestMeta(actor="ada")
PLATFORM = spec_pb2.KafkaAddress(bootstrap_servers="platform:9092")
TOKEN = spec_pb2.SecretRef(env="INFLUX_TOKEN")
LOCAL = spec_pb2.Cluster(
    name="local",
    kafka={"bootstrap_servers": "local:9092"},
    spark_master="local[2]",
    influx={"url": "http://influx", "org": "-", "bucket": "daggers", "token": TOKEN},
)
FAR = spec_pb2.Cluster(name="far", kafka={"bootstrap_servers": "far:9092"}, spark_master="local[2]")
BARE = spec_pb2.Cluster(name="bare", spark_master="local[2]")
SPEC = spec_pb2.DaggerSpec(
    cluster="local",
    streams=[{"table": "b", "stream": "bookings"}, {"stream": "pings"}],
    sinks=[
        {"influx": {"measurement": "m"}},
        {"kafka": {"topic": "t", "cluster": "far", "format": "FORMAT_PROTOBUF", "message": "acme.Row"}},
        {"log": {}},
    ],
)


def file(name: str, package: str, message: str, *imports: str, field: str = "id") -> FileDescriptorProto:
    """A file with one message of one string field."""
    made = FileDescriptorProto(name=name, package=package, syntax="proto3", dependency=imports)
    made.message_type.add(name=message).field.add(name=field, number=1, label=1, type=9)
    return made


def schema(*files: FileDescriptorProto) -> events_pb2.SchemaRegistered:
    messages = [f"{each.package}.{message.name}" for each in files for message in each.message_type]
    return events_pb2.SchemaRegistered(
        meta=META, schema={"files": FileDescriptorSet(file=files), "messages": messages}
    )


def stream(name: str, message: str, *, cluster: str = "local") -> events_pb2.StreamRegistered:
    return events_pb2.StreamRegistered(
        meta=META,
        stream={
            "name": name,
            "cluster": cluster,
            "topics": [name],
            "message": message,
            "time_field": "at",
        },
    )


def fleet(*messages: Message) -> Fleet:
    """A fleet with three clusters, two streams and a dagger, and these messages after them."""
    folded = Fleet()
    known = [events_pb2.ClusterRegistered(meta=META, cluster=each) for each in (LOCAL, FAR, BARE)]
    acme = schema(file("rows.proto", "acme", "Row"), file("bookings.proto", "acme", "Booking"))
    rider = schema(file("pings.proto", "rider", "Ping"))
    streams = stream("bookings", "acme.Booking"), stream("pings", "rider.Ping", cluster="far")
    asked = events_pb2.DaggerRequested(meta=META, name="d", spec=SPEC, warnings=["WIDE: many tags"])
    for record in given(*known, acme, rider, *streams, asked, *messages):
        assert folded.apply(record).refused == ""
    return folded


def job(of: Fleet) -> spec_pb2.JobSpec:
    return resolve.job(
        of, of.daggers["d"], 42, platform=PLATFORM, checkpoint_root="/c/d-7", run_dir="/runs/d/42"
    )


def test_a_job_holds_everything_a_launch_needs() -> None:
    made = job(fleet())

    assert (made.dagger, made.version, made.generation) == ("d", 1, 42)
    assert (made.checkpoint_root, made.run_dir, made.platform) == ("/c/d-7", "/runs/d/42", PLATFORM)
    assert made.spec == defaults.fill_defaults("d", SPEC)
    assert [each.kafka.bootstrap_servers for each in made.streams] == ["local:9092", "far:9092"]
    assert [each.stream.message for each in made.streams] == ["acme.Booking", "rider.Ping"]
    assert made.sinks[0].sink.influx.address == LOCAL.influx
    assert made.sinks[1].kafka == FAR.kafka


def judged(*events: Message) -> Fleet:
    """A fleet whose dagger was judged, of team t, and these events behind it."""
    spec = spec_pb2.DaggerSpec()
    spec.CopyFrom(SPEC)
    spec.team = "t"
    places = ["influx://influx:80/daggers/m", "kafka://far:9092//t"]
    asked = events_pb2.DaggerRequested(meta=META, name="d", spec=spec, destinations=places)
    teams = [events_pb2.TeamRegistered(meta=META, team={"name": name}) for name in ("t", "others")]
    return fleet(*teams, asked, *events)


def test_a_job_says_what_its_sinks_may_write_to_where_that_was_judged() -> None:
    assert job(fleet()).destinations == []
    assert job(judged()).destinations == ["influx://influx:80/daggers/m", "kafka://far:9092//t"]


def test_a_launch_that_would_write_to_what_is_another_teams_by_now_is_refused() -> None:
    given_away = events_pb2.DestinationGiven(
        meta=META, destination={"name": "influx://influx:80/daggers/m", "team": "others"}
    )

    with pytest.raises(UnresolvedName, match="is team others's") as refused:
        job(judged(given_away))

    assert refused.value.reason == "FOREIGN_DESTINATION"


def test_a_job_says_where_its_clusters_are_and_not_how_to_get_in() -> None:
    made = job(fleet())

    assert [
        (cluster.name, cluster.kafka.bootstrap_servers, cluster.influx.url) for cluster in made.clusters
    ] == [
        ("local", "local:9092", "http://influx"),
        ("far", "far:9092", ""),
    ]
    assert not made.clusters[0].influx.HasField("token")


def test_a_stream_whose_spec_does_not_say_how_far_ahead_event_time_may_be_has_the_default() -> None:
    said = spec_pb2.DaggerSpec()
    said.CopyFrom(SPEC)
    said.streams[0].future_tolerance.FromSeconds(7)
    asked = events_pb2.DaggerRequested(meta=META, name="d", spec=said)

    made = job(fleet(asked))

    assert [each.input.future_tolerance.ToTimedelta() for each in made.streams] == [
        timedelta(seconds=7),
        defaults.FUTURE_TOLERANCE,
    ]


def test_a_job_holds_the_descriptors_of_its_messages_and_no_others() -> None:
    unused = schema(file("unused.proto", "acme", "Unused"))

    names = [each.name for each in job(fleet(unused)).descriptors.file]

    assert sorted(names) == ["bookings.proto", "pings.proto", "rows.proto"]


def test_descriptors_come_after_what_they_import() -> None:
    timestamp = FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(timestamp)
    inner = file("inner.proto", "deep", "Inner", "google/protobuf/timestamp.proto")
    outer = file("outer.proto", "deep", "Outer", "inner.proto")
    of = fleet(schema(outer, inner, timestamp))

    files = resolve.descriptors(of, ["deep.Outer"]).file

    assert [each.name for each in files] == ["google/protobuf/timestamp.proto", "inner.proto", "outer.proto"]


def test_two_teams_may_name_their_files_alike() -> None:
    of = fleet(
        schema(file("events.proto", "one", "Event"), file("one.proto", "one", "Row", "events.proto")),
        schema(file("events.proto", "two", "Event"), file("two.proto", "two", "Row", "events.proto")),
    )

    merged = resolve.descriptors(of, ["one.Row", "two.Row"])

    pool = DescriptorPool()
    for each in merged.file:
        pool.AddSerializedFile(each.SerializeToString())
    assert pool.FindMessageTypeByName("one.Event").file.name == "events.proto"
    assert pool.FindMessageTypeByName("two.Event").file.name == "two/events.proto"


def test_of_a_file_that_two_schemas_share_the_newest_registration_counts() -> None:
    old, new = file("shared.proto", "one", "Shared"), file("shared.proto", "one", "Shared", field="renamed")
    of = fleet(
        schema(old, file("a.proto", "one", "A", "shared.proto")),
        schema(new, file("b.proto", "one", "B", "shared.proto")),
    )

    merged = resolve.descriptors(of, ["one.B", "one.A"])

    (shared,) = [each for each in merged.file if each.name == "shared.proto"]
    assert shared.message_type[0].field[0].name == "renamed"


def test_files_that_contradict_each_other_are_refused_with_what_to_do() -> None:
    one, two = file("x.proto", "one", "A"), file("y.proto", "one", "B")
    for each in (one, two):
        each.message_type.add(name="Shared")
    of = fleet(schema(one), schema(two))

    with pytest.raises(UnresolvedName, match="register all their files in one schema") as raised:
        resolve.descriptors(of, ["one.A", "one.B"])

    assert raised.value.reason == "SCHEMA_CONFLICT"


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"cluster": "nowhere", "sinks": [{"influx": {}}]}, "UNKNOWN_CLUSTER"),
        ({"cluster": "bare", "sinks": [{"influx": {}}]}, "REQUIRED"),
        ({"cluster": "bare", "sinks": [{"kafka": {"topic": "t"}}]}, "NO_KAFKA"),
        ({"cluster": "local", "streams": [{"stream": "nothing"}]}, "UNKNOWN_STREAM"),
        (
            {
                "cluster": "local",
                "sinks": [{"kafka": {"topic": "t", "format": "FORMAT_PROTOBUF", "message": "no.Such"}}],
            },
            "UNKNOWN_MESSAGE",
        ),
    ],
)
def test_a_name_that_stands_for_nothing_is_named(spec: dict[str, object], reason: str) -> None:
    of = fleet(events_pb2.DaggerRequested(meta=META, name="d", spec=spec))

    with pytest.raises(UnresolvedName) as raised:
        job(of)

    assert raised.value.reason == reason


def test_a_launch_has_the_places_of_the_secrets_that_are_named_and_no_value() -> None:
    secrets = [
        events_pb2.SecretRegistered(
            meta=META,
            secret={"name": "token", "team": "t", "place": {"file": "/t"}, "addresses": ["http://influx:1"]},
        ),
        events_pb2.SecretRegistered(
            meta=META, secret={"name": "sasl", "place": {"env": "SASL"}, "addresses": ["local:9092"]}
        ),
        events_pb2.SecretRegistered(meta=META, secret={"name": "unused", "place": {"env": "OTHER"}}),
    ]
    local = spec_pb2.Cluster()
    local.CopyFrom(LOCAL)
    local.kafka.secret_properties["sasl.password"].name = "sasl"
    sink = {"url": "http://influx:1", "bucket": "b", "token": {"name": "token"}}
    registered = events_pb2.SinkRegistered(
        meta=META, sink={"name": "crm", "teams": ["t"], "sink": {"influx": {"address": sink}}}
    )
    spec = spec_pb2.DaggerSpec()
    spec.CopyFrom(SPEC)
    spec.team = "t"
    spec.sinks.add(registered="crm").influx.measurement = "mine"
    known = fleet(
        *secrets,
        events_pb2.ClusterRegistered(meta=META, cluster=local),
        registered,
        events_pb2.DaggerRequested(meta=META, name="counts", spec=spec),
    )
    made = resolve.job(
        known, known.daggers["counts"], 9, platform=PLATFORM, checkpoint_root="/c", run_dir="/r"
    )
    written = made.sinks[-1].sink

    assert written.influx.measurement == "mine"
    assert (written.influx.address.url, written.influx.address.org) == ("http://influx:1", "-")
    assert written.influx.address.token == spec_pb2.SecretRef(file="/t", addresses=["http://influx:1"])
    assert made.streams[0].kafka.secret_properties["sasl.password"] == spec_pb2.SecretRef(
        env="SASL", addresses=["local:9092"]
    )
    assert made.spec.sinks[-1].registered == "crm"
    assert [sink.name for sink in made.registered_sinks] == ["crm"]
    assert [secret.name for secret in made.secrets] == ["token"]


def test_daggers_that_are_to_run_share_what_a_registered_sink_allows() -> None:
    limit = {"rows_per_second": 900, "requests_per_second": 3, "max_in_flight": 2}
    sink = {"influx": {"address": {"url": "http://influx:1", "bucket": "b"}}}
    registered = events_pb2.SinkRegistered(meta=META, sink={"name": "crm", "sink": sink, "limit": limit})
    spec = spec_pb2.DaggerSpec()
    spec.CopyFrom(SPEC)
    spec.sinks.add(registered="crm").influx.measurement = "mine"
    named = [events_pb2.DaggerRequested(meta=META, name=f"counts-{n}", spec=spec) for n in range(4)]
    known = fleet(
        registered,
        *named,
        events_pb2.StopRequested(meta=META, name="counts-3", mode=events_pb2.STOP_MODE_NOW),
    )
    made = resolve.job(
        known, known.daggers["counts-0"], 9, platform=PLATFORM, checkpoint_root="/c", run_dir="/r"
    )

    assert made.sinks[-1].share == spec_pb2.RateLimit(
        rows_per_second=300, requests_per_second=1, max_in_flight=1
    )
    assert not any(sink.HasField("share") for sink in made.sinks[:-1])


def test_a_launch_writes_no_more_than_its_dagger_says_and_its_share_allows() -> None:
    limit = {"rows_per_second": 900, "max_in_flight": 2}
    sink = {"influx": {"address": {"url": "http://influx:1", "bucket": "b"}}}
    registered = events_pb2.SinkRegistered(meta=META, sink={"name": "crm", "sink": sink, "limit": limit})
    spec = spec_pb2.DaggerSpec()
    spec.CopyFrom(SPEC)
    own = {"rows_per_second": 500, "requests_per_second": 7, "max_in_flight": 5}
    spec.sinks.add(registered="crm", limit=own).influx.measurement = "mine"
    spec.sinks.add(limit=own).influx.measurement = "other"
    known = fleet(registered, events_pb2.DaggerRequested(meta=META, name="d", spec=spec))

    made = resolve.job(known, known.daggers["d"], 9, platform=PLATFORM, checkpoint_root="/c", run_dir="/r")

    assert [sink.share for sink in made.sinks[-2:]] == [
        spec_pb2.RateLimit(rows_per_second=500, requests_per_second=7, max_in_flight=2),
        spec_pb2.RateLimit(**own),
    ]
    assert not any(sink.HasField("share") for sink in made.sinks[:-2])


def test_a_clusters_token_is_not_sent_to_an_address_of_the_users_own() -> None:
    own = spec_pb2.Sink(influx={"address": {"url": "http://elsewhere"}})

    resolved = resolve.sink(fleet(), "d", SPEC, own).sink.influx.address

    assert (resolved.url, resolved.bucket, resolved.HasField("token")) == (
        "http://elsewhere",
        "daggers",
        False,
    )


def test_an_address_that_no_administrator_registered_is_held_to_rules() -> None:
    said = spec_pb2.DaggerSpec()
    said.CopyFrom(SPEC)
    said.sinks.add(influx={"address": {"url": "http://elsewhere"}})
    said.sinks.add(influx={"address": {"url": LOCAL.influx.url, "bucket": "other"}})
    of = fleet(events_pb2.DaggerRequested(meta=META, name="d", spec=said))
    rules = spec_pb2.Egress(enforce=True, networks="10.0.0.0/8")

    made = resolve.job(
        of, of.daggers["d"], 42, platform=PLATFORM, checkpoint_root="/c", run_dir="/r", egress=rules
    )

    held = [sink.egress if sink.HasField("egress") else None for sink in made.sinks]
    assert held == [None, None, None, rules, None]


def test_a_launch_is_told_the_folders_of_its_team() -> None:
    said = spec_pb2.DaggerSpec()
    said.CopyFrom(SPEC)
    said.team = "pricing"
    said.sinks.add(parquet={"location": "/data/pricing"})
    of = fleet(events_pb2.DaggerRequested(meta=META, name="d", spec=said))
    rules = spec_pb2.Egress(folders=["/data/{team}", "/all"])

    made = resolve.job(
        of, of.daggers["d"], 42, platform=PLATFORM, checkpoint_root="/c", run_dir="/r", egress=rules
    )

    assert made.sinks[-1].egress.folders == ["/data/pricing", "/all"]
    assert rules.folders == ["/data/{team}", "/all"]


def test_a_dagger_is_shown_with_its_findings_reasons_and_addresses() -> None:
    claim = events_pb2.SchedulerStarted(scheduler_id="s", host="here")
    of = fleet(claim)
    epoch = of.sequence
    fact = events_pb2.FactMeta(name="d", epoch=epoch)
    for message in (
        events_pb2.LaunchIntended(meta=fact, version=1),
        events_pb2.Launched(meta={"name": "d", "epoch": epoch, "generation": epoch + 1}, driver={"pid": 7}),
        events_pb2.Degraded(meta={"name": "d", "epoch": epoch, "generation": epoch + 1}, reasons=["STUCK"]),
    ):
        (record,) = given(message, since=of.sequence)
        assert of.apply(record).refused == ""

    shown = to_proto(of.daggers["d"], of)

    assert (shown.name, shown.phase, shown.desired) == (
        "d",
        gateway_pb2.DEGRADED,
        gateway_pb2.DESIRED_RUNNING,
    )
    assert (shown.generation, shown.observed_generation, shown.driver.pid) == (epoch + 1, epoch + 1, 7)
    assert shown.warnings == ["WIDE: many tags", "STUCK"]
    assert [sink.WhichOneof("kind") for sink in shown.spec.sinks] == ["influx", "kafka", "log"]
    assert shown.sinks[0].sink.influx.address.url == "http://influx"
    assert not shown.HasField("last_error")


def test_a_dagger_whose_sink_cannot_be_resolved_is_shown_as_asked() -> None:
    asked = spec_pb2.DaggerSpec(cluster="nowhere", sinks=[{"influx": {"measurement": "m"}}])
    of = fleet(events_pb2.DaggerRequested(meta=META, name="d", spec=asked))

    assert to_proto(of.daggers["d"], of).sinks[0].sink == asked.sinks[0]


def test_waits_double_up_to_a_cap_and_differ_between_daggers() -> None:
    base, cap = timedelta(seconds=2), timedelta(minutes=5)
    waits = [delay("d", attempt, base=base, cap=cap) for attempt in range(1, 30)]
    full = [min(base * 2 ** (attempt - 1), cap) for attempt in range(1, 30)]

    assert all(wait / 2 <= got <= wait for wait, got in zip(full, waits, strict=True))
    assert waits == [delay("d", attempt, base=base, cap=cap) for attempt in range(1, 30)]
    assert len({delay(f"d{n}", 3, base=base, cap=cap) for n in range(50)}) == 50


def test_a_job_knows_when_each_topic_came_into_its_stream() -> None:
    of = fleet()
    first = {name: moment.ToDatetime(UTC) for name, moment in job(of).streams[0].joined.items()}
    wider = stream("bookings", "acme.Booking")
    wider.stream.topics.append("more-bookings")
    (record,) = given(wider, since=of.sequence)
    of.apply(record._replace(time=START + timedelta(days=1)))

    assert {name: moment.ToDatetime(UTC) for name, moment in job(of).streams[0].joined.items()} == {
        **first,
        "more-bookings": START + timedelta(days=1),
    }


def test_a_stream_that_changed_after_the_launch_is_told_until_the_next_one() -> None:
    of = fleet(events_pb2.SchedulerStarted(scheduler_id="s", host="here"))
    epoch = of.sequence
    wider = stream("bookings", "acme.Booking")
    wider.stream.topics.append("more-bookings")

    def told(*messages: Message) -> list[str]:
        for message in messages:
            (record,) = given(message, since=of.sequence)
            of.apply(record)
        return [warning.split(":")[0] for warning in to_proto(of.daggers["d"], of).warnings]

    def launched() -> list[str]:
        last = {"name": "d", "epoch": epoch, "generation": of.daggers["d"].generation}
        intended = of.sequence + 2
        return told(
            events_pb2.Exited(meta=last, error={"retryable": True}),
            events_pb2.LaunchIntended(meta={"name": "d", "epoch": epoch}, version=1),
            events_pb2.Launched(
                meta={"name": "d", "epoch": epoch, "generation": intended}, driver={"pid": 7}
            ),
        )

    assert told(wider) == ["WIDE"]
    assert launched() == ["WIDE"]
    assert told(wider) == ["WIDE"]
    assert told(stream("bookings", "acme.Booking")) == ["WIDE", "STREAM_CHANGED"]
    assert (find_outdated_daggers(of, "bookings"), find_outdated_daggers(of, "other")) == (["d"], [])
    assert launched() == ["WIDE"]
    assert find_outdated_daggers(of, "bookings") == []


def test_a_request_gets_one_descriptor_of_a_message_however_often_it_asks() -> None:
    catalogue = resolve.FleetCatalogue(fleet())

    assert catalogue.message("acme.Row") is catalogue.message("acme.Row")
