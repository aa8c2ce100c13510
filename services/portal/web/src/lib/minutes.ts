import type { ReadMetricsResponse } from "../gen/daggers/v1/dagger_service_pb.ts";
import { ms } from "./format.ts";

/** What a dagger's minutes have numbers of, as the answer names them. */
export type Metric = "records" | "rows" | "lag" | "lateRows" | "quarantined" | "freshnessP95Ms";
/** How many minutes there are. */
export const MINUTES = 1_440;
const MINUTE_MS = 60_000;

/** The numbers of the 24 hours that end now, oldest first; null: of that minute nothing is known. */
export function lastDay(answer: ReadMetricsResponse, metric: Metric, now: number): (number | null)[] {
  const begin = ms(answer.begin);
  const values = answer[metric];
  // The minute of now is still going on: its sums would look like a fall.
  const first = Math.floor(now / MINUTE_MS) - MINUTES;
  const offset = begin === null ? 0 : first - Math.floor(begin / MINUTE_MS);
  return Array.from({ length: MINUTES }, (_, at) => {
    const value = Number(values[at + offset] ?? -1n);
    return value < 0 ? null : value;
  });
}

/** Of so many neighbours one number, their largest, so that no peak is lost; null where none is known. */
export const peaks = (values: readonly (number | null)[], width: number): (number | null)[] =>
  Array.from({ length: Math.ceil(values.length / width) }, (_, at) => {
    const known = values.slice(at * width, (at + 1) * width).filter((each) => each !== null);
    return known.length ? Math.max(...known) : null;
  });

/** The corners of lines through values in a box, from 0 to the largest: a line between two gaps each. */
export function pieces(values: readonly (number | null)[], width: number, height: number): string[] {
  const most = Math.max(0, ...values.filter((each) => each !== null)) || 1;
  const step = width / Math.max(values.length - 1, 1);
  const found: string[][] = [[]];
  values.forEach((value, at) => {
    if (value === null) return void found.push([]);
    const y = (height - (value / most) * height).toFixed(1);
    const piece = found.at(-1)!;
    piece.push(`${(at * step).toFixed(1)},${y}`);
    // One that stands alone is as wide as its part of the time.
    if (piece.length === 1 && (values[at + 1] ?? null) === null)
      piece.push(`${((at + 1) * step).toFixed(1)},${y}`);
  });
  return found.filter((each) => each.length).map((each) => each.join(" "));
}
