"""Dagger files: every mistake at once, at its line."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from daggers.v1 import spec_pb2

from daggerclient import InvalidFileError
from daggerclient.daggerfile.keys import key
from daggerclient.daggerfile.parse import KEYS, parse
from daggerclient.daggerfile.show import to_document
from daggerclient.daggerfile.table import STREAM
from daggerclient.daggerfile.write import to_yaml

WHOLE = """\
name: completed_bookings
team: pricing
cluster: local
streams:
  - {table: data_stream, stream: bookings, watermark_delay: 5s, idle_timeout: off,
     future_tolerance: 2m, start: latest}
sql: |
  SELECT 1
  FROM `data_stream`
sinks:
  - {influx: {measurement: m, token: {env: TOKEN}}}
  - {kafka: {topic: t, format: protobuf, message: a.B, cluster: other}}
  - {log: {limit: 5}}
  - log
  - postgres:
      address: {host: db, port: 5433, database: d, user: u, password: {env: PASSWORD}, ca_file: /ca.pem}
      table: trips
      mode: insert_ignore
      key: [a, b]
      columns: {a: "A"}
      create_table: true
trigger: 500ms
emit: early
driver_memory: 1g
state: disk
consumer_group: mine
"""


def findings(text: str) -> list[tuple[str, str, int]]:
    with pytest.raises(InvalidFileError) as caught:
        parse(text, "d.yaml")
    return [(finding["code"], finding["field"], finding["line"]) for finding in caught.value.findings]


def only(text: str) -> Any:
    with pytest.raises(InvalidFileError) as caught:
        parse(text, "d.yaml")
    [finding] = caught.value.findings
    return finding


def test_a_whole_file_becomes_the_specification_it_describes() -> None:
    [dagger] = parse(WHOLE, "d.yaml")

    expected = spec_pb2.DaggerSpec(
        team="pricing",
        cluster="local",
        sql="SELECT 1\nFROM `data_stream`\n",
        emit=spec_pb2.EMIT_EARLY,
        driver_memory_mib=1024,
        state=spec_pb2.STATE_STORE_DISK,
        consumer_group="mine",
        trigger=timedelta(milliseconds=500),
        streams=[
            spec_pb2.StreamInput(
                table="data_stream",
                stream="bookings",
                watermark_delay=timedelta(seconds=5),
                idle_timeout=timedelta(0),
                future_tolerance=timedelta(minutes=2),
                start=spec_pb2.StartPosition(latest=True),
            )
        ],
        sinks=[
            spec_pb2.Sink(
                influx=spec_pb2.InfluxSink(
                    measurement="m",
                    address=spec_pb2.InfluxAddress(token=spec_pb2.SecretRef(env="TOKEN")),
                )
            ),
            spec_pb2.Sink(
                kafka=spec_pb2.KafkaSink(
                    topic="t", format=spec_pb2.KafkaSink.FORMAT_PROTOBUF, message="a.B", cluster="other"
                )
            ),
            spec_pb2.Sink(log=spec_pb2.LogSink(limit=5)),
            spec_pb2.Sink(log=spec_pb2.LogSink()),
            spec_pb2.Sink(
                postgres=spec_pb2.PostgresSink(
                    address=spec_pb2.PostgresAddress(
                        host="db",
                        port=5433,
                        database="d",
                        user="u",
                        password=spec_pb2.SecretRef(env="PASSWORD"),
                        tls=spec_pb2.Tls(ca_file="/ca.pem"),
                    ),
                    table="trips",
                    mode=spec_pb2.PostgresSink.MODE_INSERT_IGNORE,
                    key=["a", "b"],
                    columns={"a": "A"},
                    create_table=True,
                )
            ),
        ],
    )
    assert (dagger.name, dagger.spec, dagger.first_lines["sql"]) == ("completed_bookings", expected, 8)


HTTP = """
name: to_crm
team: crm
cluster: local
streams: [{table: data_stream, stream: bookings}]
sql: SELECT 1
sinks:
  - name: crm
    http:
      url: https://crm.example
      path: /v1/${id}
      auth: {basic: {user: u, password: crm-token}}
      headers: {X-A: b}
      body: ndjson
      rows_per_request: 7
      timeout: 3s
      retry_statuses: ["409"]
      split: true
  - {registered: crm, http: {path: /v1}}
