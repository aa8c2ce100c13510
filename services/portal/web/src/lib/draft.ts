import { create, fromJsonString, toJsonString } from "@bufbuild/protobuf";
import { durationFromMs, durationMs, type Duration } from "@bufbuild/protobuf/wkt";
import {
  type DaggerSpec,
  DaggerSpecSchema,
  type KafkaSink,
  KafkaSinkSchema,
  type LateRows,
  LateRowsSchema,
  type Sink,
  SinkSchema,
  type Stream,
  StreamInputSchema,
  type StreamInput,
} from "../gen/daggers/v1/spec_pb.ts";
import { publishes, takesLate } from "./publishes.ts";

/** What somebody writes and has not asked for yet. */
export interface Draft {
  name: string;
  message: string;
  spec: DaggerSpec;
}
export type SinkKind = NonNullable<Sink["kind"]["case"]>;
export const SINKS: [SinkKind, string][] = [
  ["influx", "InfluxDB: for charts"],
  ["kafka", "Kafka: for services"],
  ["log", "Log: to try things"],
  ["postgres", "PostgreSQL"],
  ["elasticsearch", "Elasticsearch"],
  ["http", "HTTP"],
  ["grpc", "gRPC"],
  ["parquet", "Parquet"],
  ["redis", "Redis"],
  ["clevertap", "CleverTap"],
  ["mixpanel", "Mixpanel"],
];
/** The kinds whose parts have fields of their own; the others are written as JSON. */
export const SIMPLE: SinkKind[] = ["influx", "kafka", "log"];
const TABLE = "data_stream";

/** The sink of a kind, with nothing said yet. */
export const sinkOf = (kind: SinkKind): Sink => fromJsonString(SinkSchema, `{"${kind}": {}}`);

/** A specification that says no more than it has to. */
export const begun = (team: string, cluster: string): DaggerSpec =>
  create(DaggerSpecSchema, { team, cluster, sinks: [sinkOf("influx")] });

/** The name of a stream's table in the query: an empty one is filled in by the gateway. */
export const tableOf = (input: StreamInput): string => input.table || TABLE;
/** How a stream is called in a query: as it is, with _ for what no name of a table has. */
export const ownTable = (stream: string): string => stream.replace(/\W/g, "_");

/** With a stream, or without it; its table is named after it. One alone is forwarded. */
export function choose(spec: DaggerSpec, stream: string, on: boolean): DaggerSpec {
  const others = spec.streams.filter((each) => each.stream !== stream);
  if (!on) return { ...spec, streams: others };
  const taken = new Set(others.map(tableOf));
  let table = ownTable(stream);
  for (let number = 2; taken.has(table); number++) table = `${ownTable(stream)}_${number}`;
  const input = create(StreamInputSchema, { stream, table });
  return { ...spec, streams: spec.forward ? [input] : [...others, input] };
}

/** With one part of a stream's input changed. */
export const withInput = (spec: DaggerSpec, at: number, change: Partial<StreamInput>): DaggerSpec => ({
  ...spec,
  streams: spec.streams.map((each, place) => (place === at ? { ...each, ...change } : each)),
});

/** With another name of a table, in the query, too: not in its texts and comments. */
export function renamed(spec: DaggerSpec, at: number, table: string): DaggerSpec {
  const before = tableOf(spec.streams[at]!);
  const changed = withInput(spec, at, { table });
  if (!table || before === table) return changed;
  const skipped = String.raw`'(?:[^']|'')*'|--[^\n]*|/\*[\s\S]*?\*/`;
  const name = before.replace(/[^\w]/g, "\\$&");
  const found = new RegExp(`(${skipped})|\`${name}\`|(?<![\\w\`.])${name}(?![\\w\`])`, "g");
  const quoted = (text: string): string => (text.startsWith("`") ? `\`${table}\`` : table);
  return {
    ...changed,
    sql: spec.sql.replace(found, (text, kept) => (kept === undefined ? quoted(text) : kept)),
  };
}

/** A query that runs, for who begins with an empty page. */
export const starter = (table: string): string =>
  `SELECT count(1) AS records,
       TUMBLE_END(rowtime, INTERVAL '60' SECOND) AS window_timestamp
FROM \`${table}\`
GROUP BY TUMBLE(rowtime, INTERVAL '60' SECOND)
`;

/** With the query that its one stream begins with, in place of one that nobody has changed; null where somebody has,
 * or where it is the same query: a draft that changes without a change would be judged without an end. */
export function withFirstQuery(spec: DaggerSpec, stream: string, query: string): DaggerSpec | null {
  const [input, ...more] = spec.streams;
  const untouched = input && !more.length && !spec.forward && spec.sql === starter(tableOf(input));
  return untouched &&
    query &&
    query !== spec.sql &&
    input.stream === stream &&
    tableOf(input) === ownTable(stream)
    ? { ...spec, sql: query }
    : null;
}

/** With a query of its first stream, as the gateway writes it, by the name that the table has here. */
export function withTemplate(spec: DaggerSpec, sql: string): DaggerSpec {
  const { stream } = spec.streams[0]!;
  const table = tableOf(spec.streams[0]!);
  return renamed({ ...withInput(spec, 0, { table: ownTable(stream) }), sql }, 0, table);
}

/** With the sink at a place another; without it, when there is none. */
export function withSink(spec: DaggerSpec, at: number, sink: Sink | null): DaggerSpec {
  const sinks = [...spec.sinks];
  const [before] = sinks.splice(at, 1, ...(sink ? [sink] : []));
  if (!before || !takesLate(spec, before)) return { ...spec, sinks };
  return { ...spec, sinks, late: lateRows(sink?.name ?? "", spec.late?.update) };
}

