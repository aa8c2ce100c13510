import { type Dagger, Phase } from "../gen/daggers/v1/dagger_pb.ts";
import type { DaggerSpec } from "../gen/daggers/v1/spec_pb.ts";
import { sentence } from "./commands.ts";
import { count, ms, since } from "./format.ts";

export type Tone = "good" | "warn" | "bad" | "idle";

const SHOWN: Record<Phase, [Tone, string]> = {
  [Phase.PHASE_UNSPECIFIED]: ["idle", "Unknown"],
  [Phase.PENDING]: ["idle", "Waiting"],
  [Phase.STARTING]: ["idle", "Starting"],
  [Phase.RUNNING]: ["good", "Running"],
  [Phase.DEGRADED]: ["warn", "Degraded"],
  [Phase.UNREACHABLE]: ["bad", "Unreachable"],
  [Phase.BACKING_OFF]: ["warn", "Backing off"],
  [Phase.FAILED]: ["bad", "Failed"],
  [Phase.STOPPING]: ["idle", "Stopping"],
  [Phase.STOPPED]: ["idle", "Stopped"],
  [Phase.DELETED]: ["idle", "Deleted"],
};
export const tone = (phase: Phase): Tone => SHOWN[phase]?.[0] ?? "idle";
export const word = (phase: Phase): string => SHOWN[phase]?.[1] ?? "Unknown";

/** Whether a dagger is stopped, or on its way there: Start is what can be done. */
export const resting = (phase: Phase): boolean =>
  [Phase.STOPPED, Phase.STOPPING, Phase.FAILED, Phase.DELETED].includes(phase);

/** What is wrong with a dagger, and what to do: one line each, or nothing. */
export function trouble(dagger: Dagger): { what: string; next: string } | null {
  const error = dagger.lastError;
  const broken = dagger.phase === Phase.FAILED || dagger.phase === Phase.BACKING_OFF;
  const warning = warned(dagger);
  const next = sentence(warning?.next ?? "");
  if (broken && error?.detail) return { what: sentence(error.detail), next };
  if (warning) return { what: sentence(warning.message), next };
  const told = dagger.warnings[0];
  return told ? { what: sentence(told), next: "" } : null;
}
const warned = (dagger: Dagger) => dagger.vitals?.warnings[0];

/** 1,204 rows/min · for 9 days, as long as it has been in its state. */
export function doing(dagger: Dagger, now = Date.now()): string {
  const rows = dagger.vitals?.rowsPerS;
  const at = ms(dagger.phaseTime);
  const rate = rows === undefined ? "" : `${count(Math.round(rows * 60))} rows/min · `;
  return `${rate}for ${since(at, now)}`;
}

/** Where a sink of a kind writes: the first of its names, and else its address. */
export const sinkPlace = (value: object): string => {
  const told = { ...(value as { address?: object }).address, ...value } as Record<string, unknown>;
  const name = ["measurement", "topic", "table", "index", "url", "target", "location", "event", "host"].find(
    (each) => typeof told[each] === "string" && told[each],
  );
  return name ? String(told[name]) : "";
};
/** influx completed_bookings, … */
export const writes = (dagger: Dagger): string =>
  (dagger.spec?.sinks ?? [])
    .map((sink) => `${sink.kind.case ?? "?"} ${sink.kind.value ? sinkPlace(sink.kind.value) : ""}`.trim())
    .join(", ");
export const reads = (dagger: Dagger): string =>
  (dagger.spec?.streams ?? []).map((each) => each.stream).join(", ");

/** Who made a dagger; empty where nobody said who they are. */
export const maker = (dagger: Dagger): string => (dagger.creator === "anonymous" ? "" : dagger.creator);

/** How many are in which state, what needs a person first. */
export function tally(daggers: Dagger[]): [string, number][] {
  const found = Map.groupBy([...daggers].sort(byUrgency), (each) => word(each.phase));
  return [...found].map(([state, those]) => [state, those.length]);
}

const URGENCY: Record<Tone, number> = { bad: 0, warn: 1, good: 2, idle: 3 };
/** What needs a person stands first, then by name. */
export const byUrgency = (one: Dagger, other: Dagger): number =>
  URGENCY[tone(one.phase)] - URGENCY[tone(other.phase)] || (one.name < other.name ? -1 : 1);

type Topics = ReadonlyMap<string, string>;
/** What each dagger is found by, while its specification is the same: every key of a search looks at all of them. */
const texts = new WeakMap<DaggerSpec, { topics: Topics; text: string }>();
function textOf(dagger: Dagger, topics: Topics): string {
  const { spec } = dagger;
  const known = spec && texts.get(spec);
  if (known?.topics === topics) return known.text;
  const of = spec?.streams.map((each) => topics.get(each.stream)) ?? [];
  const { name, creator, updater } = dagger;
  const text = [name, spec?.team, spec?.cluster, creator, updater, reads(dagger), writes(dagger), ...of]
    .join(" ")
    .toLowerCase();
  if (spec) texts.set(spec, { topics, text });
  return text;
}

/** Whether a dagger has each of the words somewhere: name, team, who made it, streams and their topics, sinks. */
export function finder(words: string, topics: Topics = new Map()): (dagger: Dagger) => boolean {
  const each = words.toLowerCase().split(/\s+/).filter(Boolean);
  return (dagger) => {
    const text = each.length ? textOf(dagger, topics) : "";
    return each.every((word) => text.includes(word));
  };
}
