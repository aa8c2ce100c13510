import type { Vitals } from "../gen/daggers/v1/vitals_pb.ts";
import { bytes, clock, count, lasting, ms, since } from "./format.ts";
import { fresh, waiting } from "./freshness.ts";
import type { Word } from "./terms.ts";

/** One number of a dagger: its title, what the title means, the number, and of what it is. */
export interface Fact {
  title: string;
  word?: Word;
  value: string;
  note: string;
}

const sum = (of: Record<string, bigint>): bigint => Object.values(of).reduce((all, each) => all + each, 0n);

/** What a driver said of itself when it was heard last. */
export function factsOf(vitals: Vitals, now: number): Fact[] {
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
    },
    { title: "Records in", value: known(vitals.recordsPerS), note: "a second" },
    { title: "Lag", word: "lag", value: known(vitals.lag), note: `records${behind}` },
    {
      title: "Watermark",
      word: "watermark",
      value: clock(watermark, now),
      note: watermark === null ? "none yet" : `${since(watermark, now)} ago`,
    },
    ...fresh(vitals, now).map(([title, value, note]): Fact => ({ title, value, note })),
    ...waiting(vitals, now).map(([title, value, note]): Fact => ({ title, value, note })),
    {
      title: "Late",
      word: "late",
      value: count(vitals.lateRows),
      note: `rows, ${count(vitals.recentLateRows)} lately`,
    },
    {
      title: "Quarantined",
      word: "quarantine",
      value: count(sum(vitals.quarantined)),
      note: reasons === 1 ? "records, 1 reason" : `records, ${count(reasons)} reasons`,
    },
    { title: "Memory", value: bytes(vitals.memoryBytes), note: `${count(vitals.stateRows)} open groups` },
  ];
}
