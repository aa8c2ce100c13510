import type { MessageInitShape } from "@bufbuild/protobuf";
import { durationFromMs, timestampFromDate } from "@bufbuild/protobuf/wkt";
import type {
  Alert,
  CreateSilenceRequestSchema,
  ExpireSilenceResponse,
  ListedSilence,
} from "../gen/daggers/v1/alert_service_pb.ts";
import { AlertCondition, AlertSeverity } from "../gen/daggers/v1/alerts_pb.ts";
import { ms } from "./format.ts";
import type { Tone } from "./phase.ts";
import { pages } from "./read.svelte.ts";
import { alerts } from "./rpc.ts";
import { note, written } from "./written.ts";

/** What an alert must be, or must not be, for a silence to hold it back; `*` in the value is any characters. */
export interface Matcher {
  label: string;
  negated: boolean;
  value: string;
}

/** The labels that every alert has, and the rule of one on rows; such a rule has its key's columns, too. */
export const LABELS = [
  "dagger",
  "condition",
  "severity",
  "team",
  "domain",
  "host",
  "cluster",
  "store",
  "rule",
];
const KEY = "key_";
const HOUR_MS = 3_600_000;
/** For how long somebody may silence: what it is called, and ms. The last is the longest that there is. */
export const SPANS: [string, number][] = [
  ["30 minutes", HOUR_MS / 2],
  ["1 hour", HOUR_MS],
  ["2 hours", 2 * HOUR_MS],
  ["4 hours", 4 * HOUR_MS],
  ["8 hours", 8 * HOUR_MS],
  ["1 day", 24 * HOUR_MS],
  ["3 days", 72 * HOUR_MS],
  ["7 days", 168 * HOUR_MS],
  ["30 days", 720 * HOUR_MS],
];

const names = (values: object): string[] =>
  Object.values(values)
    .filter((each): each is string => typeof each === "string" && each !== "UNSPECIFIED")
    .map((each) => each.toLowerCase());
export const CONDITIONS = names(AlertCondition).sort();
export const SEVERITIES = names(AlertSeverity);

/** A matcher as the gateway reads it. */
export const write = ({ label, negated, value }: Matcher): string =>
  `${label}${negated ? "!=" : "="}${value.trim()}`;

/** A matcher of a text that the gateway or an address has; nothing where it is none. */
export function parse(text: string): Matcher[] {
  const found = /^\s*(\w+)\s*(!?=)\s*(.*?)\s*$/s.exec(text);
  return found ? [{ label: found[1]!, negated: found[2] === "!=", value: found[3]! }] : [];
}

/** The label of a column of a rule's key: what may stand in no name is its code point in hexadecimal. */
const labelOf = (column: string): string =>
  KEY + column.replace(/[^a-zA-Z0-9_]/gu, (sign) => `_${sign.codePointAt(0)!.toString(16)}_`);

/** The matchers of an alert and of no other that is open: of a rule those of its key, too. */
export function matchersOf(alert: Alert): Matcher[] {
  const condition = (AlertCondition[alert.condition] ?? "").toLowerCase();
  const labels: [string, string][] = [
    ["dagger", alert.dagger],
    ["condition", condition],
    ["rule", alert.rule],
    ...Object.entries(alert.key).map(([column, value]): [string, string] => [labelOf(column), value]),
  ];
  return labels.filter(([, value]) => value).map(([label, value]) => ({ label, negated: false, value }));
}

/** The address of a new silence of a team's alerts that these match. */
export function newSilence(team: string, matchers: Matcher[]): string {
  const parameters = [["team", team], ...matchers.map((each) => ["matcher", write(each)])];
  return `/new/silence?${new URLSearchParams(parameters.filter(([, value]) => value) as [string, string][])}`;
}

/** What is offered as the value of a label: what it may be, or what alerts that are open have there. */
export function valuesOf(label: string, open: Alert[], teams: string[]): string[] {
  if (label === "condition") return CONDITIONS;
  if (label === "severity") return SEVERITIES;
  if (label === "domain") return ["user", "external", "internal"];
  if (label === "team") return teams.filter(Boolean);
  const values = open.flatMap(matchersOf).filter((each) => each.label === label);
  return [...new Set(values.map((each) => each.value))].sort();
}

/** What is asked for; `from` is empty for now, or as a field for times has it, in the zone of who wrote it. */
export function request(
  team: string,
  matchers: Matcher[],
  from: string,
  lasts: number,
  reason: string,
): MessageInitShape<typeof CreateSilenceRequestSchema> {
  return {
    team,
    matchers: matchers.map(write),
    begin: from ? timestampFromDate(new Date(from)) : undefined,
    duration: durationFromMs(lasts),
    reason: reason.trim(),
  };
}

/** The silences that hold back alerts or will; with `ended` also those of the last 30 days that are over. */
export const silencesOf = (ended: boolean, signal: AbortSignal): Promise<ListedSilence[]> =>
  pages(
    (pageToken) =>
      alerts.listSilences({ pageToken, includeEnded: ended, minSequence: written() }, { signal }),
    (page) => page.silences,
  );

/** End a silence now. Raises: ConnectError. */
export async function end(id: string): Promise<ExpireSilenceResponse> {
  const answer = await alerts.expireSilence({ id });
  note(answer);
  return answer;
}

/** What a silence does at a time: its tone and a word. */
export function stateOf({ silence, endedBy }: ListedSilence, now: number): [Tone, string] {
  const [begin, until] = [ms(silence?.begin) ?? 0, ms(silence?.end) ?? 0];
  if (now >= until) return ["idle", endedBy ? "Ended" : "Over"];
  return now < begin ? ["idle", "Planned"] : ["warn", "Silent"];
}
