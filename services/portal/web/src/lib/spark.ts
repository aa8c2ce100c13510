import type { Vitals } from "../gen/daggers/v1/vitals_pb.ts";

/** Rates of each dagger, oldest first. */
export type Rates = ReadonlyMap<string, readonly number[]>;
const MOST = 60;

/** With what vitals say now of rows a second, at most so many of each. */
export function noted(rates: Rates, vitals: Vitals[]): Rates {
  const now = new Map(rates);
  for (const { dagger, rowsPerS } of vitals)
    if (rowsPerS !== undefined) now.set(dagger, [...(now.get(dagger) ?? []), rowsPerS].slice(-MOST));
  return now;
}

/** The corners of a line through values in a box, from 0 to the largest; empty for fewer than two. */
export function corners(values: readonly number[], width: number, height: number): string {
  if (values.length < 2) return "";
  const most = Math.max(...values) || 1;
  return values
    .map((each, at) => {
      const x = (at / (values.length - 1)) * width;
      return `${x.toFixed(1)},${(height - (each / most) * height).toFixed(1)}`;
    })
    .join(" ");
}
