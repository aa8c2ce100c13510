import type { Row, RowField } from "../gen/daggers/v1/output_pb.ts";
import { type OutputColumn, OutputColumn_Role as Role } from "../gen/daggers/v1/findings_pb.ts";
import { ms } from "./format.ts";
import { selected } from "./select.ts";

export type Cell = string | number | bigint | boolean | null;
export interface Column {
  name: string;
  kind: "time" | "tag" | "text" | "number";
}
export interface Table {
  columns: Column[];
  rows: Cell[][];
}
export const TIME = "time";

function cell(field: RowField): Cell {
  return field.value.case === undefined ? null : field.value.value;
}

/** Rows as a table: time, the tags, the fields; in the order that they first come in. */
export function table(rows: Row[]): Table {
  const at = new Map<string, number>();
  const columns: Column[] = [];
  const place = (name: string, kind: Column["kind"]): number => {
    let known = at.get(`${kind === "tag"}${name}`);
    if (known === undefined) {
      known = columns.push({ name, kind }) - 1;
      at.set(`${kind === "tag"}${name}`, known);
    }
    return known;
  };
  for (const row of rows) {
    for (const name of Object.keys(row.tags).sort()) place(name, "tag");
    for (const field of row.fields) {
      const numeric = field.value.case === "integer" || field.value.case === "number";
      place(field.name, numeric ? "number" : "text");
    }
  }
  columns.push({ name: TIME, kind: "time" });
  const made = rows.map((row) => {
    const cells: Cell[] = new Array<Cell>(columns.length).fill(null);
    for (const [name, value] of Object.entries(row.tags)) cells[place(name, "tag")] = value;
    for (const field of row.fields) {
      const known = at.get(`false${field.name}`);
      if (known !== undefined) cells[known] = cell(field);
    }
    cells[columns.length - 1] = ms(row.time);
    return cells;
  });
  return { columns, rows: made };
}

/** A table with its columns in the order of SELECT; what SELECT does not name comes last, as it was. */
export function inOrder(table: Table, outputs: OutputColumn[]): Table {
  return ordered(table, outputs, (output, { name, kind }) =>
    output.role === Role.TIME
      ? kind === "time"
      : (kind === "tag") === (output.role === Role.TAG) && (output.key || output.name) === name,
  );
}

/** The same by the text of a query, for rows that were read back from a sink. */
export function asSelected(table: Table, sql: string): Table {
  return ordered(table, selected(sql), (name, column) =>
    column.kind === "time"
      ? TIMES.includes(name)
      : unprefixed(name) === unprefixed(column.name.toLowerCase()),
  );
}
/** A tag's name as some sinks have it, without what says in SELECT that it is one. */
export const unprefixed = (name: string): string => name.replace(/^(tag|label)_/, "");
const TIMES = ["window_timestamp", "rowtime", "event_timestamp"];

function ordered<T>(table: Table, wanted: T[], is: (wanted: T, column: Column) => boolean): Table {
  const rank = (at: number): number => {
    const found = wanted.findIndex((each) => is(each, table.columns[at]!));
    return found < 0 ? wanted.length : found;
  };
  const order = table.columns.map((_, at) => at).sort((one, other) => rank(one) - rank(other));
  return {
    columns: order.map((at) => table.columns[at]!),
    rows: table.rows.map((row) => order.map((at) => row[at]!)),
  };
}

export interface Series {
  /** Seconds since 1970. */
  times: number[];
  labels: string[];
  /** Of each label a value for each time; null: no row, which is a gap; undefined: a time of another line alone. */
  values: (number | null | undefined)[][];
  /** How many of them, the last, are of an earlier time: as many of each earlier time as there are of now. */
  ghosts?: number;
}
const MOST = 6;
const REST = "all others";

/**
 * Sums of one column by one tag and time: the largest, and the rest as one; or those of these labels, in their order.
 * times are seconds since 1970.
 */
