import { type OutputColumn, OutputColumn_Role as Role } from "../gen/daggers/v1/findings_pb.ts";
import type { AlertRule } from "../gen/daggers/v1/rules_pb.ts";
import { limitColumns } from "./rulelimits.ts";
import { quoted, readColumn } from "./rules.ts";

/** A condition to begin with: how it is called, and its text. */
export type Template = readonly [title: string, when: string];

const NUMBER = /^((tiny|small|big)?int|float|double|decimal)\b/i;
/** The fields that are numbers: ids are tags. */
const numbers = (columns: readonly OutputColumn[]): string[] =>
  columns.filter(({ role, type }) => role === Role.FIELD && NUMBER.test(type)).map(({ name }) => name);

/** Conditions over the number that a rule reads, or else the first one; none while the columns are not known. */
export function templates(rule: AlertRule, columns: readonly OutputColumn[]): Template[] {
  const number = readColumn(rule, numbers(columns));
  if (!number) return [];
  const [column, limit] = [quoted(number), limitColumns(rule)[0]];
  const past: Template[] = [
    ["more than 1.5 times a day before", `${column} > 1.5 * before('1d', ${column})`],
    ["less than half a week before", `${column} < 0.5 * before('7d', ${column})`],
    ["unusual for the hour of the week", `outside(${column}, band => 4, season => 'hour of week')`],
  ];
  // In backticks, as `limit` is a word of the language.
  return limit ? [["above the limit of the table", `${column} > \`${limit}\``], ...past] : past;
}
