import type { Dagger } from "../gen/daggers/v1/dagger_pb.ts";
import { count, ms, since } from "./format.ts";
import { slowest, took } from "./freshness.ts";
import { byUrgency, tone, word } from "./phase.ts";

/** What a dagger is sorted by in a column; null where that is not known. */
type Key = number | string | null;

/** A column of the table of daggers. */
export interface Column {
  /** As the address has it. */
  id: string;
  title: string;
  isNumber: boolean;
  key: (dagger: Dagger) => Key;
  /** What stands there; a dagger is named, and its state shown, by who draws it. */
  show: (dagger: Dagger, now: number) => string;
}

const number = (value: bigint | number | undefined): number | null =>
  value === undefined ? null : Number(value);
const counted = (of: (dagger: Dagger) => bigint | number | undefined): Pick<Column, "key" | "show"> => ({
  key: (dagger) => number(of(dagger)),
  show: (dagger) => {
    const value = of(dagger);
    return value === undefined ? "–" : count(value);
  },
});
const ORDER = ["bad", "warn", "good", "idle"];

export const COLUMNS: readonly Column[] = [
  { id: "name", title: "Dagger", isNumber: false, key: (each) => each.name, show: (each) => each.name },
  {
    id: "state",
    title: "State",
    isNumber: false,
    key: (each) => ORDER.indexOf(tone(each.phase)),
    show: (each) => word(each.phase),
  },
  {
    id: "team",
    title: "Team",
    isNumber: false,
    key: (each) => each.spec?.team || null,
    show: (each) => each.spec?.team || "–",
  },
  {
    id: "rows",
    title: "Rows a minute",
    isNumber: true,
    ...counted((each) => {
      const rate = each.vitals?.rowsPerS;
      return rate === undefined ? undefined : Math.round(rate * 60);
    }),
  },
  { id: "lag", title: "Lag, records", isNumber: true, ...counted((each) => each.vitals?.lag) },
  {
    id: "freshness",
    title: "Freshness, p95",
    isNumber: true,
    key: (each) => number(slowest(each.vitals)?.[1]),
    show: (each) => {
      const of = slowest(each.vitals);
      return of === undefined ? "–" : took(of[1]);
    },
  },
  { id: "late", title: "Late rows", isNumber: true, ...counted((each) => each.vitals?.recentLateRows) },
  {
    id: "quarantined",
    title: "Quarantined records",
    isNumber: true,
    ...counted((each) => each.vitals?.recentQuarantined),
  },
  {
    id: "changed",
    title: "Changed",
    isNumber: false,
    key: (each) => ms(each.updateTime),
    show: (each, now) => (each.updateTime ? `${since(ms(each.updateTime), now)} ago` : "–"),
  },
];

/** What a table is sorted by: a column, and whether its greatest stands first. */
export interface Sort {
  column: Column;
  down: boolean;
}

/** What an address says: `lag`, or `-lag` for the greatest first; nothing where there is no such column. */
export function parseSort(text: string): Sort | null {
  const column = COLUMNS.find((each) => each.id === text.replace(/^-/, ""));
  return column ? { column, down: text.startsWith("-") } : null;
}
export const writeSort = (sort: Sort | null): string =>
  sort ? `${sort.down ? "-" : ""}${sort.column.id}` : "";

/** What a press on a column's head leads to: numbers begin with the greatest, and the third press ends it. */
export function turn(sort: Sort | null, column: Column): Sort | null {
  const first = column.isNumber || column.id === "changed";
  if (sort?.column !== column) return { column, down: first };
  return sort.down === first ? { column, down: !first } : null;
}

/** Daggers by a column; what is not known stands last, and what is equal by urgency and name. */
export function sorted(daggers: readonly Dagger[], sort: Sort | null): Dagger[] {
  if (!sort) return [...daggers].sort(byUrgency);
  const sign = sort.down ? -1 : 1;
  const keyed = daggers.map((dagger) => ({ dagger, key: sort.column.key(dagger) }));
  return keyed
    .sort((one, other) => {
      if (one.key === other.key) return byUrgency(one.dagger, other.dagger);
      if (one.key === null || other.key === null) return one.key === null ? 1 : -1;
      return (one.key < other.key ? -1 : 1) * sign;
    })
    .map((each) => each.dagger);
}
