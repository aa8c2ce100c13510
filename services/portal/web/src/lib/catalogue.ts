import { create } from "@bufbuild/protobuf";
import type { Team } from "../gen/daggers/v1/access_pb.ts";
import {
  type Cluster,
  InfluxAddressSchema,
  KafkaAddressSchema,
  type ReferenceTable,
  ReferenceTable_Format as Format,
  type RegisteredSink,
  RateLimitSchema,
  type Stream,
} from "../gen/daggers/v1/spec_pb.ts";
import { SINKS, type SinkKind, sinkOf } from "./draft.ts";
import { type Field, listed, names } from "./form.ts";

/** Each of these values, with itself as its title. */
const same = (values: string[]): [string, string][] => values.map((each) => [each, each]);

/** The fields of a stream, of clusters and messages that are registered. */
export const ofStream = (clusters: string[], messages: string[]): Field<Stream>[] => [
  {
    path: "stream.name",
    title: "Name",
    hint: "bookings",
    get: (at) => at.name,
    put: (at, name) => ({ ...at, name }),
  },
  {
    path: "stream.cluster",
    title: "Cluster whose Kafka has it",
    options: same(clusters),
    get: (at) => at.cluster,
    put: (at, cluster) => ({ ...at, cluster }),
  },
  {
    path: "stream.topics",
    title: "Topics, separated by commas",
    hint: "booking-log",
    get: (at) => listed(at.topics),
    put: (at, text) => ({ ...at, topics: names(text) }),
  },
  {
    path: "stream.message",
    title: "Protobuf message of its records",
    options: same(messages),
    get: (at) => at.message,
    put: (at, message) => ({ ...at, message }),
  },
  {
    path: "stream.time_field",
    title: "Field with the event time",
    hint: "event_timestamp",
    get: (at) => at.timeField,
    put: (at, timeField) => ({ ...at, timeField }),
  },
  {
    path: "stream.sensitive",
    title: "Sensitive fields, separated by commas",
    hint: "customer.phone",
    get: (at) => listed(at.sensitive),
    put: (at, text) => ({ ...at, sensitive: names(text) }),
  },
];

const kafka = (at: Cluster, bootstrapServers: string): Cluster => ({
  ...at,
  kafka: { ...(at.kafka ?? create(KafkaAddressSchema)), bootstrapServers },
});
const influx = (at: Cluster, change: { url?: string; org?: string; bucket?: string }): Cluster => ({
  ...at,
  influx: { ...(at.influx ?? create(InfluxAddressSchema)), ...change },
});
/** The fields of a cluster. */
export const OF_CLUSTER: Field<Cluster>[] = [
  {
    path: "cluster.name",
    title: "Name",
    hint: "local",
    get: (at) => at.name,
    put: (at, name) => ({ ...at, name }),
  },
  {
    path: "cluster.kafka.bootstrap_servers",
    title: "Kafka: host:port, separated by commas; empty: it has no streams",
    hint: "kafka-1:9092,kafka-2:9092",
    get: (at) => at.kafka?.bootstrapServers ?? "",
    put: kafka,
  },
  {
    path: "cluster.spark_master",
    title: "Spark master; empty: no dagger runs there",
    hint: "spark://spark:7077",
    get: (at) => at.sparkMaster,
    put: (at, sparkMaster) => ({ ...at, sparkMaster }),
  },
  {
    path: "cluster.influx.url",
    title: "InfluxDB",
    hint: "http://influx:8086",
    get: (at) => at.influx?.url ?? "",
    put: (at, url) => influx(at, { url }),
  },
  {
    path: "cluster.influx.org",
    title: "Organisation",
    hint: "- for 1.8",
    help: "The organisation of that InfluxDB whose buckets are written; version 1.8 has none.",
    get: (at) => at.influx?.org ?? "",
    put: (at, org) => influx(at, { org }),
  },
  {
    path: "cluster.influx.bucket",
    title: "Bucket",
    hint: "daggers",
    get: (at) => at.influx?.bucket ?? "",
    put: (at, bucket) => influx(at, { bucket }),
  },
  {
    path: "cluster.playground",
    title: "Who may run daggers there",
    hint: "editors of their teams",
    options: [["yes", "viewers, too: a playground"]],
    get: (at) => (at.playground ? "yes" : ""),
    put: (at, text) => ({ ...at, playground: !!text }),
  },
];

/** The fields of a team; its members are changed on its page, receivers and quotas as JSON. */
export const OF_TEAM: Field<Team>[] = [
  {
    path: "team.name",
    title: "Name",
    hint: "pricing",
    get: (at) => at.name,
    put: (at, name) => ({ ...at, name }),
  },
  {
    path: "team.contact",
    title: "Where its people are reached",
    hint: "#pricing",
    get: (at) => at.contact,
    put: (at, contact) => ({ ...at, contact }),
  },
];

/** The fields of a reference table. */
export const OF_REFERENCE: Field<ReferenceTable>[] = [
  {
    path: "reference.name",
    title: "Name",
    hint: "areas",
    get: (at) => at.name,
    put: (at, name) => ({ ...at, name }),
  },
  {
    path: "reference.format",
    title: "Format",
    options: same(["JSON", "CSV", "PARQUET"]),
    get: (at) => (at.format === Format.UNSPECIFIED ? "" : Format[at.format]),
    put: (at, format) => ({ ...at, format: Format[format as keyof typeof Format] ?? Format.UNSPECIFIED }),
  },
  {
    path: "reference.location",
    title: "Where: a path on the drivers' hosts, or a URL, in a place that is allowed",
    hint: "/tables/areas.json",
    get: (at) => at.location,
    put: (at, location) => ({ ...at, location }),
  },
];

/** The fields of a registered sink; where it is stands as JSON, another shape for each kind. */
export const OF_SINK: Field<RegisteredSink>[] = [
  {
    path: "sink.name",
    title: "Name",
    hint: "orders-db",
    get: (at) => at.name,
    put: (at, name) => ({ ...at, name }),
  },
  {
    path: "sink.sink.kind",
    title: "Kind",
    options: SINKS,
    get: (at) => at.sink?.kind.case ?? "",
    put: (at, kind) => ({ ...at, sink: kind ? sinkOf(kind as SinkKind) : undefined }),
  },
  {
    path: "sink.teams",
    title: "Teams that may write there, separated by commas; empty: all",
    hint: "pricing",
    get: (at) => listed(at.teams),
    put: (at, text) => ({ ...at, teams: names(text) }),
  },
  {
    path: "sink.limit.rows_per_second",
    title: "Rows a second that all daggers may write together; empty: as many as there are",
    hint: "500",
    get: (at) => (at.limit?.rowsPerSecond ? String(at.limit.rowsPerSecond) : ""),
    put: (at, text) => ({
      ...at,
      limit: { ...(at.limit ?? create(RateLimitSchema)), rowsPerSecond: Math.max(0, Number(text) || 0) },
    }),
  },
];