"""


def test_a_sink_of_nested_keys_reads_back_as_it_is_written_and_a_registered_one_needs_no_address() -> None:
    [dagger] = parse(HTTP, "d.yaml")

    [again] = parse(to_yaml({"name": dagger.name, **to_document(dagger.spec)}), "d.yaml")
    own = spec_pb2.HttpSink(
        url="https://crm.example",
        path="/v1/${id}",
        auth=spec_pb2.HttpAuth(
            basic=spec_pb2.HttpAuth.Basic(user="u", password=spec_pb2.SecretRef(name="crm-token"))
        ),
        headers={"X-A": "b"},
        body=spec_pb2.HttpSink.BODY_NDJSON,
        rows_per_request=7,
        timeout=timedelta(seconds=3),
        retry_statuses=["409"],
        split=True,
    )
    theirs = spec_pb2.Sink(registered="crm", http=spec_pb2.HttpSink(path="/v1"))
    assert [*dagger.spec.sinks] == [spec_pb2.Sink(name="crm", http=own), theirs]
    assert again.spec.sinks == dagger.spec.sinks


SOME = """
name: some
team: crm
cluster: local
streams: [{stream: bookings}]
sql: SELECT 1
sinks:
  - log
  - log: {limit: 5}
    when: a > 1 AND b = 'x'
    limit: {rows_per_second: 0.5, requests_per_second: 20, max_in_flight: 3}
max_rows_per_batch: 5000
freshness: 10s
priority: critical
isolation: shared
needs: {zone: a}
executors: {count: 3, cores: 2, memory: 2g, cores_max: 6}
late: {keep: some}
"""


def test_which_rows_a_sink_gets_and_how_many_at_most_reads_back_as_it_is_written() -> None:
    [dagger] = parse(SOME, "d.yaml")

    [again] = parse(to_yaml({"name": dagger.name, **to_document(dagger.spec)}), "d.yaml")
    limit = spec_pb2.RateLimit(rows_per_second=0.5, requests_per_second=20, max_in_flight=3)
    some = spec_pb2.Sink(log=spec_pb2.LogSink(limit=5), when="a > 1 AND b = 'x'", limit=limit)
    assert [*dagger.spec.sinks][1:] == [some]
    assert (dagger.spec.max_rows_per_batch, dagger.spec.freshness.seconds) == (5_000, 10)
    assert (again.spec.sinks, again.spec.max_rows_per_batch) == (dagger.spec.sinks, 5_000)
    assert again.spec.freshness == dagger.spec.freshness
    assert (dagger.spec.priority, dict(dagger.spec.needs)) == (spec_pb2.PRIORITY_CRITICAL, {"zone": "a"})
    assert (again.spec.priority, again.spec.needs) == (dagger.spec.priority, dagger.spec.needs)
    assert dagger.spec.isolation == again.spec.isolation == spec_pb2.ISOLATION_SHARED
    assert dagger.spec.executors == spec_pb2.Executors(count=3, cores=2, memory_mib=2048, cores_max=6)
    assert again.spec.executors == dagger.spec.executors
    assert (dagger.spec.late.keep, again.spec.late) == ("some", dagger.spec.late)


@pytest.mark.parametrize(
    ("written", "instead", "field"),
    [
        ("rows_per_second: 0.5", "rows_per_second: 0", "sinks[1].limit.rows_per_second"),
        ("max_in_flight: 3", "max_in_flight: 0.5", "sinks[1].limit.max_in_flight"),
        ("max_in_flight: 3", "in_flight: 3", "sinks[1].limit.in_flight"),
        ("a > 1 AND b = 'x'", "true", "sinks[1].when"),
        ("batch: 5000", "batch: 0", "max_rows_per_batch"),
        ("batch: 5000", "batch: 2000001", "max_rows_per_batch"),
        ("freshness: 10s", "freshness: 0s", "freshness"),
        ("priority: critical", "priority: high", "priority"),
        ("isolation: shared", "isolation: both", "isolation"),
        ("needs: {zone: a}", "needs: [zone]", "needs"),
        ("count: 3", "count: 0", "executors.count"),
        ("memory: 2g", "memory: much", "executors.memory"),
        ("cores_max: 6", "max: 6", "executors.max"),
        ("late: {keep: some}", "late: update", "late"),
        ("late: {keep: some}", "late: keep", "late"),
    ],
)
def test_what_is_no_limit_and_no_condition_is_refused(written: str, instead: str, field: str) -> None:
    assert only(SOME.replace(written, instead))["field"] == field


CALLERS = HTTP.replace(
    "      auth: {basic: {user: u, password: crm-token}}\n",
    """\
      auth:
        oauth2:
          token_url: https://login.example/token
          client_id: daggers
          client_secret: crm-token
          scopes: [rows:write]
          audience: crm
          ca_file: /ca.pem
      tls: {client_certificate_file: /own.pem, client_key: {file: /own.key}, server_name: crm.internal}
