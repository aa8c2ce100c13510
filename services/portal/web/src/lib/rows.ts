import type { Row, RowField } from "../gen/daggers/v1/output_pb.ts";
import { type OutputColumn, OutputColumn_Role as Role } from "../gen/daggers/v1/findings_pb.ts";
import { ms } from "./format.ts";

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
  const is = (output: OutputColumn, { name, kind }: Column): boolean =>
    output.role === Role.TIME
      ? kind === "time"
      : (kind === "tag") === (output.role === Role.TAG) && (output.key || output.name) === name;
  const rank = (at: number): number => {
    const found = outputs.findIndex((each) => is(each, table.columns[at]!));
    return found < 0 ? outputs.length : found;
  };
  const order = table.columns.map((_, at) => at).sort((one, other) => rank(one) - rank(other));
  return {
    columns: order.map((at) => table.columns[at]!),
    rows: table.rows.map((row) => order.map((at) => row[at]!)),
  };
}

export interface Series {
  times: number[];
  labels: string[];
  values: (number | null)[][];
  /** How many of them, the last, are of an earlier time. */
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
  const x = [...times].sort((a, c) => a - c);
  return { times: x, labels, values: labels.map((label) => x.map((at) => sums.get(label)?.get(at) ?? null)) };
}

/** Series with those of an earlier time behind them, as if they were so many seconds later. */
export function overlaid(now: Series, before: Series, later: number, suffix: string): Series {
  const times = [...new Set([...now.times, ...before.times.map((each) => each + later)])].sort(
    (a, b) => a - b,
  );
  const placed = (of: Series, shift: number) =>
    of.values.map((values) => {
      const known = new Map(of.times.map((time, at) => [time + shift, values[at] ?? null]));
      return times.map((time) => known.get(time) ?? null);
    });
  return {
    times,
    labels: [...now.labels, ...before.labels.map((each) => `${each}, ${suffix}`)],
    values: [...placed(now, 0), ...placed(before, later)],
    ghosts: before.labels.length,
  };
}

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
