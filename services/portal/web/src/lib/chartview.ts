/** What a chart of rows shows, as its address has it. */
export interface View {
  /** How long it looks back. */
  minutes: number;
  /** Which number; empty: SELECT's first. */
  field: string;
  /** By which tag; empty: SELECT's first; none: by none. */
  by: string;
  /** How many days before stand beside it. */
  days: number[];
  /** The part of the time that is looked at, in s since 1970; null: all. */
  zoom: [number, number] | null;
}
export const RANGES: readonly [string, number][] = [
  ["15 min", 15],
  ["1 h", 60],
  ["6 h", 360],
  ["24 h", 1440],
  ["7 days", 10_080],
];
/** What a time is compared with: the words, and the days as the address has them. */
export const BEFORE: readonly [string, string][] = [
  ["Compare with …", ""],
  ["a day before", "1"],
  ["a week before", "7"],
  ["a day and a week before", "1,7"],
];
/** What stands behind the labels of a day so long before. */
export const suffix = (days: number): string =>
  BEFORE.find(([, each]) => each === `${days}`)?.[0] ?? "before";

/** What an address says of a chart; what it does not say, or nobody could, is as in the beginning. */
export function viewOf(search: string, now: number): View {
  const said = new URLSearchParams(search);
  const range = Number(said.get("range"));
  const [from, to] =
    /^(\d{1,11})-(\d{1,11})$/
      .exec(said.get("zoom") ?? "")
      ?.slice(1)
      .map(Number) ?? [];
  const zoom: View["zoom"] = from !== undefined && to !== undefined && from < to ? [from, to] : null;
  // A zoom that is passed on is of then: its rows have to be read.
  const least = zoom ? Math.ceil((now / 1000 - zoom[0]) / 60) : 0;
  const asked = RANGES.find(([, each]) => each === range)?.[1] ?? RANGES[0]![1];
  const wide = RANGES.find(([, each]) => each >= least)?.[1] ?? RANGES.at(-1)![1];
  return {
    minutes: Math.max(asked, wide),
    field: said.get("field") ?? "",
    by: said.get("by") ?? "",
    days: (BEFORE.find(([, each]) => each === said.get("compare"))?.[1] ?? "")
      .split(",")
      .filter(Boolean)
      .map(Number),
    zoom,
  };
}

/** What the address is to say. */
export const written = (view: View): Record<string, string> => ({
  range: view.minutes === RANGES[0]![1] ? "" : `${view.minutes}`,
  field: view.field,
  by: view.by,
  compare: view.days.join(","),
  zoom: view.zoom ? view.zoom.map((each) => Math.round(each)).join("-") : "",
});