""",
)


def test_a_sink_says_where_it_asks_for_tokens_and_which_certificate_it_shows() -> None:
    [dagger] = parse(CALLERS, "d.yaml")

    own = dagger.spec.sinks[0].http
    assert own.auth == spec_pb2.HttpAuth(
        oauth2=spec_pb2.HttpAuth.OAuth2(
            token_url="https://login.example/token",
            client_id="daggers",
            client_secret=spec_pb2.SecretRef(name="crm-token"),
            scopes=["rows:write"],
            audience="crm",
            ca_file="/ca.pem",
        )
    )
    assert own.client_tls == spec_pb2.ClientTls(
        client_certificate_file="/own.pem",
        client_key=spec_pb2.SecretRef(file="/own.key"),
        server_name="crm.internal",
    )
    [again] = parse(to_yaml({"name": dagger.name, **to_document(dagger.spec)}), "d.yaml")
    assert again.spec.sinks == dagger.spec.sinks


def test_what_is_wrong_with_who_calls_is_told_by_its_key() -> None:
    missing = only(CALLERS.replace("          client_id: daggers\n", ""))
    shown = only(CALLERS.replace("client_secret: crm-token", "client_secret: eyJhbGciOi.J9_-"))

    assert (missing["code"], missing["field"]) == ("MISSING_KEY", "sinks[0].http.auth.oauth2.client_id")
    assert (shown["code"], shown["field"]) == ("INLINE_SECRET", "sinks[0].http.auth.oauth2.client_secret")


def test_a_sink_without_an_address_is_told_which_key_it_lacks() -> None:
    missing = only(HTTP.replace("registered: crm, ", ""))

    assert (missing["code"], missing["field"]) == ("MISSING_KEY", "sinks[1].http.url")


def test_every_field_of_a_specification_has_a_key_in_the_file() -> None:
    fields = [key(f"spec.{field_.name}") for field_ in spec_pb2.DaggerSpec.DESCRIPTOR.fields]
    of_streams = [field_.name for field_ in spec_pb2.StreamInput.DESCRIPTOR.fields]
    filled = [row.field for row in STREAM]

    assert (set(fields) - set(KEYS), set(of_streams) - set(filled)) == (set(), set())


def test_a_specification_written_as_a_file_reads_back_the_same() -> None:
    [dagger] = parse(WHOLE, "d.yaml")

    [again] = parse(to_yaml({"name": dagger.name, **to_document(dagger.spec)}), "d.yaml")

    assert again.spec == dagger.spec


FORWARD = """\
name: to_crm
team: crm
cluster: local
streams: [{stream: bookings}]
forward:
  filter: |
    fare > 0
      AND status = 'COMPLETED'
  fields:
    zone: UPPER(city)
    "customer id": customer.id
sinks: [{kafka: {topic: t}}]
"""


def test_a_forwarding_has_a_filter_and_columns_in_their_order() -> None:
    [dagger] = parse(FORWARD, "d.yaml")
    fields = [(field_.name, field_.expression) for field_ in dagger.spec.forward.fields]

    assert dagger.spec.forward.filter == "fare > 0\n  AND status = 'COMPLETED'\n"
    assert fields == [("zone", "UPPER(city)"), ("customer id", "customer.id")]
    assert dagger.first_lines["forward.filter"] == 7
    assert dagger.first_lines["forward.fields[1].expression"] == 11
    [again] = parse(to_yaml({"name": dagger.name, **to_document(dagger.spec)}), "d.yaml")
    assert again.spec.forward == dagger.spec.forward


def test_a_forwarding_may_pass_records_on_as_they_are_and_keep_their_order() -> None:
    text = (
        FORWARD[: FORWARD.index("  fields:")]
        + """\
  payload: record