export function series(table: Table, value: string, by: string, only?: string[]): Series {
  const v = table.columns.findIndex((each) => each.name === value && each.kind === "number");
  const t = table.columns.findIndex((each) => each.kind === "time");
  const b = table.columns.findIndex((each) => each.name === by && each.kind === "tag");
  const sums = new Map<string, Map<number, number>>();
  const times = new Set<number>();
  for (const row of table.rows) {
    const at = row[t];
    const one = row[v];
    if (typeof at !== "number" || (typeof one !== "number" && typeof one !== "bigint")) continue;
    const second = at / 1000;
    const label = b < 0 ? value : String(row[b] ?? "none");
    const known = sums.get(label) ?? new Map<number, number>();
    sums.set(label, known);
    known.set(second, (known.get(second) ?? 0) + Number(one));
    times.add(second);
  }
  const total = (label: string): number =>
    [...sums.get(label)!.values()].reduce((sum, each) => sum + each, 0);
  const ranked = [...sums.keys()].map((label) => [label, total(label)] as const).sort((a, c) => c[1] - a[1]);
  const found = ranked.map(([label]) => label);
  const labels = only
    ? only.filter((label) => label !== REST)
    : found.slice(0, found.length > MOST ? MOST - 1 : MOST);
  if (only ? only.includes(REST) : found.length > MOST) {
    const rest = new Map<number, number>();
    for (const label of found.filter((each) => !labels.includes(each)))
      for (const [at, one] of sums.get(label)!) rest.set(at, (rest.get(at) ?? 0) + one);
    sums.set(REST, rest);
    labels.push(REST);
  }
  const x = withMissing([...times].sort((a, c) => a - c));
  return { times: x, labels, values: labels.map((label) => x.map((at) => sums.get(label)?.get(at) ?? null)) };
}

const LONGEST = 20_000;

/**
 * Times in order, with those at which a window has no rows at all: windows are of one length, so most times are as far
 * apart as the nearest two, and the others a multiple of that. Rows that come at any time miss none.
 */
export function withMissing(times: number[]): number[] {
  const steps = times.slice(1).map((time, at) => time - times[at]!);
  const step = Math.min(...steps);
  const even = steps.filter((each) => each === step).length;
  const whole = steps.every((each) => Number.isInteger(each / step));
  if (even * 2 < steps.length || even < 2 || !whole) return times;
  const all: number[] = [];
  for (let at = times[0]!; at <= times.at(-1)! && all.length < LONGEST; at += step) all.push(at);
  return all;
}

/** The series of an earlier time. */
export interface Earlier {
  series: Series;
  /** How many seconds before. */
  later: number;
  /** What stands behind its labels. */
  suffix: string;
}

/** Series with those of earlier times behind them, as if they were of now. */
export function overlaid(now: Series, earlier: Earlier[]): Series {
  const all = [{ series: now, later: 0, suffix: "" }, ...earlier];
  const times = [...new Set(all.flatMap((one) => one.series.times.map((each) => each + one.later)))].sort(
    (a, b) => a - b,
  );
  return {
    times,
    labels: all.flatMap((one) => one.series.labels.map((each) => each + (one.suffix && `, ${one.suffix}`))),
    values: all.flatMap((one) =>
      one.series.values.map((values) => {
        const known = new Map(one.series.times.map((time, at) => [time + one.later, values[at]]));
        return times.map((time) => known.get(time));
      }),
    ),
    ghosts: earlier.reduce((sum, one) => sum + one.series.labels.length, 0),
  };
}

/** The places of values that stand alone between gaps: a line has no length there. */
export const alone = (values: readonly (number | null | undefined)[]): number[] => {
  const known = (place: number, by: number): boolean => {
    for (let at = place + by; at >= 0 && at < values.length; at += by)
      if (values[at] !== undefined) return values[at] !== null;
    return false;
  };
  return values.flatMap((value, at) => (value != null && !known(at, -1) && !known(at, 1) ? [at] : []));
};

const key = (row: Row): string =>
  row.key || `${row.time?.seconds}.${row.time?.nanos} ${JSON.stringify(Object.entries(row.tags).sort())}`;

/** The column that is the time of a row, by the text of its query. */
export const timeColumn = (sql: string): string =>
  /\bwindow_timestamp\b/i.test(sql) ? "window_timestamp" : "rowtime";

/** Rows with those that are new or have changed, newest first, at most so many. */
export function merged(rows: Row[], fresh: Row[], most: number): Row[] {
  const known = new Map(rows.map((row) => [key(row), row]));
  for (const row of fresh) known.set(key(row), row);
  return [...known.values()].sort((a, b) => (ms(b.time) ?? 0) - (ms(a.time) ?? 0)).slice(0, most);
}
