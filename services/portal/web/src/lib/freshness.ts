import type { Vitals } from "../gen/daggers/v1/vitals_pb.ts";
import { count, many, ms, since } from "./format.ts";

/** 5.9 s, 340 ms, 12 min: how long it took. */
export function took(milliseconds: bigint): string {
  const span = Number(milliseconds);
  if (span < 1_000) return `${span} ms`;
  return span < 60_000 ? `${count(span / 1_000)} s` : since(0, span);
}

/** The sink whose rows are oldest at p95, and how old in ms; nothing where no sink has had rows of late. */
export const slowest = (vitals: Vitals | undefined): [string, bigint] | undefined =>
  Object.entries(vitals?.freshness ?? {})
    .filter(([, of]) => of.rows)
    .map(([sink, of]): [string, bigint] => [sink, of.p95Ms])
    .reduce<[string, bigint] | undefined>(
      (most, each) => (most === undefined || each[1] > most[1] ? each : most),
      undefined,
    );

/** A card for each sink that has not taken what waits in its log. */
export function waiting(vitals: Vitals, now = Date.now()): [string, string, string][] {
  return Object.entries(vitals.spools)
    .sort(([one], [other]) => one.localeCompare(other))
    .map(([sink, spool]): [string, string, string] => {
      const oldest = ms(spool.since);
      const age = oldest === null ? [] : [`the oldest for ${since(oldest, now)}`];
      const pace = spool.paused ? "paused" : `${count(spool.rowsPerSecond)} rows/s are written`;
      return [`Waits for ${sink}`, many(spool.rows, "row"), [...age, pace].join("; ")];
    });
}

/** A card for each sink: how long after the end of their windows it had 95 of a hundred rows, or what waits for it. */
export function fresh(vitals: Vitals, now = Date.now()): [string, string, string][] {
  return Object.entries(vitals.freshness)
    .sort(([one], [other]) => one.localeCompare(other))
    .map(([sink, of]): [string, string, string] => {
      const waiting = ms(of.waitingSince);
      const value = of.rows ? took(of.p95Ms) : "–";
      if (waiting !== null) return [`Fresh in ${sink}`, value, `a row waits, ${since(waiting, now)} old`];
      return [`Fresh in ${sink}`, value, `p95 of an hour; p50 ${took(of.p50Ms)}, p99 ${took(of.p99Ms)}`];
    });
}
