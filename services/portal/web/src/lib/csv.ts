import type { Cell, Table } from "./rows.ts";

/** What a spreadsheet takes for a formula: its first character, also as East Asian keyboards write it. */
const FORMULA = /^[=+\-@\t\r\n＝＋－＠]/;
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

/** A text that no spreadsheet runs: records are written by anybody, and the file is opened by whoever saves it. */
const guarded = (text: string): string => (FORMULA.test(text) && !NUMBER.test(text) ? `'${text}` : text);
const quoted = (text: string): string => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

function written(cell: Cell, kind: string): string {
  if (cell === null) return "";
  if (kind === "time" && typeof cell === "number") return new Date(cell).toISOString();
  return typeof cell === "string" ? quoted(guarded(cell)) : String(cell);
}

/**
 * A table as CSV (RFC 4180): numbers with every digit, times in ISO 8601, NULL as nothing; a text that a spreadsheet
 * would run as a formula has an apostrophe before it.
 */
export const csv = ({ columns, rows }: Table): string =>
  [
    columns.map((each) => quoted(guarded(each.name))),
    ...rows.map((row) => row.map((cell, at) => written(cell, columns[at]!.kind))),
  ]
    .map((cells) => `${cells.join(",")}\r\n`)
    .join("");
