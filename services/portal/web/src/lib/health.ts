import type { Alert } from "../gen/daggers/v1/alert_service_pb.ts";
import type { Dagger } from "../gen/daggers/v1/dagger_pb.ts";
import type { Vitals } from "../gen/daggers/v1/vitals_pb.ts";
import { count } from "./format.ts";
import { tally } from "./phase.ts";

export interface Health {
  /** How many daggers are in which state, what needs a person first. */
  phases: [string, number][];
  alerts: Alert[];
  /** What stands on a card: title, value and of what it is. */
  sums: [string, bigint, string][];
}

const aside = (vitals: Vitals): bigint =>
  Object.values(vitals.quarantined).reduce((all, each) => all + each, 0n);

/** How the daggers of a team do, together, and those of the open alerts that are about them or the team itself. */
export function healthOf(team: string, daggers: Dagger[], open: Alert[]): Health {
  const names = new Set(daggers.map((each) => each.name));
  const sum = (of: (vitals: Vitals) => bigint): bigint =>
    daggers.reduce((all, each) => all + (each.vitals ? of(each.vitals) : 0n), 0n);
  const unknown = daggers.filter((each) => each.vitals?.heardTime && each.vitals.lag === undefined).length;
  return {
    phases: tally(daggers),
    alerts: open.filter((each) => names.has(each.dagger) || each.dagger === `team/${team}`),
    sums: [
      ["Lag", sum((each) => each.lag ?? 0n), unknown ? `records; not known of ${count(unknown)}` : "records"],
      ["Late", sum((each) => each.recentLateRows), "rows lately"],
      ["Quarantined", sum((each) => each.recentQuarantined), `records lately, ${count(sum(aside))} in all`],
    ],
  };
}
