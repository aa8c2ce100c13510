import type { DaggerCost } from "../gen/daggers/v1/access_service_pb.ts";
import type { Vitals } from "../gen/daggers/v1/vitals_pb.ts";
import { bytes, clock, count, lasting, many, ms, since } from "./format.ts";
import { fresh, slowest, took, waiting } from "./freshness.ts";
import type { Metric } from "./minutes.ts";
import type { Word } from "./terms.ts";

/** One number of a dagger: its title, what the title means, the number, and of what it is. */
export interface Fact {
  title: string;
  word?: Word;
  value: string;
  note: string;
  /** What of its last day is drawn below it. */
  metric?: Metric;
}

const sum = (of: Record<string, bigint>): bigint => Object.values(of).reduce((all, each) => all + each, 0n);

/** What a driver said of itself when it was heard last. */
export function factsOf(vitals: Vitals, now: number, cost?: DaggerCost): Fact[] {
  const watermark = ms(vitals.watermark);
  const heard = ms(vitals.heardTime);
  const reasons = Object.keys(vitals.quarantined).length;
  const behind = watermark === null || heard === null ? "" : `, ${lasting(heard - watermark)}`;
  const known = (value: number | bigint | undefined): string => (value === undefined ? "–" : count(value));
  return [
    {
      title: "Rows out",
      value: known(vitals.rowsPerS && Math.round(vitals.rowsPerS * 60)),
      note: "a minute",
      metric: "rows",
    },
    { title: "Records in", value: known(vitals.recordsPerS), note: "a second", metric: "records" },
    { title: "Lag", word: "lag", value: known(vitals.lag), note: `records${behind}`, metric: "lag" },
    {
      title: "Watermark",
      word: "watermark",
      value: clock(watermark, now),
      note: watermark === null ? "none yet" : `${since(watermark, now)} ago`,
    },
    ...freshness(vitals, now),
    ...waiting(vitals, now).map(([title, value, note]): Fact => ({ title, value, note })),
    {
      title: "Late",
      word: "late",
      value: count(vitals.lateRows),
      note: `rows, ${count(vitals.recentLateRows)} lately`,
      metric: "lateRows",
    },
    {
      title: "Quarantined",
      word: "quarantine",
      value: count(sum(vitals.quarantined)),
      note: reasons === 1 ? "records, 1 reason" : `records, ${count(reasons)} reasons`,
      metric: "quarantined",
    },
    {
      title: "Memory",
      value: vitals.memoryBytes ? bytes(vitals.memoryBytes) : "–",
      note: many(vitals.stateRows, "open group"),
    },
    ...(cost?.age ? [costOf(cost)] : []),
  ];
}

/** A card for each sink. Minutes know the slowest one alone: among several it has a card of its own. */
function freshness(vitals: Vitals, now: number): Fact[] {
  const cards = fresh(vitals, now).map(([title, value, note]): Fact => ({ title, value, note }));
  if (cards.length < 2) return cards.map((each) => ({ ...each, metric: "freshnessP95Ms" }));
  const worst = slowest(vitals)?.[1] ?? 0n;
  return [
    ...cards,
    { title: "Slowest sink", value: took(worst), note: "p95 of an hour", metric: "freshnessP95Ms" },
  ];
}

/** What a day costs, as if every day were like the time since the launch. */
const costOf = (cost: DaggerCost): Fact => ({
  title: "Cost a day",
  value: processor(cost.cpuSecondsPerDay),
  note: `of a processor, ${count(cost.launchMemoryMib)} MiB reserved`,
});

/** 12 min, 1.5 h: seconds of a processor, as time. */
const processor = (seconds: number): string =>
  seconds < 5_400 ? lasting(seconds * 1_000) : `${count(seconds / 3_600)} h`;
