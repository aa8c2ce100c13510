import type { QuotaUse } from "../gen/daggers/v1/access_service_pb.ts";
import { count } from "./format.ts";
import type { Tone } from "./phase.ts";

const TITLES: Record<string, string> = {
  daggers: "Daggers",
  drivers: "Drivers at once",
  memory_mib: "Memory reserved, MiB",
  executor_cores: "Cores of executors",
  records_per_second: "Records read a second",
  rows_per_minute: "Rows written a minute",
  preview_seconds_per_hour: "Previews, s an hour",
};
/** What a quota is about; one that these pages do not know has its own name. */
export const title = (use: QuotaUse): string => TITLES[use.name] ?? use.name.replaceAll("_", " ");

/** Used up: bad. Where the platform warns: warn. Without a bound: idle. */
export function standing(use: QuotaUse): Tone {
  const { soft, hard } = use.quota ?? {};
  if (hard !== undefined && use.used >= Number(hard)) return "bad";
  if (soft !== undefined && use.used > Number(soft)) return "warn";
  return soft === undefined && hard === undefined ? "idle" : "good";
}
const WORDS: Record<Tone, string> = {
  bad: "Used up",
  warn: "Above its warning",
  good: "Within",
  idle: "No quota",
};
export const standingWord = (use: QuotaUse): string => WORDS[standing(use)];

/** "warns above 8, at most 10". */
export function bounds(use: QuotaUse): string {
  const { soft, hard } = use.quota ?? {};
  return [
    soft === undefined ? "" : `warns above ${count(soft)}`,
    hard === undefined ? "" : `at most ${count(hard)}`,
  ]
    .filter(Boolean)
    .join(", ");
}
/** The bound that a bar ends at; null without one. */
export const full = (use: QuotaUse): number | null => {
  const bound = use.quota?.hard ?? use.quota?.soft;
  return bound === undefined ? null : Number(bound);
};
