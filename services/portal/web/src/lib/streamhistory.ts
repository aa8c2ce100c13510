import { fromBinary } from "@bufbuild/protobuf";
import type { DescMessage } from "@bufbuild/protobuf";
import type { Event } from "../gen/daggers/v1/dagger_service_pb.ts";
import { SchemaRegisteredSchema, StreamRegisteredSchema } from "../gen/daggers/v1/events_pb.ts";
import type { Stream } from "../gen/daggers/v1/spec_pb.ts";
import { branches, rooted } from "./tree.ts";

/** One registration of a stream or of its message. */
export interface Registration {
  sequence: bigint;
  at: Event["time"];
  /** Who asked for it; empty where nobody said who they are. */
  by: string;
  /** What it changed, a sentence each; none where it was the same again. */
  changes: string[];
}

/** What happened to a stream and its message, newest first; what was refused, or changed nothing, is left out. */
export function registrations(events: Event[], message: string): Registration[] {
  const found: Registration[] = [];
  let stream: Stream | undefined;
  let fields: ReadonlyMap<string, string> | undefined;
  for (const event of events) {
    if (event.refused || !event.data) continue;
    const kind = event.type.slice(event.type.lastIndexOf(".") + 1);
    let by = "";
    let changes: string[] = [];
    if (kind === "StreamRegistered") {
      const told = fromBinary(StreamRegisteredSchema, event.data.value);
      by = told.meta?.actor ?? "";
      changes = told.stream ? streamChanges(stream, told.stream) : [];
      stream = told.stream;
    } else if (kind === "SchemaRegistered") {
      const told = fromBinary(SchemaRegisteredSchema, event.data.value);
      by = told.meta?.actor ?? "";
      const root = told.schema?.files && rooted(told.schema.files, message);
      const now = root ? fieldsOf(root) : new Map<string, string>();
      changes = fieldChanges(message, fields, now);
      fields = now;
    } else {
      const what = kind === "StreamRemoved" ? "Stream" : "Message";
      changes = [`${what} removed.`];
      if (kind === "StreamRemoved") stream = undefined;
      else fields = undefined;
    }
    if (changes.length)
      found.push({ sequence: event.sequence, at: event.time, by: by === "anonymous" ? "" : by, changes });
  }
  return found.reverse();
}

const PARTS: [keyof Stream, string][] = [
  ["cluster", "Cluster"],
  ["topics", "Topics"],
  ["message", "Message"],
  ["timeField", "Event time"],
  ["sensitive", "Sensitive fields"],
  ["writer", "Written by"],
];

/** What a registration of a stream changed. */
export function streamChanges(before: Stream | undefined, after: Stream): string[] {
  if (!before) return ["Stream registered."];
  return PARTS.flatMap(([part, title]) => {
    const [old, now] = [String(before[part]), String(after[part])];
    return old === now ? [] : [`${title}: ${now || "none"}, was ${old || "none"}.`];
  });
}

/** What a registration of a message changed in its own fields. */
export function fieldChanges(
  message: string,
  before: ReadonlyMap<string, string> | undefined,
  after: ReadonlyMap<string, string>,
): string[] {
  if (!before) return [`Message ${message} registered: ${after.size} field${after.size === 1 ? "" : "s"}.`];
  const added = [...after].filter(([name]) => !before.has(name)).map(([name, type]) => `${name} (${type})`);
  const removed = [...before.keys()].filter((name) => !after.has(name));
  const others = [...after].filter(([name, type]) => before.has(name) && before.get(name) !== type);
  return [
    ...(added.length ? [`New: ${added.join(", ")}.`] : []),
    ...(removed.length ? [`Removed: ${removed.join(", ")}.`] : []),
    ...others.map(([name, type]) => `${name} is ${type}, was ${before.get(name)}.`),
  ];
}

const fieldsOf = (message: DescMessage): ReadonlyMap<string, string> =>
  new Map(branches(message).map((each) => [each.name, each.type]));
