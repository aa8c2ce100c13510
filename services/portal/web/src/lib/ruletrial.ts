import type { PreviewDone, PreviewRule } from "../gen/daggers/v1/preview_pb.ts";
import { type RuleObserved, RuleState } from "../gen/daggers/v1/rules_pb.ts";
import { count, ms, several, zoned } from "./format.ts";
import { LOCALES } from "./locale.ts";

/** How far a test of rules looks back: what it is called, and minutes. */
export const RANGES: readonly [string, number][] = [
  ["last 1 h", 60],
  ["last 6 h", 360],
  ["last 24 h", 1_440],
  ["last 7 days", 10_080],
];
/** What a test of rules does not simulate. */
export const NOT_SIMULATED =
  "It begins with the range: what a rule remembers from before is not known, and deliveries, silences and the delay of sinks are not simulated.";

/** What a rule would have fired for a key: in ms since 1970; `until` is null where it is open at the end. */
export interface Incident {
  fired: RuleObserved;
  since: number;
  until: number | null;
}

const keyed = (one: RuleObserved): string => JSON.stringify(Object.entries(one.key).sort());
/** The key of an incident in words; of all keys beyond those with one each, how many they are; empty without a key. */
export const keyText = ({ key, others }: RuleObserved): string =>
  others
    ? `${count(others)} further keys`
    : Object.entries(key)
        .sort(([one], [other]) => (one < other ? -1 : 1))
        .map(([column, value]) => `${column}=${value}`)
        .join(" ");

/** Each firing of a rule with its end, in the order of their begins. */
export function incidents(rule: PreviewRule): Incident[] {
  const open = new Map<string, RuleObserved>();
  const found: Incident[] = [];
  const add = (fired: RuleObserved, until: number | null): number =>
    found.push({ fired, since: ms(fired.since) ?? ms(fired.window) ?? 0, until });
  for (const one of rule.observed) {
    const key = keyed(one);
    const fired = open.get(key);
    if (one.state === RuleState.FIRED) open.set(key, one);
    else if (one.state === RuleState.RESOLVED && fired) {
      open.delete(key);
      add(fired, ms(one.window));
    }
  }
  for (const fired of open.values()) add(fired, null);
  return found.sort(
    (one, other) => one.since - other.since || (keyText(one.fired) < keyText(other.fired) ? -1 : 1),
  );
}

/** Where incidents lie on a chart, in s since 1970: what overlaps is one. */
export function bands(found: readonly Incident[], end: number): [number, number][] {
  const joined: [number, number][] = [];
  for (const { since, until } of found) {
    const [from, to] = [since / 1000, Math.max(since, until ?? end) / 1000];
    const last = joined.at(-1);
    if (last && from <= last[1]) last[1] = Math.max(last[1], to);
    else joined.push([from, to]);
  }
  return joined;
}

const figure = new Intl.NumberFormat(LOCALES as string[], { maximumSignificantDigits: 6 });
/** What a rule would have said, for a sentence that begins with its name. */
export function outcome(rule: PreviewRule, found: readonly Incident[], done: PreviewDone): string {
  const end = ms(done.rules?.until) ?? 0;
  if (found.length) {
    const times = found.length === 1 ? "once" : `${count(found.length)} times`;
    const total = found.reduce((sum, each) => sum + Math.max(0, (each.until ?? end) - each.since), 0);
    return `would have fired ${times}, ${several(total)} in all`;
  }
  if (done.empty) return "no data matched";
  if (rule.nearest === undefined || rule.limit === undefined) return "never fired";
  const at = zoned(ms(rule.nearestWindow));
  return `never fired: nearest ${figure.format(rule.nearest)} of ${figure.format(rule.limit)} at ${at}`;
}

/** What somebody should know of a test besides, a sentence each. */
export function notes(done: PreviewDone): string[] {
  const until = ms(done.rules?.until);
  if (!done.rules)
    return ["The host that ran the query judges no rules over a range: it is of an earlier version."];
  const more = done.rules.rules
    .filter((each) => each.observedLeftOut)
    .map((each) => `Further firings and ends of ${each.rule} are left out: ${count(each.observedLeftOut)}.`);
  return until === null ? more : [`Windows up to ${zoned(until)} were judged.`, ...more];
}