sinks: [{kafka: {topic: t}}, {http: {url: "https://crm", ordered: true}}]
"""
    )
    [dagger] = parse(text, "d.yaml")

    assert dagger.spec.forward.payload == spec_pb2.Forward.PAYLOAD_RECORD
    assert dagger.spec.sinks[0].kafka.format == spec_pb2.KafkaSink.FORMAT_UNSPECIFIED  # the gateway says it
    assert dagger.spec.sinks[1].http.ordered
    [again] = parse(to_yaml({"name": dagger.name, **to_document(dagger.spec)}), "d.yaml")
    assert (again.spec.forward, [*again.spec.sinks]) == (dagger.spec.forward, [*dagger.spec.sinks])
    assert findings(text.replace("record", "bytes")) == [("UNKNOWN_VALUE", "forward.payload", 9)]


def test_what_is_wrong_with_a_forwarding_is_told_by_its_key() -> None:
    text = FORWARD.replace("zone: UPPER(city)", "zone: 7").replace("  filter: |", "  filtre: |")

    assert findings(text) == [
        ("UNKNOWN_KEY", "forward.filtre", 6),
        ("WRONG_TYPE", "forward.fields[0].expression", 10),
    ]


def test_a_file_without_query_says_that_one_is_missing() -> None:
    text = FORWARD[: FORWARD.index("forward:")] + "sinks: [log]\n"

    assert findings(text) == [("MISSING_KEY", "sql", 1)]


def test_every_mistake_is_reported_at_once_with_its_line() -> None:
    text = """\
name: 7
tream: pricing
cluster: local
streams:
  - {stream: bookings, watermark_delay: soon, idle_timeuot: 10s, future_tolerance: 0s, start: yesterday}
