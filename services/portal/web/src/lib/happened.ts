import { createRegistry, type Message } from "@bufbuild/protobuf";
import { anyUnpack, type Timestamp } from "@bufbuild/protobuf/wkt";
import type { Event } from "../gen/daggers/v1/dagger_service_pb.ts";
import { type DaggerError, file_daggers_v1_events, StopMode } from "../gen/daggers/v1/events_pb.ts";
import { sentence } from "./commands.ts";
import { clock, ms } from "./format.ts";
import type { Tone } from "./phase.ts";

const TONES: [RegExp, Tone][] = [
  [/^(Failed|Exited|LaunchFailed|Unreachable|DeathConfirmed)$/, "bad"],
  [/^(Degraded|RelaunchScheduled)$/, "warn"],
  [/^(Running|Recovered|Settled)$/, "good"],
];
const MESSAGES = createRegistry(file_daggers_v1_events);

/** What messages of a dagger have in common that says why: each has some of it. */
interface Reasons extends Message {
  meta?: { actor?: string; message?: string };
  error?: DaggerError;
  reasons?: string[];
  code?: number;
  mode?: StopMode;
  fromStart?: boolean;
  attempt?: number;
  notBefore?: Timestamp;
  outage?: { sink: string };
}

const nameOf = (type: string): string => type.slice(type.lastIndexOf(".") + 1);

/** LaunchIntended → launch intended. */
export function words(type: string): string {
  return nameOf(type)
    .replace(/(?<=[a-z])(?=[A-Z])/g, " ")
    .toLowerCase();
}
/** What happened, as a pill. */
export function happened(event: Event): { tone: Tone; what: string } {
  const tone = TONES.find(([pattern]) => pattern.test(nameOf(event.type)))?.[1] ?? "idle";
  return { tone: event.refused ? "warn" : tone, what: words(event.type) };
}

/** SINK_UNAVAILABLE → sink unavailable. */
const plain = (reason: string): string => reason.replaceAll("_", " ").toLowerCase();

/** Why a driver has ended, or an error: its sentence, with its code before it. */
function failure({ error, code }: Reasons): string {
  const exit = code === undefined ? "" : code < 0 ? `killed by signal ${-code}` : `exit code ${code}`;
  if (!error) return code === 0 ? "" : exit;
  const reason = plain(error.reason);
  const text = error.detail ? `${reason}: ${error.detail.replace(/\.$/, "")}` : reason;
  return exit && code !== 0 ? `${text} (${exit})` : text;
}

/**
 * Why it happened, a sentence each: who asked and what for, what was changed, what went wrong, what comes next.
 *
 * changes: fields of the specification that the version of the event changed.
 */
export function why(event: Event, changes: readonly string[] = []): string[] {
  const found: Reasons = (event.data && anyUnpack(event.data, MESSAGES)) ?? { $typeName: "" };
  const told: string[] = [];
  if (found.meta && "actor" in found.meta) told.push(`by ${found.meta.actor || "anonymous"}`);
  if (found.meta?.message) told.push(found.meta.message);
  if (changes.length) told.push(`version ${event.version} changed ${changes.join(", ")}`);
  if (event.type.endsWith(".StopRequested") || event.type.endsWith(".StopIssued"))
    told.push(
      found.mode === StopMode.NOW ? "at once, without finishing its batch" : "once its batch is finished",
    );
  if (event.type.endsWith(".RestartRequested") && found.fromStart)
    told.push("from the start, without its checkpoint");
  if (found.reasons?.length) told.push(found.reasons.map(plain).join(", "));
  if (found.outage?.sink) told.push(`${found.outage.sink} does not answer`);
  const wrong = failure(found);
  if (wrong) told.push(wrong);
  if (found.notBefore) told.push(`attempt ${found.attempt ?? 1}, not before ${clock(ms(found.notBefore))}`);
  if (event.refused) told.push(event.refused);
  return told.map(sentence);
}