/** With a Kafka sink at a place that takes late records and no rows, or rows again. */
export function withLate(spec: DaggerSpec, at: number, isLate: boolean): DaggerSpec {
  const sink = spec.sinks[at]!;
  const { topic, cluster } = sink.kind.value as KafkaSink;
  const sinks = [...spec.sinks];
  const name = sink.name || freeName(spec.sinks, "late");
  const value = create(KafkaSinkSchema, { topic, cluster });
  sinks[at] = { ...sink, name, kind: { case: "kafka", value } };
  return { ...spec, sinks, late: lateRows(isLate ? name : "", spec.late?.update) };
}

/** A name that no sink has yet. */
function freeName(sinks: Sink[], first: string): string {
  let name = first;
  for (let number = 2; sinks.some((sink) => sink.name === name); number++) name = `${first}_${number}`;
  return name;
}

/** With the time for which windows take records behind their ends; undefined: they take none. */
export const withUpdate = (spec: DaggerSpec, update: Duration | undefined): DaggerSpec => ({
  ...spec,
  late: lateRows(spec.late?.keep ?? "", update),
});

/** Whether its windows can take records behind their ends, or are to: what is wrong can be taken away again. */
export const offersUpdate = (spec: DaggerSpec): boolean =>
  spec.late?.update !== undefined || (spec.streams.length === 1 && !spec.forward);

/** The rule for late rows; none where they are dropped. */
const lateRows = (keep: string, update: Duration | undefined): LateRows | undefined =>
  keep || update ? create(LateRowsSchema, { keep, update }) : undefined;

export const sinkText = (sink: Sink): string => toJsonString(SinkSchema, sink, { prettySpaces: 2 });
/** The sink that a text says. Throws when it says none: the message says why. */
export const sinkRead = (text: string): Sink => fromJsonString(SinkSchema, text);

/** Seconds as somebody writes them; undefined for what is left to the platform. */
export const duration = (seconds: string): Duration | undefined =>
  seconds.trim() === "" || !(Number(seconds) >= 0)
    ? undefined
    : durationFromMs(Math.round(Number(seconds) * 1000));
export const seconds = (value: Duration | undefined): string =>
  value ? String(durationMs(value) / 1000) : "";

const WAITS_MS = 5_000; // the gateway's default
/** How long its windows wait for late records, in ms: as long as the most patient of its streams. */
export const waits = (spec: DaggerSpec): number =>
  Math.max(
    0,
    ...spec.streams.map((each) => (each.watermarkDelay ? durationMs(each.watermarkDelay) : WAITS_MS)),
  );

/** What an address says of a draft, in an order that stays. */
export const inAddress = (draft: Draft): Record<string, string> => ({
  kind: draft.spec.forward ? "forward" : "",
  message: draft.message,
  streams: draft.spec.streams.map((each) => each.stream).join(","),
  cluster: draft.spec.cluster,
});

/** The draft that an address names, of streams that are there. */
export function ofAddress(
  said: (name: string) => string,
  team: string,
  cluster: string,
  known: Stream[],
): Draft {
  let spec = begun(team, said("cluster") || cluster);
  if (said("kind") === "forward") spec = forwarding(spec, true);
  const wanted = said("streams").split(",").filter(Boolean);
  for (const name of wanted) if (known.some((each) => each.name === name)) spec = choose(spec, name, true);
  const first = known.find((each) => each.name === spec.streams[0]?.stream);
  if (spec.streams.length && !spec.forward) spec = { ...spec, sql: starter(tableOf(spec.streams[0]!)) };
  return { name: "", message: said("message") || first?.message || "", spec };
}

/** A query, or in its place what is forwarded; the query is kept by nobody then. */
export function forwarding(spec: DaggerSpec, on: boolean): DaggerSpec {
  if (!on) return { ...spec, forward: undefined };
  const { forward } = fromJsonString(DaggerSpecSchema, '{"forward": {}}');
  return { ...spec, sql: "", forward, streams: spec.streams.slice(0, 1) };
}

/** With a topic of its own, in JSON, where it writes to none yet. */
export function published(spec: DaggerSpec, name: string): DaggerSpec {
  if (publishes(spec)) return spec;
  const sink = fromJsonString(SinkSchema, JSON.stringify({ kafka: { topic: name, format: "FORMAT_JSON" } }));
  return { ...spec, sinks: [...spec.sinks, sink] };
}

const place = (name: string): string => `draft ${name}`;
/** Keep a draft in this browser, below the dagger's name; that of a new one has none. */
export function keep(store: Storage, name: string, draft: Draft): void {
  store.setItem(place(name), JSON.stringify({ ...draft, spec: toJsonString(DaggerSpecSchema, draft.spec) }));
}
export const drop = (store: Storage, name: string): void => store.removeItem(place(name));
/** What was kept; null when nothing was, or nothing that can still be read. */
export function kept(store: Storage, name: string): Draft | null {
  try {
    const found = JSON.parse(store.getItem(place(name)) ?? "null") as
      (Omit<Draft, "spec"> & { spec: string }) | null;
    return (
      found && { ...found, spec: fromJsonString(DaggerSpecSchema, found.spec, { ignoreUnknownFields: true }) }
    );
  } catch {
    return null; // of another version of these pages
  }
}
