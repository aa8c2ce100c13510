"""Specs, addresses, masters, and what is wrong with each: the reason and the place every member gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Any, Final

QUERY = (
    "SELECT city AS tag_city, count(1) AS orders,"
    " TUMBLE_END(rowtime, INTERVAL '10' SECOND) AS window_timestamp"
    " FROM `data_stream` GROUP BY TUMBLE(rowtime, INTERVAL '10' SECOND), city"
)
STREAM: dict[str, Any] = {"stream": "bookings"}
SPEC: dict[str, Any] = {
    "team": "pricing", "cluster": "local", "streams": [STREAM], "sql": QUERY, "sinks": [{"influx": {}}],
}  # fmt: skip


class Only(Enum):
    """Why a gateway says what a driver does not."""

    ASKING = "nobody asks for this; once it was asked, it has become possible"
    OBJECTION = "what an earlier check accepted goes on with a warning (ADR 23)"


@dataclass(frozen=True)
class Case:
    """A spec: that of a simple dagger, with some fields replaced."""

    name: str
    fields: dict[str, Any]
    wrong: tuple[tuple[str, str], ...] = ()
    """Place and reason of each violation, in order."""
    only: Only | None = None
    """Set where the gateway alone refuses it."""

    @property
    def spec(self) -> dict[str, Any]:
        """As protobuf JSON."""
        return {**SPEC, **self.fields}


def stream(**fields: Any) -> dict[str, Any]:
    return {"streams": [{**STREAM, **fields}]}


def forward(*fields: dict[str, str], **more: Any) -> dict[str, Any]:
    return {"sql": "", "forward": {"fields": list(fields), **more}, "sinks": [{"log": {}}]}


def records(*sinks: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**forward(payload="PAYLOAD_RECORD", **more), "sinks": list(sinks)}


def sink(**kind: Any) -> dict[str, Any]:
    return {"sinks": [kind]}


def kafka(**fields: Any) -> dict[str, Any]:
    return sink(kafka={"topic": "out", **fields})


RULE: dict[str, Any] = {"name": "many_orders", "when": "orders > 3"}


def alert(**more: Any) -> dict[str, Any]:
    """Fill the fields of a dagger that has one rule."""
    return {"alerts": [{**RULE, **more}]}


def keep_late(sink: Mapping[str, Any] = MappingProxyType({}), **more: Any) -> dict[str, Any]:
    """Fill the fields of a dagger whose late records go to a topic; `sink`: further fields of that."""
    late = {"name": "late", "kafka": {"topic": "late"}, **sink}
    return {"late": {"keep": "late"}, **more, "sinks": [*more.get("sinks", [{"influx": {}}]), late]}


def influx(**fields: Any) -> dict[str, Any]:
    return sink(influx=fields)


def secret(name: str, url: str = "http://warehouse:8086") -> dict[str, Any]:
    return influx(address={"url": url, "bucket": "b", "token": {"name": name}})


def registered(name: str, kind: str = "influx", **fields: Any) -> dict[str, Any]:
    return {"sinks": [{kind: fields, "registered": name}]}


def postgres(**fields: Any) -> dict[str, Any]:
    address = {"host": "db", "database": "d", "user": "u", **fields.pop("address", {})}
    return sink(postgres={"address": address, "table": "t", **fields})


CERTIFICATE: Final = {"clientCertificateFile": "/own.pem", "clientKey": {"env": "KEY"}}


def http(**fields: Any) -> dict[str, Any]:
    return sink(http={"url": "https://crm.example", **fields})


def oauth2(**fields: Any) -> dict[str, Any]:
    own = {"tokenUrl": "https://login.example/token", "clientId": "daggers", "clientSecret": {"env": "S"}}
    return {"oauth2": own | fields}


def grpc(**fields: Any) -> dict[str, Any]:
    own = {"target": "crm.example:443", "method": "shop.Orders/Put", "message": "shop.Summary"}
    return sink(grpc=own | fields)


def elasticsearch(**fields: Any) -> dict[str, Any]:
    return sink(elasticsearch={"url": "https://search", "index": "trips", **fields})


def clevertap(**fields: Any) -> dict[str, Any]:
    own = {"account": "A-1", "region": "in1", "passcode": {"env": "P"}, "event": "e", "identity": "tag_city"}
    return sink(clevertap=own | fields)


def mixpanel(**fields: Any) -> dict[str, Any]:
    own = {"project": "42", "user": "u", "secret": {"env": "P"}, "event": "e", "identity": "tag_city"}
    return sink(mixpanel=own | fields)


MANY = ", ".join(f"1 AS n{number}" for number in range(255))


def redis(**fields: Any) -> dict[str, Any]:
    return sink(redis={"address": "cache:6379", "key": "trips:${tag_city}"} | fields)


def early(window: str, having: str = "") -> dict[str, Any]:
    span = "(rowtime, INTERVAL '1' MINUTE)"
    sql = (
        f"SELECT city AS tag_city, COUNT(*) AS n, {window}_END{span} AS window_timestamp FROM data_stream"
        f" GROUP BY {window}{span}, city {having}"
    )
    return {"sql": sql, "emit": "EMIT_EARLY"}


UPDATES = {"emit": "EMIT_FINAL", "late": {"update": "600s"}}


def one(place: str, reason: str) -> tuple[tuple[str, str], ...]:
    return ((f"spec.{place}", reason),)


ACCEPTED = (
    Case("as it is", {}),
    Case("late records kept", keep_late()),
    Case("without an idle timeout", stream(idleTimeout="0s")),
    Case("forwarding all", forward()),
    Case("forwarding some", forward({"name": "tag_city", "expression": "UPPER(city)"}, filter="city <> 'x'")),
    Case("records as they are, wherever those can go", records(
        {"kafka": {"topic": "out"}}, {"http": {"url": "https://crm.example", "ordered": True}},
        grpc(message="shop.Booking", ordered=True)["sinks"][0], {"log": {}}, filter="city <> 'x'")),
    Case("rows of records in their order", {**forward(), **http(ordered=True, rowsPerRequest=10)}),
    Case("from an instant", stream(start={"at": "2023-11-14T22:13:20Z"})),
    Case("into the log", sink(log={"limit": 5})),
    Case("into a topic as JSON", kafka()),
    Case("into a topic as a message", kafka(format="FORMAT_PROTOBUF", message="shop.Summary")),
    Case("into a database of its own", influx(address={"url": "https://own", "org": "o", "bucket": "b"})),
    Case("with a secret of its team", secret("pricing-token")),
    Case("into a registered database", registered("warehouse", measurement="m")),
    Case("into a topic of a registered Kafka", registered("topics", "kafka", topic="out")),
    Case("with names", {"sinks": [{"log": {}, "name": "db"}, {"log": {}, "name": "two"}, {"log": {}}]}),
    Case("with rules for outages and refusals",
         {"sinks": [{"log": {}, "onOutage": {"then": "THEN_SKIP", "after": "60s", "autoReplay": True},
                     "maxRefused": 0.5},
                    {"influx": {}, "onOutage": {"then": "THEN_FAIL"}, "maxRefused": 1},
                    {"kafka": {"topic": "out"}, "onOutage": {}}]}),
    Case("at most so much at once, and a second",
         {"maxRowsPerBatch": 2_000_000,
          "sinks": [{"influx": {}, "limit": {"rowsPerSecond": 0.5, "requestsPerSecond": 1, "maxInFlight": 2}},
                    {"log": {}, "limit": {}}]}),
    Case("some rows here and others there",
         {"sinks": [{"influx": {}, "when": "orders > 9"}, {"log": {}, "when": "orders <= 9"}, {"log": {}}]}),
    Case("some records as they are", records({"log": {}, "when": "key IS NOT NULL"})),
    Case("early", {"emit": "EMIT_EARLY"}),
    Case("in three stores", {"sinks": [{"influx": {}}, {"kafka": {"topic": "out"}}, {"log": {}}]}),
    Case("in a process with others", {"isolation": "ISOLATION_SHARED"}),
    Case("with its state on disk", {"state": "STATE_STORE_DISK", "driverMemoryMib": 450}),
    Case("tags only, and no point is made of it",
         {"sql": "SELECT city AS tag_city FROM data_stream", **kafka()}),
    Case("a table that shows what its rows are told apart by", postgres()),
    Case("files in folders of days",
         sink(parquet={"location": "/f", "by": "window_timestamp", "per": "PER_DAY", "zone": "Asia/Kolkata",
                       "codec": "CODEC_SNAPPY"})),
    Case("a table that rows are added to",
         {"sql": "SELECT city AS c, 1 AS n FROM data_stream", **postgres(mode="MODE_APPEND")}),
    Case("a table with a key that somebody says",
         {"sql": "SELECT city AS c, 1 AS n FROM data_stream", **postgres(key=["c"])}),
    Case("an index of a day, and documents with an id",
         elasticsearch(index="trips-${window_timestamp:%Y}", id="${tag_city}", routing="${orders}")),
    Case("events of CleverTap", clevertap(event="counted ${orders}")),
    Case("profiles of CleverTap", clevertap(event="", profile=True)),
    Case("events of Mixpanel", mixpanel(region="eu")),
    Case("keys of Redis", redis(ttl="3600s", database=1)),
    Case("hashes of Redis, early", {**redis(type="TYPE_HASH", plaintext=True), "emit": "EMIT_EARLY"}),
    Case("documents early", {**elasticsearch(createIndex=True), "emit": "EMIT_EARLY"}),
    Case("calls of a method", grpc(metadata={"x-city": "c-${tag_city}"}, plaintext=True, deadline="5s")),
    Case("calls of a method that is registered", grpc(method="shop.Summaries/Put")),
    Case("calls of a method that says whether it took the row",
         grpc(response="shop.Summary", successIf="response.orders != -1 && response.tag_city == 'a'")),
    Case("a server that gets many rows at once", http(rowsPerRequest=100, wrap='{"d": "${rows}"}')),
    Case("a server that gets each row at its own path",
         http(path="/v1/${tag_city}", template='{"at": "${window_timestamp:%Y}"}', query={"n": "${orders}"},
              auth={"header": {"name": "X-Api-Key", "value": {"env": "KEY"}}})),
    Case("a server that is shown a token that is asked for",
         http(auth=oauth2(scopes=["rows:write"], audience="crm", caFile="/ca.pem"))),
    Case("documents by a token that is asked for", elasticsearch(auth=oauth2())),
    Case("calls with a certificate of who calls",
         grpc(clientTls={**CERTIFICATE, "serverName": "crm.internal"}, auth=oauth2())),
)  # fmt: skip

REFUSED = (
    Case("no cluster", {"cluster": ""}, one("cluster", "REQUIRED")),
    Case("unknown cluster", {"cluster": "nowhere"}, one("cluster", "UNKNOWN_CLUSTER")),
    Case("cluster without Spark and bucket", {"cluster": "bare"},
         (("spec.cluster", "NO_SPARK"), ("spec.sinks[0].influx.address.bucket", "REQUIRED"))),
    Case("team of two lines", {"team": "a\nb"}, one("team", "INVALID_CHARACTER")),
    Case("long team", {"team": "a" * 129}, one("team", "TOO_LONG")),
    Case("neither query nor forwarding", {"sql": ""}, one("sql", "REQUIRED")),
    Case("query and forwarding", {"forward": {}}, one("forward", "FORWARD_AND_SQL")),
    Case("forwarding two streams", {**forward(), "streams": [{**STREAM, "table": t} for t in ("a", "b")]},
         one("streams", "TOO_MANY")),
    Case("columns half said", forward({"name": "a"}, {"expression": "city"}),
         (("spec.forward.fields[0].expression", "REQUIRED"), ("spec.forward.fields[1].name", "REQUIRED"))),
    Case("forwarding what is not there", forward({"name": "a", "expression": "citty"}, filter="towns = 1"),
         (("spec.forward.fields[0].expression", "UNKNOWN_COLUMN"),
          ("spec.forward.filter", "UNKNOWN_COLUMN"))),
    Case("two columns in one", forward({"name": "a", "expression": "city, city"}, filter="city ="),
         (("spec.forward.fields[0].expression", "SYNTAX_ERROR"), ("spec.forward.filter", "SYNTAX_ERROR"))),
    Case("unknown payload", forward(payload=9), one("forward.payload", "UNKNOWN_ENUM_VALUE")),
    Case("records with columns", forward({"name": "a", "expression": "city"}, payload="PAYLOAD_RECORD"),
         one("forward.fields", "UNEXPECTED")),
    Case("records where only rows can go", records({"influx": {"measurement": "m"}}),
         one("sinks[0]", "NOT_RECORDS")),
    Case("records as JSON", records({"kafka": {"topic": "out", "format": "FORMAT_JSON"}}),
         one("sinks[0].kafka.format", "UNEXPECTED")),
    Case("records of an own query", kafka(format="FORMAT_RECORD"),
         one("sinks[0].kafka.format", "RAW_NEEDS_FORWARD")),
    Case("bodies as they are, of an own query", http(body="BODY_RAW"),
         one("sinks[0].http.body", "RAW_NEEDS_FORWARD")),
    Case("several records in a body of JSON", records(
        {"http": {"url": "https://crm.example", "rowsPerRequest": 2, "template": "{}", "rowId": "id"}}),
         one("sinks[0].http.rows_per_request", "UNEXPECTED") + one("sinks[0].http.template", "UNEXPECTED")
         + one("sinks[0].http.row_id", "UNEXPECTED")),
    Case("calls with records of another message", records(grpc()["sinks"][0]),
         one("sinks[0].grpc.message", "TYPE_MISMATCH")),
    Case("windows in the order of records", http(ordered=True), one("sinks[0].http.ordered", "UNEXPECTED")),
    Case("columns of records in an own query", {"sql": "SELECT __value AS v FROM data_stream"},
         one("sql", "UNKNOWN_COLUMN")),
    Case("no streams", {"streams": []}, one("streams", "REQUIRED")),
    Case("twelve streams", {"streams": [{**STREAM, "table": f"t{n}"} for n in range(12)],
                            "sql": QUERY.replace("data_stream", "t1")}, one("streams", "TOO_MANY")),
    Case("no stream", stream(stream=""), one("streams[0].stream", "REQUIRED")),
    Case("unknown stream", stream(stream="nothing"), one("streams[0].stream", "UNKNOWN_STREAM")),
    Case("stream without Kafka", stream(stream="lost"), one("streams[0].stream", "NO_KAFKA")),
    Case("table that is no name", stream(table="a-b"), one("streams[0].table", "INVALID_NAME")),
    Case("one table twice", {"streams": [{**STREAM, "table": t} for t in ("data_stream", "DATA_STREAM")]},
         (("spec.streams[0].table", "DUPLICATE"), ("spec.streams[1].table", "DUPLICATE"))),
    Case("negative delay", stream(watermarkDelay="-1s"), one("streams[0].watermark_delay", "OUT_OF_RANGE")),
    Case("delay of a month", stream(watermarkDelay="2764800s"),
         one("streams[0].watermark_delay", "OUT_OF_RANGE")),
    Case("negative idle timeout", stream(idleTimeout="-1s"), one("streams[0].idle_timeout", "OUT_OF_RANGE")),
    Case("no tolerance", stream(futureTolerance="0s"), one("streams[0].future_tolerance", "OUT_OF_RANGE")),
    Case("before 1970", stream(start={"at": "1969-12-31T23:59:55Z"}),
         one("streams[0].start.at", "OUT_OF_RANGE")),
    Case("from the future", stream(start={"at": "2026-07-01T12:02:00Z"}),
         one("streams[0].start.at", "OUT_OF_RANGE"), Only.ASKING),
    Case("not latest", stream(start={"latest": False}), one("streams[0].start.latest", "OUT_OF_RANGE")),
    Case("no trigger", {"trigger": "0s"}, one("trigger", "OUT_OF_RANGE")),
    Case("rows before their windows end", {"freshness": "0s"}, one("freshness", "OUT_OF_RANGE")),
    Case("a rule by what is no column", alert(when="oders > 9"), one("alerts[0].when", "UNKNOWN_COLUMN")),
    Case("a rule without a condition and a name", {"alerts": [{}]},
         one("alerts[0].name", "INVALID_NAME") + one("alerts[0].when", "REQUIRED")
         + one("alerts[0].when", "SYNTAX_ERROR")),
    Case("two rules of one name", {"alerts": [RULE, RULE]},
         one("alerts[0].name", "DUPLICATE") + one("alerts[1].name", "DUPLICATE")),
    Case("51 rules", {"alerts": [{**RULE, "name": f"rule{n}"} for n in range(51)]},
         one("alerts", "TOO_MANY")),
    Case("a rule for two times", alert(forWindows=2, forTime="60s"), one("alerts[0].for_time", "CONFLICT")),
    Case("a rule for no time", alert(forTime="0s"), one("alerts[0].for_time", "OUT_OF_RANGE")),
    Case("a rule for very many windows", alert(forWindows=10_001),
         one("alerts[0].for_windows", "OUT_OF_RANGE")),
    Case("a rule that is over by two rules", alert(clear=0.2, resolveWhen="orders < 3"),
         one("alerts[0].clear", "CONFLICT")),
    Case("a rule that is over beyond all", alert(clear=1.5), one("alerts[0].clear", "OUT_OF_RANGE")),
    Case("a rule that clears by no number", alert(when="orders > 3 AND orders < 9", clear=0.2),
         one("alerts[0].clear", "CLEAR_NOT_POSSIBLE")),
    Case("a rule of no severity", alert(severity=9), one("alerts[0].severity", "UNKNOWN_ENUM_VALUE")),
    Case("a rule by keys that are none", alert(key=["tag_city", "tag_city", "town"]),
         one("alerts[0].key[1]", "DUPLICATE") + one("alerts[0].key[2]", "UNKNOWN_COLUMN")),
    Case("a rule that tells of no column", alert(summary="{tag_town} has {orders:q}"),
         one("alerts[0].summary", "INVALID_SUMMARY")),
    Case("a rule with a runbook that is none", alert(runbook="wiki/orders"),
         one("alerts[0].runbook", "INVALID_URL")),
    Case("a rule on early rows", {**alert(), "emit": "EMIT_EARLY"},
         one("alerts[0].when", "RULE_NEEDS_WINDOW")),
    Case("late records without a sink", {"late": {"keep": "late"}}, one("late.keep", "NO_SUCH_SINK")),
    Case("late records alone", keep_late(sinks=[]), one("late.keep", "REQUIRED")),
    Case("late records as points",
         {"late": {"keep": "late"}, "sinks": [{"log": {}}, {"name": "late", "influx": {}}]},
         one("sinks[1]", "NOT_LATE")),
    Case("late records by a condition", keep_late({"when": "orders > 1"}),
         one("sinks[1].when", "UNEXPECTED")),
    Case("late records that are refused", keep_late({"maxRefused": 0.5}),
         one("sinks[1].max_refused", "UNEXPECTED")),
    Case("late records that are skipped", keep_late({"onOutage": {"then": "THEN_SKIP"}}),
         one("sinks[1].on_outage", "UNEXPECTED")),
    Case("late records as rows", keep_late({"kafka": {"topic": "late", "format": "FORMAT_JSON"}}),
         one("sinks[1].kafka.format", "UNEXPECTED")),
    Case("late records of any query", keep_late(sql=QUERY.replace("GROUP", "WHERE UPPER(city) = 'A' GROUP")),
         one("late.keep", "LATE_NOT_KNOWN")),
    Case("updates for no time", {"late": {"update": "0s"}}, one("late.update", "OUT_OF_RANGE")),
    Case("updates for a moment", {"late": {"update": "0.5s"}}, one("late.update", "OUT_OF_RANGE")),
    Case("updates of sessions", {**early("SESSION"), **UPDATES}, one("sql", "UPDATE_NOT_POSSIBLE")),
    Case("updates, and HAVING turns false again", {**early("TUMBLE", "HAVING COUNT(*) < 9"), **UPDATES},
         one("sql", "UPDATE_NOT_POSSIBLE"), Only.OBJECTION),
    Case("updates into a topic", {**kafka(), **UPDATES}, one("sinks[0]", "NOT_UPSERT")),
    Case("updates of early rows", {**early("TUMBLE"), "late": {"update": "600s"}},
         one("late.update", "UNEXPECTED")),
    Case("unknown priority", {"priority": 9}, one("priority", "UNKNOWN_ENUM_VALUE")),
    Case("executors without a cluster of them", {"executors": {"count": 2}},
         one("executors", "NO_EXECUTORS_THERE")),
    Case("unknown isolation", {"isolation": 9}, one("isolation", "UNKNOWN_ENUM_VALUE")),
    Case("shared with a memory of its own", {"isolation": "ISOLATION_SHARED", "driverMemoryMib": 900},
         one("isolation", "CANNOT_SHARE")),
    Case("label that is no word", {"needs": {"zone": "a b"}}, one('needs["zone"]', "INVALID_LABEL")),
    Case("unknown emission", {"emit": 9}, one("emit", "UNKNOWN_ENUM_VALUE")),
    Case("unknown place of state", {"state": 9}, one("state", "UNKNOWN_ENUM_VALUE")),
    Case("little memory", {"driverMemoryMib": 449}, one("driver_memory_mib", "OUT_OF_RANGE")),
    Case("more at once than a driver takes", {"maxRowsPerBatch": 2_000_001},
         one("max_rows_per_batch", "OUT_OF_RANGE")),
    Case("group that is no name", {"consumerGroup": "a b"}, one("consumer_group", "INVALID_GROUP")),
    Case("no query", {"sql": " "}, one("sql", "REQUIRED")),
    Case("large query", {"sql": "SELECT 1 " * 40_000}, one("sql", "QUERY_TOO_LARGE")),
    Case("unknown table", {"sql": "SELECT city FROM elsewhere"}, one("sql", "UNKNOWN_TABLE")),
    Case("unknown column", {"sql": "SELECT citty FROM data_stream"}, one("sql", "UNKNOWN_COLUMN")),
    Case("two mistakes of a query", {"sql": "SELECT citty, plaice FROM data_stream"},
         (("spec.sql", "UNKNOWN_COLUMN"), ("spec.sql", "UNKNOWN_COLUMN"))),
    Case("early sessions", early("SESSION"), one("sql", "EARLY_NOT_POSSIBLE")),
    Case("early, and HAVING turns false again", early("TUMBLE", "HAVING COUNT(*) < 9"),
         one("sql", "EARLY_NOT_POSSIBLE"), Only.OBJECTION),
    Case("early into a topic", {**kafka(), "emit": "EMIT_EARLY"}, one("sinks[0]", "NOT_UPSERT")),
    Case("early into the log", {**sink(log={}), "emit": "EMIT_EARLY"}, one("sinks[0]", "NOT_UPSERT")),
    Case("no sinks", {"sinks": []}, one("sinks", "REQUIRED")),
    Case("a sink of no kind", sink(), one("sinks[0]", "REQUIRED")),
    Case("21 sinks", {"sinks": [{"log": {}}] * 21}, one("sinks", "TOO_MANY")),
    Case("back into its stream", kafka(topic="bookings-1"), one("sinks[0].kafka.topic", "LOOP")),
    Case("into a topic of the platform", kafka(topic="daggers.heartbeats"),
         one("sinks[0].kafka.topic", "RESERVED")),
    Case("into Kafka's own topic", kafka(topic="__consumer_offsets"),
         one("sinks[0].kafka.topic", "RESERVED")),
    Case("into a topic that is no name", kafka(topic="a b"), one("sinks[0].kafka.topic", "INVALID_TOPIC")),
    Case("into an unknown cluster", kafka(cluster="nowhere"),
         one("sinks[0].kafka.cluster", "UNKNOWN_CLUSTER")),
    Case("into a cluster without Kafka", kafka(cluster="bare"), one("sinks[0].kafka.cluster", "NO_KAFKA")),
    Case("JSON of a message", kafka(message="shop.Summary"), one("sinks[0].kafka.message", "UNEXPECTED")),
    Case("unknown format", kafka(format=9), one("sinks[0].kafka.format", "UNKNOWN_ENUM_VALUE")),
    Case("message without a name", kafka(format="FORMAT_PROTOBUF"),
         one("sinks[0].kafka.message", "REQUIRED")),
    Case("unknown message", kafka(format="FORMAT_PROTOBUF", message="shop.Gone"),
         one("sinks[0].kafka.message", "UNKNOWN_MESSAGE")),
    Case("columns that are no fields", kafka(format="FORMAT_PROTOBUF", message="shop.Booking"),
         one("sinks[0].kafka.message", "UNKNOWN_FIELD") * 3),
    Case("column of another type",
         {"sql": "SELECT city AS orders FROM data_stream",
          **kafka(format="FORMAT_PROTOBUF", message="shop.Summary")},
         one("sinks[0].kafka.message", "TYPE_MISMATCH")),
    Case("measurement that is InfluxDB's", influx(measurement="_internal"),
         one("sinks[0].influx.measurement", "INVALID_NAME")),
    Case("measurement that is a comment", influx(measurement="#m"),
         one("sinks[0].influx.measurement", "INVALID_NAME")),
    Case("measurement that escapes its tags", influx(measurement="fares\\"),
         one("sinks[0].influx.measurement", "INVALID_NAME")),
    Case("database by another protocol", influx(address={"url": "ftp://x"}),
         one("sinks[0].influx.address.url", "INVALID_URL")),
    Case("secret in a URL", influx(address={"url": "http://u:p@x"}),
         one("sinks[0].influx.address.url", "INLINE_SECRET")),
    Case("token that is nowhere", influx(address={"token": {}}),
         one("sinks[0].influx.address.token", "REQUIRED")),
    Case("token in no variable", influx(address={"token": {"env": "A-B"}}),
         one("sinks[0].influx.address.token.env", "INVALID_REFERENCE")),
    Case("token among the files of processes", influx(address={"token": {"file": "/proc/self/environ"}}),
         one("sinks[0].influx.address.token.file", "INVALID_REFERENCE")),
    Case("token of a device, by a detour", influx(address={"token": {"file": "/etc/..//dev/zero"}}),
         one("sinks[0].influx.address.token.file", "INVALID_REFERENCE")),
    Case("unknown secret", secret("prycing-token"),
         one("sinks[0].influx.address.token", "UNKNOWN_SECRET")),
    Case("secret of another team", secret("others-token"),
         one("sinks[0].influx.address.token", "SECRET_FORBIDDEN")),
    Case("secret to an address of the tenant's own", secret("pricing-token", "http://mine:8086"),
         one("sinks[0].influx.address.token", "SECRET_ADDRESS")),
    Case("secret to another port", secret("pricing-token", "http://warehouse:80"),
         one("sinks[0].influx.address.token", "SECRET_ADDRESS")),
    Case("secret by another protocol", secret("pricing-token", "https://warehouse:8086"),
         one("sinks[0].influx.address.token", "SECRET_ADDRESS")),
    Case("secret to the cluster's database", influx(address={"token": {"name": "pricing-token"}}),
         one("sinks[0].influx.address.token", "SECRET_ADDRESS")),
    Case("unknown sink", registered("nowhere"), one("sinks[0].registered", "UNKNOWN_SINK")),
    Case("sink of another team", registered("theirs"), one("sinks[0].registered", "SINK_FORBIDDEN")),
    Case("registered sink of another kind", registered("topics"), one("sinks[0].registered", "WRONG_KIND")),
    Case("address beside a registered sink", registered("warehouse", address={"url": "http://mine:8086"}),
         one("sinks[0].influx.address.url", "UNEXPECTED")),
    Case("cluster beside a registered sink", registered("topics", "kafka", topic="out", cluster="local"),
         one("sinks[0].kafka.cluster", "UNEXPECTED")),
    Case("loop by a registered sink", registered("topics", "kafka", topic="bookings-1"),
         one("sinks[0].kafka.topic", "LOOP")),
    Case("two sinks of one name", {"sinks": [{"log": {}, "name": "one"}, {"influx": {}, "name": "one"}]},
         (("spec.sinks[0].name", "SINK_NAME_TWICE"), ("spec.sinks[1].name", "SINK_NAME_TWICE"))),
    Case("a table that rows are added to early", {**postgres(mode="MODE_APPEND"), "emit": "EMIT_EARLY"},
         one("sinks[0].postgres.mode", "SINK_CANNOT_UPDATE")),
    Case("a key of rows that are added", postgres(mode="MODE_APPEND", key=["tag_city"]),
         one("sinks[0].postgres.key", "UNEXPECTED")),
    Case("a sink without a way to go on", sink(log={}, onOutage={"then": 9}),
         one("sinks[0].on_outage.then", "UNKNOWN_ENUM_VALUE")),
    Case("a sink whose rows may wait for no time",
         sink(log={}, onOutage={"then": "THEN_WAIT", "after": "0s"}),
         one("sinks[0].on_outage.after", "OUT_OF_RANGE")),
    Case("a sink that is skipped at once", sink(log={}, onOutage={"then": "THEN_SKIP", "after": "0s"}),
         one("sinks[0].on_outage.after", "OUT_OF_RANGE")),
    Case("a replay of what nothing sets aside",
         sink(log={}, onOutage={"then": "THEN_FAIL", "autoReplay": True}),
         one("sinks[0].on_outage.auto_replay", "UNEXPECTED")),
    Case("a replay by itself where a newer row may stand",
         {**sink(influx={}, onOutage={"then": "THEN_SKIP", "autoReplay": True}), "emit": "EMIT_EARLY"},
         one("sinks[0].on_outage.auto_replay", "NEWER_MAY_EXIST")),
    Case("a sink that may refuse none", sink(log={}, maxRefused=0),
         one("sinks[0].max_refused", "OUT_OF_RANGE")),
    Case("a sink that may refuse more than all", sink(log={}, maxRefused="NaN"),
         one("sinks[0].max_refused", "OUT_OF_RANGE")),
    Case("a limit that is not kept", sink(kafka={"topic": "out"}, limit={"maxInFlight": 2}),
         one("sinks[0].limit.max_in_flight", "LIMIT_NOT_KEPT")),
    Case("limits that are none",
         sink(influx={}, limit={"rowsPerSecond": "NaN", "requestsPerSecond": -1}),
         one("sinks[0].limit.rows_per_second", "OUT_OF_RANGE")
         + one("sinks[0].limit.requests_per_second", "OUT_OF_RANGE")),
    Case("rows by what is no column", sink(log={}, when="oders > 9"),
         one("sinks[0].when", "UNKNOWN_COLUMN")),
    Case("rows by what is no condition, twice",
         {"sinks": [{kind: {}, "when": when} for kind, when in (("log", "orders"), ("influx", "orders"),
                                                                ("log", "("))]},
         one("sinks[0].when", "TYPE_MISMATCH") + one("sinks[1].when", "TYPE_MISMATCH")
         + one("sinks[2].when", "SYNTAX_ERROR")),
    Case("early rows by what may turn false",
         {**sink(influx={}, when="orders < 10"), "emit": "EMIT_EARLY"},
         one("sinks[0].when", "EARLY_NOT_POSSIBLE")),
    Case("name of a sink that ends in a hyphen", {"sinks": [{"log": {}, "name": "a-"}]},
         one("sinks[0].name", "INVALID_NAME")),
    Case("name of a sink that is none", {"sinks": [{"log": {}, "name": "A sink"}]},
         one("sinks[0].name", "INVALID_NAME")),
    Case("a table of rows that nothing tells apart",
         {"sql": "SELECT city AS c, 1 AS n FROM data_stream", **postgres()},
         one("sinks[0].postgres.key", "SINK_KEY_MISSING")),
    Case("a key that is no column", postgres(key=["tag_city", "when"]),
         one("sinks[0].postgres.key[1]", "UNKNOWN_COLUMN")),
    Case("another name for no column", postgres(columns={"city": "c"}),
         one("sinks[0].postgres.columns.city", "UNKNOWN_COLUMN")),
    Case("two columns under one name", postgres(columns={"tag_city": "orders"}),
         one("sinks[0].postgres.columns", "DUPLICATE_COLUMN")),
    Case("a table nowhere", postgres(address={"host": "", "database": "", "port": 70_000}),
         one("sinks[0].postgres.address.host", "INVALID_ADDRESS")
         + one("sinks[0].postgres.address.port", "OUT_OF_RANGE")
         + one("sinks[0].postgres.address.database", "REQUIRED")),
    Case("a table without a name", postgres(table="", schema="s" * 64),
         one("sinks[0].postgres.schema", "TOO_LONG") + one("sinks[0].postgres.table", "REQUIRED")),
    Case("a password that is nowhere", postgres(address={"password": {}}),
         one("sinks[0].postgres.address.password", "REQUIRED")),
    Case("a certificate beside the driver", postgres(address={"tls": {"caFile": "ca.pem"}}),
         one("sinks[0].postgres.address.tls.ca_file", "INVALID_REFERENCE")),
    Case("unknown mode", postgres(mode=9), one("sinks[0].postgres.mode", "UNKNOWN_ENUM_VALUE")),
    Case("files nowhere", sink(parquet={"table": "t"}), one("sinks[0].parquet.location", "REQUIRED")),
    Case("files elsewhere", sink(parquet={"location": "/data/../etc", "table": "../t"}),
         one("sinks[0].parquet.location", "INVALID_LOCATION")
         + one("sinks[0].parquet.table", "INVALID_NAME")),
    Case("columns with the names of folders",
         {"sql": "SELECT city AS dt, 1 AS HR FROM data_stream", **sink(parquet={"location": "files"})},
         one("sinks[0].parquet.location", "INVALID_LOCATION") + 2 * one("sinks[0].parquet", "SINK_SCHEMA")),
    Case("folders by what is no time",
         sink(parquet={"location": "/f", "by": "orders", "per": 9, "zone": "Europe/Berln", "codec": 9}),
         one("sinks[0].parquet.per", "UNKNOWN_ENUM_VALUE")
         + one("sinks[0].parquet.codec", "UNKNOWN_ENUM_VALUE")
         + one("sinks[0].parquet.zone", "UNKNOWN_ZONE") + one("sinks[0].parquet.by", "TYPE_MISMATCH")),
    Case("folders by no column", sink(parquet={"location": "/f", "by": "kafka_time"}),
         one("sinks[0].parquet.by", "UNKNOWN_COLUMN")),
    Case("a bucket that is none",
         sink(parquet={"location": "s3://B/../x", "endpoint": "ftp://s", "region": "?"}),
         one("sinks[0].parquet.location", "INVALID_LOCATION")
         + one("sinks[0].parquet.endpoint", "INVALID_URL") + one("sinks[0].parquet.region", "INVALID_NAME")
         + one("sinks[0].parquet.credentials", "REQUIRED")),
    Case("keys of a folder", sink(parquet={"location": "files", "credentials": {"env": "K"}, "region": "r"}),
         one("sinks[0].parquet.location", "INVALID_LOCATION")
         + one("sinks[0].parquet.credentials", "UNEXPECTED") + one("sinks[0].parquet.region", "UNEXPECTED")),
    Case("one table of two sinks", {"sinks": 2 * [{"parquet": {"location": "files", "table": "t"}}]},
         one("sinks[0].parquet.location", "INVALID_LOCATION")
         + one("sinks[0].parquet.table", "SINK_TABLE_TWICE")
         + one("sinks[1].parquet.location", "INVALID_LOCATION")
         + one("sinks[1].parquet.table", "SINK_TABLE_TWICE")),
    Case("files that rows are updated in",
         {**sink(parquet={"location": "files"}), "emit": "EMIT_EARLY"},
         one("sinks[0].parquet.location", "INVALID_LOCATION") + one("sinks[0]", "NOT_UPSERT")),
    Case("early rows that are left out", {**postgres(mode="MODE_INSERT_IGNORE"), "emit": "EMIT_EARLY"},
         one("sinks[0].postgres.mode", "SINK_CANNOT_UPDATE")),
    Case("a text of an answer that is none", http(successContains="a\nb"),
         one("sinks[0].http.success_contains", "INVALID_CHARACTER")),
    Case("a server nowhere", http(url="crm", tls={"caFile": "ca.pem"}),
         one("sinks[0].http.url", "INVALID_URL") + one("sinks[0].http.tls.ca_file", "INVALID_REFERENCE")),
    Case("a server that shows its secret", http(url="https://u:p@crm", headers={"Authorization": "Bearer x"},
                                                query={"api_key": "x"}),
         one("sinks[0].http.url", "INLINE_SECRET")
         + one("sinks[0].http.headers.Authorization", "INLINE_SECRET")
         + one("sinks[0].http.query.api_key", "INLINE_SECRET")),
    Case("a server that is shown too much",
         http(auth={"bearer": {"env": "A"}, "basic": {"user": "a:b", "password": {}}}),
         one("sinks[0].http.auth", "UNEXPECTED") + one("sinks[0].http.auth.basic.user", "INVALID_CHARACTER")
         + one("sinks[0].http.auth.basic.password", "REQUIRED")),
    Case("a token that nobody gives",
         http(auth={"bearer": {"env": "A"},
                    **oauth2(tokenUrl="login", clientId="\n", clientSecret={}, scopes=["a", "b c"],
                             audience="é", caFile="ca.pem")}),
         one("sinks[0].http.auth", "UNEXPECTED")
         + one("sinks[0].http.auth.oauth2.token_url", "INVALID_URL")
         + one("sinks[0].http.auth.oauth2.client_id", "INVALID_CHARACTER")
         + one("sinks[0].http.auth.oauth2.client_secret", "REQUIRED")
         + one("sinks[0].http.auth.oauth2.scopes[1]", "INVALID_CHARACTER")
         + one("sinks[0].http.auth.oauth2.audience", "INVALID_CHARACTER")
         + one("sinks[0].http.auth.oauth2.ca_file", "INVALID_REFERENCE")),
    Case("a token's URL that shows its secret", http(auth=oauth2(tokenUrl="https://u:p@login.example")),
         one("sinks[0].http.auth.oauth2.token_url", "INLINE_SECRET")),
    Case("a client's secret to another server",
         http(auth=oauth2(clientSecret={"name": "pricing-token"})),
         one("sinks[0].http.auth.oauth2.client_secret", "SECRET_ADDRESS")),
    Case("a certificate without its key",
         http(clientTls={"clientCertificateFile": "own.pem", "serverName": "-"}),
         one("sinks[0].http.client_tls.client_certificate_file", "INVALID_REFERENCE")
         + one("sinks[0].http.client_tls.client_key", "REQUIRED")
         + one("sinks[0].http.client_tls.server_name", "INVALID_NAME")),
    Case("a key without its certificate", grpc(clientTls={"clientKey": {"env": "KEY"}}),
         one("sinks[0].grpc.client_tls.client_certificate_file", "REQUIRED")),
    Case("a certificate where nothing is encrypted",
         elasticsearch(url="http://search", clientTls=CERTIFICATE),
         one("sinks[0].elasticsearch.client_tls.client_certificate_file", "UNEXPECTED")
         + one("sinks[0].elasticsearch.client_tls.client_key", "UNEXPECTED")),
    Case("a header of the sink's own",
         http(headers={"Host": "a", "X@Y": "b", "X": "\n"},
              auth={"header": {"name": "TE", "value": {"env": "A"}}}),
         one("sinks[0].http.auth.header.name", "UNEXPECTED") + one("sinks[0].http.headers.Host", "UNEXPECTED")
         + one("sinks[0].http.headers.X", "INVALID_CHARACTER")
         + one("sinks[0].http.headers.X@Y", "INVALID_NAME")),
    Case("requests that are none", http(method="GET", rowsPerRequest=1001, body=9, timeout="61s"),
         one("sinks[0].http.timeout", "OUT_OF_RANGE") + one("sinks[0].http.method", "INVALID_METHOD")
         + one("sinks[0].http.rows_per_request", "OUT_OF_RANGE")
         + one("sinks[0].http.body", "UNKNOWN_ENUM_VALUE")),
    Case("several rows in one object", http(rowsPerRequest=2, body="BODY_OBJECT", path="/${tag_city}"),
         one("sinks[0].http.body", "UNEXPECTED") + one("sinks[0].http.path", "SINK_TEMPLATE")),
    Case("statuses that are none", http(retryStatuses=["409", "500-599", "200"], refuseStatuses=["599-500"]),
         one("sinks[0].http.retry_statuses[2]", "INVALID_STATUS")
         + one("sinks[0].http.refuse_statuses[0]", "INVALID_STATUS")),
    Case("templates of no columns",
         http(path="/a?b", template='{"a": "${citi}", "b": "${orders:%Y}", "c": "${"}', wrap="[]"),
         one("sinks[0].http.wrap", "UNEXPECTED") + one("sinks[0].http.template", "SINK_TEMPLATE") * 3
         + one("sinks[0].http.path", "INVALID_URL")),
    Case("templates of no JSON",
         http(template="{", body="BODY_ARRAY", wrap='["${rows}", "${rows}"]', rowId="id"),
         one("sinks[0].http.wrap", "SINK_TEMPLATE") + one("sinks[0].http.template", "SINK_TEMPLATE")),
    Case("a path that changes the host", http(path="${tag_city}"), one("sinks[0].http.path", "INVALID_URL")),
    Case("an id under a column's name", http(rowId="tag_city"),
         one("sinks[0].http.row_id", "DUPLICATE_COLUMN")),
    Case("early rows for a server", {**http(), "emit": "EMIT_EARLY"}, one("sinks[0]", "NOT_UPSERT")),
    Case("calls nowhere",
         grpc(target="https://crm", tls={"caFile": "ca.pem"}, deadline="61s", plaintext=True),
         one("sinks[0].grpc.target", "INVALID_ADDRESS")
         + one("sinks[0].grpc.tls.ca_file", "INVALID_REFERENCE")
         + one("sinks[0].grpc.tls.ca_file", "UNEXPECTED")
         + one("sinks[0].grpc.deadline", "OUT_OF_RANGE")),
    Case("calls of no method", grpc(method="/shop.Orders/Put", message=""),
         one("sinks[0].grpc.message", "REQUIRED") + one("sinks[0].grpc.method", "INVALID_NAME")),
    Case("calls of a message that is not registered", grpc(message="shop.Gone"),
         one("sinks[0].grpc.message", "UNKNOWN_MESSAGE")),
    Case("calls of a message without the columns", grpc(message="shop.Booking"),
         one("sinks[0].grpc.message", "UNKNOWN_FIELD") * 3),
    Case("a method that a registered service lacks", grpc(method="shop.Summaries/Putt"),
         one("sinks[0].grpc.method", "UNKNOWN_METHOD")),
    Case("a method of another message", grpc(method="shop.Summaries/Book"),
         one("sinks[0].grpc.method", "TYPE_MISMATCH")),
    Case("answers of nothing", grpc(successIf="response.orders == 1"),
         one("sinks[0].grpc.response", "REQUIRED")),
    Case("answers that nobody looks at", grpc(response="shop.Summary"),
         one("sinks[0].grpc.response", "UNEXPECTED")),
    Case("answers of a message that is not registered",
         grpc(response="shop.Gone", successIf="response.orders == 1"),
         one("sinks[0].grpc.response", "UNKNOWN_MESSAGE")),
    Case("answers of another message", grpc(method="shop.Summaries/Put", response="shop.Booking",
                                            successIf="response.city == 'a'"),
         one("sinks[0].grpc.method", "TYPE_MISMATCH")),
    Case("answers that cannot say so",
         grpc(response="shop.Summary", successIf="response.oders == 1 && response.orders == true"),
         one("sinks[0].grpc.success_if", "UNKNOWN_FIELD") + one("sinks[0].grpc.success_if", "TYPE_MISMATCH")),
    Case("answers that say no comparison", grpc(response="shop.Summary", successIf="orders > 1"),
         one("sinks[0].grpc.success_if", "SYNTAX_ERROR")),
    Case("a method of streams", grpc(method="shop.Summaries/Follow"),
         one("sinks[0].grpc.method", "WRONG_KIND")),
    Case("metadata that shows its secret",
         grpc(metadata={"authorization": "Bearer x", "X": "a", "grpc-x": "a", "te": "a", "x": "\n${citi}"},
              auth={"header": {"name": "key-bin", "value": {"env": "A"}}}),
         one("sinks[0].grpc.auth.header.name", "INVALID_NAME")
         + one("sinks[0].grpc.metadata.X", "INVALID_NAME")
         + one("sinks[0].grpc.metadata.authorization", "INLINE_SECRET")
         + one("sinks[0].grpc.metadata.grpc-x", "INVALID_NAME")
         + one("sinks[0].grpc.metadata.te", "UNEXPECTED")
         + one("sinks[0].grpc.metadata.x", "INVALID_CHARACTER")
         + one("sinks[0].grpc.metadata.x", "SINK_TEMPLATE")),
    Case("early calls", {**grpc(), "emit": "EMIT_EARLY"}, one("sinks[0]", "NOT_UPSERT")),
    Case("an index nowhere", elasticsearch(url="", index="", timeout="0s"),
         one("sinks[0].elasticsearch.url", "INVALID_URL")
         + one("sinks[0].elasticsearch.timeout", "OUT_OF_RANGE")
         + one("sinks[0].elasticsearch.index", "REQUIRED")),
    Case("an index whose name is none",
         elasticsearch(index="Trips of ${citi}", id="${citi}", routing="a\n", operation=9),
         one("sinks[0].elasticsearch.operation", "UNKNOWN_ENUM_VALUE")
         + one("sinks[0].elasticsearch.index", "SINK_TEMPLATE")
         + one("sinks[0].elasticsearch.id", "SINK_TEMPLATE")
         + one("sinks[0].elasticsearch.index", "INVALID_NAME")
         + one("sinks[0].elasticsearch.routing", "INVALID_CHARACTER")),
    Case("one index of many to be made", elasticsearch(index="trips-${tag_city}", createIndex=True),
         one("sinks[0].elasticsearch.create_index", "UNEXPECTED")),
    Case("early documents that are merged",
         {**elasticsearch(operation="OPERATION_UPDATE"), "emit": "EMIT_EARLY"},
         one("sinks[0].elasticsearch.operation", "SINK_CANNOT_UPDATE")),
    Case("events of nobody, nowhere",
         clevertap(account="", region="", passcode=None, event="", identity="citi"),
         one("sinks[0].clevertap.account", "INVALID_NAME") + one("sinks[0].clevertap.region", "INVALID_NAME")
         + one("sinks[0].clevertap.url", "INVALID_URL") + one("sinks[0].clevertap.passcode", "REQUIRED")
         + one("sinks[0].clevertap.event", "REQUIRED")
         + one("sinks[0].clevertap.identity", "UNKNOWN_COLUMN")),
    Case("keys of Redis that are none",
         redis(address="redis://cache", key="trips", user="a b", tls={"caFile": "ca.pem"}, plaintext=True,
               ttl="0s", type=7),
         one("sinks[0].redis.address", "INVALID_ADDRESS") + one("sinks[0].redis.user", "INVALID_CHARACTER")
         + one("sinks[0].redis.password", "REQUIRED") + one("sinks[0].redis.tls.ca_file", "INVALID_REFERENCE")
         + one("sinks[0].redis.tls.ca_file", "UNEXPECTED") + one("sinks[0].redis.key", "SINK_TEMPLATE")
         + one("sinks[0].redis.type", "UNKNOWN_ENUM_VALUE") + one("sinks[0].redis.ttl", "OUT_OF_RANGE")),
    Case("keys of Redis without a key", redis(key=""), one("sinks[0].redis.key", "REQUIRED")),
    Case("keys of Redis by another column", redis(key="${citi}", ttl="400000000s"),
         one("sinks[0].redis.key", "SINK_TEMPLATE") + one("sinks[0].redis.ttl", "OUT_OF_RANGE")),
    Case("a property of CleverTap with a name too long",
         clevertap() | {"sql": f"SELECT city AS tag_city, 1 AS {'o' * 121} FROM data_stream"},
         one("sinks[0].clevertap", "SINK_LIMIT")),
    Case("more properties than Mixpanel takes",
         mixpanel() | {"sql": f"SELECT city AS tag_city, {MANY} FROM data_stream"},
         one("sinks[0].mixpanel", "SINK_LIMIT")),
    Case("profiles with an event", clevertap(profile=True), one("sinks[0].clevertap.event", "UNEXPECTED")),
    Case("events of no project",
         mixpanel(project="p", user="a:b", secret=None, region="mars", event="", identity=""),
         one("sinks[0].mixpanel.project", "INVALID_NAME") + one("sinks[0].mixpanel.user", "INVALID_CHARACTER")
         + one("sinks[0].mixpanel.region", "INVALID_NAME") + one("sinks[0].mixpanel.url", "INVALID_URL")
         + one("sinks[0].mixpanel.secret", "REQUIRED") + one("sinks[0].mixpanel.event", "REQUIRED")
         + one("sinks[0].mixpanel.identity", "REQUIRED")),
    Case("points of tags only", {"sql": "SELECT city AS tag_city FROM data_stream"},
         one("sinks[0].influx", "NO_FIELDS")),
    Case("one tag of two columns",
         {"sql": "SELECT city AS tag_city, city AS label_tag_city, 1 AS n FROM data_stream"},
         one("sql", "DUPLICATE_COLUMN")),
)  # fmt: skip


@dataclass(frozen=True)
class Address:
    """A Kafka address: what is wrong with it has its place in `cluster.kafka`."""

    name: str
    fields: dict[str, Any] = field(default_factory=dict)
    wrong: tuple[tuple[str, str], ...] = ()


def _property(name: str, reason: str, value: str = "x") -> Address:
    wrong = ((f'cluster.kafka.properties["{name}"]', reason),)
    return Address(name, {"bootstrap_servers": "h:1", "properties": {name: value}}, wrong)


_OURS = (
    "auto.commit.enable", "auto.offset.reset", "bootstrap.servers", "enable.auto.commit",
    "enable.auto.offset.store", "enable.partition.eof", "group.id", "metadata.broker.list",
)  # fmt: skip
_CODE = (
    "plugin.library.paths", "sasl.kerberos.kinit.cmd", "ssl.engine.id", "ssl.engine.location",
    "ssl.providers",
)  # fmt: skip
ADDRESSES = (
    Address("plain", {"bootstrap_servers": "127.0.0.1:9092, [::1]:9092"}),
    Address("with a property", {"bootstrap_servers": "h:1", "properties": {"client.id": "x"}}),
    Address("nowhere", {}, (("cluster.kafka.bootstrap_servers", "REQUIRED"),)),
    Address("no port", {"bootstrap_servers": "h"}, (("cluster.kafka.bootstrap_servers", "INVALID_ADDRESS"),)),
    *(_property(name, "FORBIDDEN_PROPERTY") for name in (*_OURS, *_CODE)),
    _property("sasl.password", "INLINE_SECRET"),
    _property("Upper.Case", "INVALID_PROPERTY"),
    _property("client.id", "INVALID_CHARACTER", "a\nb"),
)

MASTERS = ("local[2]", "local[*]", "spark://127.0.0.1:7077")
NO_MASTERS = ("local[0]", "local[10000]", "yarn-client", "spark://h", "mesos://h:1", "local[2] --conf a=b")
