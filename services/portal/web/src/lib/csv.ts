import type { Cell, Table } from "./rows.ts";

const quoted = (text: string): string => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

function written(cell: Cell, kind: string): string {
  if (cell === null) return "";
  return kind === "time" && typeof cell === "number" ? new Date(cell).toISOString() : quoted(String(cell));
}

/** A table as CSV (RFC 4180): numbers with every digit, times in ISO 8601, NULL as nothing. */
export const csv = ({ columns, rows }: Table): string =>
  [
    columns.map((each) => quoted(each.name)),
    ...rows.map((row) => row.map((cell, at) => written(cell, columns[at]!.kind))),
  ]
    .map((cells) => `${cells.join(",")}\r\n`)
    .join("");
