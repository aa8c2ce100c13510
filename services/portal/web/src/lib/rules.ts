import { create } from "@bufbuild/protobuf";
import { type Duration, durationFromMs, durationMs } from "@bufbuild/protobuf/wkt";
import type { Alert } from "../gen/daggers/v1/alert_service_pb.ts";
import { type Finding, type OutputColumn, OutputColumn_Role as Role } from "../gen/daggers/v1/findings_pb.ts";
import { type AlertRule, AlertRuleSchema, RuleSeverity } from "../gen/daggers/v1/rules_pb.ts";
import type { LearningRule } from "../gen/daggers/v1/telemetry_pb.ts";
import { capital } from "./commands.ts";
import { lasting, many, ms, zoned } from "./format.ts";
import { statement, within } from "./form.ts";
import { grave, needed } from "./judged.ts";
import { unprefixed } from "./rows.ts";
import { limitsText, withTable } from "./rulelimits.ts";
import { selected } from "./select.ts";

/** How soon a person has to look: what a rule may say. */
export const SEVERITIES: readonly [string, RuleSeverity][] = [
  ["warning", RuleSeverity.WARNING],
  ["error", RuleSeverity.ERROR],
  ["critical", RuleSeverity.CRITICAL],
];
/** The severity of a rule; where it says none, that is a warning. */
export const severityOf = (rule: AlertRule): RuleSeverity => rule.severity || RuleSeverity.WARNING;
export const severityName = (rule: AlertRule): string =>
  SEVERITIES.find(([, each]) => each === severityOf(rule))?.[0] ?? "warning";

/** What `for` is counted in: how it is called, and ms; windows have none. */
export const UNITS: readonly [string, number][] = [
  ["windows", 0],
  ["seconds", 1_000],
  ["minutes", 60_000],
  ["hours", 3_600_000],
];
/** Those of them that are times. */
export const TIMES = UNITS.filter(([, size]) => size);
/** The greatest unit that a time is whole in. */
const timeUnit = (time: Duration): string =>
  TIMES.filter(([, size]) => durationMs(time) % size === 0).at(-1)?.[0] ?? "seconds";
const sizeOf = (unit: string): number => UNITS.find(([each]) => each === unit)?.[1] ?? 0;
/** What the time or the windows of a rule are counted in. */
export const unitOf = ({ forTime }: AlertRule): string => (forTime ? timeUnit(forTime) : "windows");
/** How many of a unit a rule has to be true for; empty: one window. */
export function amountOf(rule: AlertRule, unit: string): string {
  const size = sizeOf(unit);
  if (size && rule.forTime) return String(durationMs(rule.forTime) / size);
  return !size && rule.forWindows ? String(rule.forWindows) : "";
}
const MOST_WINDOWS = 2 ** 32 - 1;
/** A rule that has to be true for so long; anything but a number above 0 is one window. */
export function withHold(rule: AlertRule, amount: string, unit: string): AlertRule {
  const size = sizeOf(unit);
  const number = Number(amount);
  if (!(number > 0)) return { ...rule, forWindows: 0, forTime: undefined };
  if (size) return { ...rule, forWindows: 0, forTime: durationFromMs(Math.round(number * size)) };
  const forWindows = Math.min(Math.max(1, Math.round(number)), MOST_WINDOWS);
  return { ...rule, forWindows, forTime: undefined };
}
/** 1 window, 3 windows, 10 min. */
export const holdText = (rule: AlertRule): string =>
  rule.absent ? "–" : rule.forTime ? lasting(durationMs(rule.forTime)) : many(rule.forWindows || 1, "window");

/** What makes a rule fire. */
export type Kind = "condition" | "silence";
export const KINDS: readonly [string, Kind][] = [
  ["when a condition is true", "condition"],
  ["when rows are missing", "silence"],
];
export const kindOf = (rule: AlertRule): Kind => (rule.absent ? "silence" : "condition");
const FIRST_SILENCE = 600_000;
/** A rule of this kind; what only the other kind says is taken out. */
export const withKind = (rule: AlertRule, kind: Kind): AlertRule =>
  kind === "condition"
    ? { ...rule, absent: undefined }
    : withSilence(
        { ...withTable(withEnding(withHold(rule, "", ""), "false", ""), "", []), when: "" },
        FIRST_SILENCE,
      );
