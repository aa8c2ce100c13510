import { create } from "@bufbuild/protobuf";
import { type AlertRule, type RuleLimits, RuleLimitsSchema } from "../gen/daggers/v1/rules_pb.ts";
import { names } from "./form.ts";

/** The column that is read where a rule names none, as its field in rules.proto says. */
const DEFAULT_COLUMN = "limit";

/** A rule whose conditions read this reference table; of no name: none. Where the query has one tag, its value is a key. */
export function withTable(rule: AlertRule, reference: string, tags: readonly string[]): AlertRule {
  if (!reference) return { ...rule, limits: undefined };
  const limits = rule.limits ?? create(RuleLimitsSchema, { key: tags.length === 1 ? [...tags] : [] });
  return { ...rule, limits: { ...limits, reference } };
}
/** A rule with a column in the key of its table, or without it; a new one stands last. */
export const withLimitKey = (rule: AlertRule, column: string, on: boolean): AlertRule =>
  changed(rule, ({ key }) => ({ key: on ? [...key, column] : key.filter((each) => each !== column) }));
/** A rule that reads these columns of its table, separated by commas. */
export const withLimitColumns = (rule: AlertRule, text: string): AlertRule =>
  changed(rule, () => ({ columns: names(text) }));

/** The columns of the table that conditions may name; none without a table. */
export const limitColumns = ({ limits }: AlertRule): string[] =>
  limits ? (limits.columns.length ? limits.columns : [DEFAULT_COLUMN]) : [];
/** What a key of the table looks like: city/kind. */
export const keyForm = ({ key }: RuleLimits): string => key.join("/");
/** The reference table that has the limits of a rule, as the end of a line. */
export const limitsText = ({ limits }: AlertRule): string =>
  limits ? `, limits of ${limits.reference} by ${limits.key.join(", ")}` : "";

/** A rule with parts of its limits changed; one without limits stays as it is. */
function changed(rule: AlertRule, change: (limits: RuleLimits) => Partial<RuleLimits>): AlertRule {
  return rule.limits ? { ...rule, limits: { ...rule.limits, ...change(rule.limits) } } : rule;
}
