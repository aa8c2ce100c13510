import type { DescMessage } from "@bufbuild/protobuf";
import type { DiscoveredTopic, MessageFit } from "../gen/daggers/v1/catalog_service_pb.ts";

/** A topic whose records may be of a message. */
export interface Candidate {
  cluster: string;
  topic: DiscoveredTopic;
  /** The message that fits best. */
  fit: MessageFit;
}

/** From this score on records are of the message: what is missing are fields of a newer schema. */
const FITS = 0.9;
const MAX_CANDIDATES = 20;
const MAX_DEPTH = 3;
const MAX_NAME = 63;
const TIMESTAMP = "google.protobuf.Timestamp";
/** Names of event times, the likeliest first. */
const EVENT_TIMES = [
  /^event_?time(stamp)?$/i,
  /event/i,
  /^(timestamp|time|at|ts)$/i,
  /created|occurred|happened/i,
];

export const fits = (candidate: Candidate): boolean => candidate.fit.score >= FITS;

/** Candidates by how well they fit, how many fields their records have, and how many come; at most 20. */
export const ranked = (candidates: Candidate[]): Candidate[] =>
  [...candidates]
    .sort(
      (one, other) =>
        other.fit.score - one.fit.score ||
        other.fit.coverage - one.fit.coverage ||
        other.topic.recordsPerSecond - one.topic.recordsPerSecond ||
        one.topic.topic.localeCompare(other.topic.topic),
    )
    .slice(0, MAX_CANDIDATES);

/** Paths of the single timestamps of a message, the likeliest event time first; empty when it has none. */
export function eventTimes(message: DescMessage): string[] {
  const paths = below(message, "", MAX_DEPTH);
  const rank = (path: string): number => {
    const found = EVENT_TIMES.findIndex((each) => each.test(path.slice(path.lastIndexOf(".") + 1)));
    return (path.split(".").length - 1) * (EVENT_TIMES.length + 1) + (found < 0 ? EVENT_TIMES.length : found);
  };
  return paths.sort((one, other) => rank(one) - rank(other)); // sort is stable: then in the file's order
}

function below(message: DescMessage, prefix: string, depth: number): string[] {
  return message.fields.flatMap((field) => {
    if (field.fieldKind !== "message") return [];
    const path = prefix + field.name;
    if (field.message.typeName === TIMESTAMP) return [path];
    return depth > 1 && !field.message.typeName.startsWith("google.protobuf.")
      ? below(field.message, `${path}.`, depth - 1)
      : [];
  });
}

/** A name for the stream of a topic that no stream has: of a-z, 0-9, _ and -, 3 to 63 of them. */
export function streamName(topic: string, taken: ReadonlySet<string>): string {
  const plain = topic
    .toLowerCase()
    .replace(/[^a-z0-9_]+/g, "-")
    .replace(/^[^a-z]+|[-_]+$/g, "");
  const name = (plain.length < 3 ? `stream-${plain}`.replace(/-$/, "") : plain).slice(0, MAX_NAME);
  for (let number = 1; ; number++) {
    const behind = number === 1 ? "" : `-${number}`;
    const free = name.slice(0, MAX_NAME - behind.length).replace(/[-_]+$/, "") + behind;
    if (!taken.has(free)) return free;
  }
}

/** The address of the studio with a stream chosen. */
export const newDaggerOn = (stream: string, message: string): string =>
  `/new?${new URLSearchParams({ message, streams: stream })}`;