sql: SELECT 1
sinks: []
trigger: 1 fortnight
emit: sometimes
driver_memory: lots
"""

    assert findings(text) == [
        ("UNKNOWN_KEY", "tream", 2),
        ("MISSING_KEY", "team", 1),
        ("WRONG_TYPE", "name", 1),
        ("UNKNOWN_KEY", "streams[0].idle_timeuot", 5),
        ("BAD_DURATION", "streams[0].watermark_delay", 5),
        ("BAD_DURATION", "streams[0].future_tolerance", 5),
        ("BAD_START", "streams[0].start", 5),
        ("EMPTY_LIST", "sinks", 7),
        ("BAD_DURATION", "trigger", 8),
        ("UNKNOWN_VALUE", "emit", 9),
        ("BAD_SIZE", "driver_memory", 10),
    ]


def test_an_unknown_key_says_which_one_was_probably_meant() -> None:
    finding = only(WHOLE.replace("trigger:", "triger:"))

    assert (finding["suggestion"], finding["line"], finding["column"]) == ("trigger", 22, 1)


@pytest.mark.parametrize("secret", ["Hunter2", "hunter 2", "h2", "eyJhbGciOi.J9_-", "hunter2="])
def test_a_secret_in_the_file_is_refused_and_not_repeated(secret: str) -> None:
    finding = only(WHOLE.replace("{env: TOKEN}", secret))

    assert finding["code"] == "INLINE_SECRET"
    assert secret not in finding["message"]


def test_a_registered_secret_and_a_registered_sink_are_named() -> None:
    text = WHOLE.replace("{env: TOKEN}", "crm-token").replace(
        "  - {log: {limit: 5}}", "  - {influx: {measurement: m}, registered: crm, name: main}"
    )
    [dagger] = parse(text, "d.yaml")
    named = dagger.spec.sinks[2]

    assert dagger.spec.sinks[0].influx.address.token == spec_pb2.SecretRef(name="crm-token")
    assert (named.influx.measurement, named.registered, named.name) == ("m", "crm", "main")
    assert parse(to_yaml({"name": dagger.name, **to_document(dagger.spec)}), "d.yaml")[0].spec == dagger.spec
    assert to_document(dagger.spec)["sinks"][2] == {
        "influx": {"measurement": "m"},
        "registered": "crm",
        "name": "main",
    }


@pytest.mark.parametrize(
    ("said", "then", "after_s"),
    [("wait", "THEN_WAIT", 0), ("skip", "THEN_SKIP", 0), ("{skip: 5m}", "THEN_SKIP", 300),
     ("{fail: 1h}", "THEN_FAIL", 3600), ("{wait: 15m}", "THEN_WAIT", 900),
     ("{skip: 5m, auto_replay: true}", "THEN_SKIP", 300)],
)  # fmt: skip
def test_what_becomes_of_rows_when_a_sink_is_away_or_refuses_most_is_said_beside_its_kind(
    said: str, then: str, after_s: int
) -> None:
    text = WHOLE.replace(
        "- {log: {limit: 5}}", f"- {{log: {{limit: 5}}, on_outage: {said}, max_refused: 0.5}}"
    )
    [dagger] = parse(text, "d.yaml")
    sink = dagger.spec.sinks[2]

    assert sink.on_outage.then == spec_pb2.OnOutage.Then.Value(then)
    assert (sink.on_outage.after.seconds, sink.max_refused) == (after_s, 0.5)
    assert sink.on_outage.auto_replay == ("auto_replay" in said)
    assert parse(to_yaml({"name": dagger.name, **to_document(dagger.spec)}), "d.yaml")[0].spec == dagger.spec


@pytest.mark.parametrize(
    ("said", "code", "field"),
    [
        ("on_outage: skp", "UNKNOWN_VALUE", "sinks[2].on_outage"),
        ("on_outage: {wait: 0s}", "BAD_DURATION", "sinks[2].on_outage.wait"),
        ("on_outage: {skip: 0s}", "BAD_DURATION", "sinks[2].on_outage.skip"),
        ("on_outage: {skip: 5m, fail: 6m}", "WRONG_TYPE", "sinks[2].on_outage"),
        ("on_outage: {auto_replay: true}", "WRONG_TYPE", "sinks[2].on_outage"),
        ("on_outage: {skip: 5m, auto_replay: 1}", "WRONG_TYPE", "sinks[2].on_outage.auto_replay"),
        ("max_refused: 0", "WRONG_TYPE", "sinks[2].max_refused"),
        ("max_refused: 1.1", "WRONG_TYPE", "sinks[2].max_refused"),
        ("max_refused: nan", "WRONG_TYPE", "sinks[2].max_refused"),
        ("max_refused: [0.5]", "WRONG_TYPE", "sinks[2].max_refused"),
    ],
)
def test_a_rule_of_a_sink_that_is_none_is_refused(said: str, code: str, field: str) -> None:
    found = findings(WHOLE.replace("- {log: {limit: 5}}", f"- {{log: {{limit: 5}}, {said}}}"))

    assert (code, field, 13) in found


def test_a_sink_that_says_no_kind_is_refused() -> None:
    assert findings(WHOLE.replace("- {log: {limit: 5}}", "- {registered: crm}")) == [
        ("MISSING_KEY", "sinks[2]", 13)
    ]


def test_text_that_is_no_yaml_is_one_finding_with_its_place() -> None:
    assert findings("name: [unclosed\nteam: x\n") == [("INVALID_YAML", "", 2)]


def test_two_documents_are_two_daggers_and_a_name_may_stand_once() -> None:
    other = WHOLE.replace("completed_bookings", "other")

    assert [dagger.name for dagger in parse(f"{WHOLE}---\n{other}", "d.yaml")] == [
        "completed_bookings",
        "other",
    ]
    assert findings(f"{WHOLE}---\n{WHOLE}") == [("DUPLICATE_NAME", "name", 28)]


def test_an_empty_file_is_refused() -> None:
    with pytest.raises(InvalidFileError, match=r"d\.yaml holds no dagger") as caught:
        parse("# nothing\n", "d.yaml")

    assert (caught.value.reason, caught.value.findings) == ("INVALID_FILE", ())


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("5s", timedelta(seconds=5)),
        ("500ms", timedelta(milliseconds=500)),
        ("1m", timedelta(minutes=1)),
        ("2h", timedelta(hours=2)),
        ("10", timedelta(seconds=10)),
        ("1.5s", timedelta(milliseconds=1500)),
    ],
)
def test_durations_are_numbers_with_a_unit_and_plain_numbers_are_seconds(text: str, span: timedelta) -> None:
    [dagger] = parse(WHOLE.replace("500ms", text), "d.yaml")

    assert dagger.spec.trigger.ToTimedelta() == span


def test_a_start_may_be_an_instant_with_its_zone() -> None:
    [dagger] = parse(WHOLE.replace("start: latest", "start: 2026-01-01T01:00:00+01:00"), "d.yaml")

    start = dagger.spec.streams[0].start.at.ToDatetime(tzinfo=UTC)
    assert start == datetime(2026, 1, 1, tzinfo=UTC)


def test_a_start_without_a_zone_is_refused() -> None:
    assert only(WHOLE.replace("start: latest", "start: 2026-01-01T00:00:00"))["code"] == "BAD_START"


def test_a_protobuf_sink_without_its_message_is_refused() -> None:
    finding = only(WHOLE.replace(" message: a.B,", ""))

    assert (finding["code"], finding["field"]) == ("MISSING_KEY", "sinks[1].kafka.message")


def test_two_kinds_in_one_sink_are_refused() -> None:
    finding = only(WHOLE.replace("{log: {limit: 5}}", "{log: {limit: 5}, kafka: {topic: x}}"))

    assert (finding["code"], finding["field"]) == ("MANY_SINKS", "sinks[2]")


def test_a_trigger_of_nothing_is_a_mistake_and_not_the_default() -> None:
    assert findings(WHOLE.replace("500ms", "0s")) == [("BAD_DURATION", "trigger", 22)]