/** A rule that fires for keys without a row for so many ms. */
export const withSilence = (rule: AlertRule, ms: number): AlertRule => ({
  ...rule,
  absent: durationFromMs(Math.max(0, Math.round(ms) || 0)),
});
/** How long a key has no row, and in which unit; that of a rule with a condition is empty. */
export const silenceOf = ({ absent }: AlertRule): [string, string] => {
  if (!absent) return ["", "minutes"];
  const unit = timeUnit(absent);
  return [String(durationMs(absent) / sizeOf(unit)), unit];
};
/** A time in ms, of a number and its unit. */
export const timeOf = (amount: string, unit: string): number => Number(amount) * sizeOf(unit);
/** What a rule fires by, in a line. */
export const causeText = (rule: AlertRule): string =>
  rule.absent ? `no row for ${lasting(durationMs(rule.absent))}` : (rule.when || "–") + limitsText(rule);
/** Until when a rule has not enough past to be true of anything; empty: it has enough. */
export function learningText(learning: readonly LearningRule[], rule: string): string {
  const own = learning.find((each) => each.rule === rule);
  if (!own) return "";
  return own.until ? `learning until ${zoned(ms(own.until))}` : "learning: there was no window yet";
}

/** When an incident is over, by the part of the rule that says it. */
export type Ending = "false" | "condition" | "share";
export const ENDINGS: readonly [string, Ending][] = [
  ["when it is no longer true", "false"],
  ["when another condition is true", "condition"],
  ["when the value is better by a share", "share"],
];
export const endingOf = (rule: AlertRule): Ending =>
  rule.clear ? "share" : rule.resolveWhen ? "condition" : "false";
/** The share by which it has to be better, in percent; empty: none. */
export const percentOf = (rule: AlertRule): string =>
  rule.clear ? String(Number((rule.clear * 100).toPrecision(12))) : "";
/** A rule whose incidents end so; the other way of it is taken out. */
export function withEnding(rule: AlertRule, ending: Ending, text: string): AlertRule {
  const clear = ending === "share" ? (Number(text) || 0) / 100 : 0;
  return { ...rule, resolveWhen: ending === "condition" ? text : "", clear };
}

/** The columns that a key may be made of: all but the time of the row. */
export const keyColumns = (columns: readonly OutputColumn[]): string[] =>
  columns.filter((each) => each.role !== Role.TIME).map((each) => each.name);
/** Those that a rule without a key goes by: tags and labels. */
export const tagColumns = (columns: readonly OutputColumn[]): string[] =>
  columns.filter((each) => each.role === Role.TAG).map((each) => each.name);
/** A rule with a column in its key, or without it; the others stay as they were. */
export const withKey = (rule: AlertRule, column: string, on: boolean): AlertRule => ({
  ...rule,
  key: on ? [...rule.key, column] : rule.key.filter((each) => each !== column),
});

const NAME = /^[a-z][a-z0-9_-]{1,61}[a-z0-9]$/;
/** A name like this one that no rule has. */
export function freeName(rules: readonly AlertRule[], like: string): string {
  const plain = like
    .toLowerCase()
    .replace(/[^a-z0-9_-]/g, "_")
    .slice(0, 50);
  const base = NAME.test(plain) ? plain : "rule_1";
  let name = base;
  for (let number = 2; rules.some((each) => each.name === name); number++) name = `${base}_${number}`;
  return name;
}

/** A line that somebody has drawn through a column's chart, and which side of it is wrong. */
export interface Limit {
  column: string;
  above: boolean;
  value: number;
}
/** A column's name as a condition has it. */
export const quoted = (column: string): string =>
  /^[A-Za-z_]\w*$/.test(column) ? column : `\`${column.replaceAll("`", "``")}\``;
