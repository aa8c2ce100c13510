import type { Dagger } from "../gen/daggers/v1/dagger_pb.ts";
import { ms } from "./format.ts";
import { tone } from "./phase.ts";

/** What somebody may want to look at, the worst first; only the last is no trouble. */
export const CONCERNS = [
  ["bad", "Failed"],
  ["warn", "In trouble"],
  ["late", "Late rows"],
  ["quarantined", "Quarantined"],
  ["changed", "Changed in 24 h"],
] as const;
export type Concern = (typeof CONCERNS)[number][0];

const DAY_MS = 86_400_000;

/** Whether a dagger is one of those that a concern is about, now. */
export function concerns(dagger: Dagger, what: string, now: number): boolean {
  switch (what) {
    case "late":
      return (dagger.vitals?.recentLateRows ?? 0n) > 0n;
    case "quarantined":
      return (dagger.vitals?.recentQuarantined ?? 0n) > 0n;
    case "changed":
      return now - (ms(dagger.updateTime) ?? 0) < DAY_MS;
    default:
      return tone(dagger.phase) === what;
  }
}

/** How many daggers of a team each concern is about. */
export interface TeamConcerns {
  team: string;
  counts: Record<Concern, number>;
  /** Whether one of them is trouble. */
  troubled: boolean;
}

/** The concerns of all teams that have any: who has the worst, and the most of it, first. */
export function byTeam(daggers: Iterable<Dagger>, now: number): TeamConcerns[] {
  const found = new Map<string, TeamConcerns>();
  for (const dagger of daggers) {
    const team = dagger.spec?.team ?? "";
    for (const [what] of CONCERNS) {
      if (!concerns(dagger, what, now)) continue;
      const counts = { bad: 0, warn: 0, late: 0, quarantined: 0, changed: 0 };
      const own = found.get(team) ?? { team, counts, troubled: false };
      own.counts[what]++;
      own.troubled ||= what !== "changed";
      found.set(team, own);
    }
  }
  return [...found.values()].sort((one, other) => {
    for (const [what] of CONCERNS)
      if (one.counts[what] !== other.counts[what]) return other.counts[what] - one.counts[what];
    return one.team < other.team ? -1 : 1;
  });
}