/** A number as a condition has it: each digit, and no exponent. */
export function decimal(value: number): string {
  const text = String(value);
  if (!text.includes("e")) return text;
  return Math.abs(value) < 1 ? value.toFixed(20).replace(/\.?0+$/, "") : BigInt(value).toString();
}
/** The rule of a line. */
export const limitRule = (rules: readonly AlertRule[], { column, above, value }: Limit): AlertRule =>
  create(AlertRuleSchema, {
    name: freeName(rules, `${column}_${above ? "high" : "low"}`),
    when: `${quoted(column)} ${above ? ">" : "<"} ${decimal(value)}`,
  });
/** The column of the query that a sink's number is of: some sinks leave out what a name begins with. */
export const columnOf = (sql: string, value: string): string =>
  selected(sql).find((each) => unprefixed(each) === unprefixed(value.toLowerCase())) ?? value;
/** The first of these columns that a rule's condition names; the first of all where it names none. */
export function readColumn(rule: AlertRule | undefined, columns: readonly string[]): string {
  const text = (rule?.when ?? "").toLowerCase().replace(/'[^']*'/g, "");
  const words = text.match(/`[^`]+`|[\p{L}_][\p{L}\p{N}_]*/gu) ?? [];
  const named = new Set(words.map((each) => each.replaceAll("`", "")));
  return columns.find((each) => named.has(each.toLowerCase())) ?? columns[0] ?? "";
}

/** A list of rules with the one at a place changed; null: without it. */
export const withRule = (rules: readonly AlertRule[], at: number, rule: AlertRule | null): AlertRule[] =>
  rules.flatMap((each, place) => (place !== at ? [each] : rule ? [rule] : []));
export const blankRule = (): AlertRule => create(AlertRuleSchema);

/** Where findings have the rule at a place. */
export const pathOf = (at: number): string => `spec.alerts[${at}]`;
/** A part of a rule, and of its limits. */
const PART = /^spec\.alerts\[(\d+)\]\.?((?:limits\.)?\w*)/;
const partOf = (finding: Finding): string => PART.exec(finding.field)?.[2] ?? "";
/** What stands in a part of a rule, for who asks whether anything was typed there. */
const TYPED: Record<string, (rule: AlertRule) => unknown> = {
  name: (rule) => rule.name,
  when: (rule) => rule.when,
  "limits.key": (rule) => rule.limits?.key.join() ?? "",
};
/** What is wrong with the parts of rules. What nobody has typed yet is no mistake until `all` is asked for. */
export function faults(found: readonly Finding[], rules: readonly AlertRule[], all: boolean): Finding[] {
  return found.filter((each) => {
    if (!grave(each) && !needed(each)) return false;
    const at = PART.exec(each.field)?.[1];
    const part = partOf(each);
    if (at === undefined) return within(each.field, "spec.alerts");
    const rule = rules[Number(at)];
    return all || !rule || !part || (TYPED[part]?.(rule) ?? true) !== "";
  });
}

const TITLES: Record<string, string> = {
  name: "The name",
  when: "The condition",
  absent: "The time",
  for_windows: "The number of windows",
  for_time: "The time",
  resolve_when: "The condition",
  clear: "The share",
  "limits.reference": "The table of limits",
  "limits.key": "The key of the table",
  "limits.columns": "The columns of the table",
  key: "The key",
  severity: "The severity",
  summary: "The summary",
  runbook: "The address",
};
/** What is wrong with a part of a rule, in one sentence. */
export function faultText(finding: Finding): string {
  const found = statement(finding);
  const whole = finding.line > 0 || finding.code === "DUPLICATE" || /^[A-Z0-9]/.test(found);
  return capital(whole ? found : `${TITLES[partOf(finding)] ?? ""} ${found}`.trim());
}

/** What of a dagger's open alerts is of a rule. */
export const firing = (open: readonly Alert[], rule: string): Alert[] =>
  open.filter((each) => each.rule === rule && !each.until);
