import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import {
  FindingSchema,
  type OutputColumn,
  OutputColumnSchema,
  OutputColumn_Role as Role,
  Severity,
} from "../gen/daggers/v1/findings_pb.ts";
import { type AlertRule, AlertRuleSchema } from "../gen/daggers/v1/rules_pb.ts";
import * as limits from "./rulelimits.ts";
import { faults, faultText, withKind } from "./rules.ts";
import { templates } from "./ruletemplates.ts";

const rule = (fields: MessageInitShape<typeof AlertRuleSchema> = {}): AlertRule =>
  create(AlertRuleSchema, fields);
const column = (name: string, type: string, role: Role): OutputColumn =>
  create(OutputColumnSchema, { name, type, role });
const COLUMNS = [
  column("tag_city", "bigint", Role.TAG),
  column("Mean fare", "decimal(10,2)", Role.FIELD),
  column("orders", "bigint", Role.FIELD),
  column("window_timestamp", "timestamp", Role.TIME),
];

it("a table's key is the one tag of the query, and the tags are not guessed among several", () => {
  expect(limits.withTable(rule(), "own", ["tag_city"])).toEqual(
    rule({ limits: { reference: "own", key: ["tag_city"] } }),
  );
  expect(limits.withTable(rule(), "own", ["tag_city", "tag_kind"]).limits!.key).toEqual([]);
});

it("another table leaves key and columns, and what these pages do not know, as they were", () => {
  const unknown = [{ no: 99, wireType: 0, data: new Uint8Array([1]) }];
  const one = rule({ when: "n > most", limits: { reference: "own", key: ["a"], columns: ["most"] } });
  one.limits!.$unknown = unknown;
  const other = limits.withTable(one, "other", ["tag_city"]);
  expect([other.limits!.reference, other.limits!.key, other.limits!.columns]).toEqual([
    "other",
    ["a"],
    ["most"],
  ]);
  expect(limits.withLimitColumns(limits.withLimitKey(other, "b", true), "x").limits!.$unknown).toEqual(
    unknown,
  );
  expect(limits.withTable(other, "", [])).toEqual(rule({ when: "n > most" }));
});

it("the columns of a key stand in the order in which they are chosen", () => {
  const one = limits.withLimitKey(limits.withTable(rule(), "own", ["tag_city"]), "kind", true);
  expect(limits.keyForm(one.limits!)).toBe("tag_city/kind");
  const last = limits.withLimitKey(limits.withLimitKey(one, "tag_city", false), "tag_city", true);
  expect(limits.keyForm(last.limits!)).toBe("kind/tag_city");
  expect(limits.withLimitKey(rule(), "kind", true)).toEqual(rule());
});

it("the columns of a table are separated by commas, and are `limit` where none is named", () => {
  const one = limits.withTable(rule(), "own", []);
  expect(limits.withLimitColumns(one, "most, least,").limits!.columns).toEqual(["most", "least"]);
  expect([rule(), one, limits.withLimitColumns(one, "most least")].map(limits.limitColumns)).toEqual([
    [],
    ["limit"],
    ["most", "least"],
  ]);
});

it("a rule on missing rows has no limits", () => {
  const one = rule({ when: "n > most", limits: { reference: "own", key: ["a"] } });
  expect(withKind(one, "silence").limits).toBeUndefined();
});

it("what is wrong with limits names their part, and a key that nobody has chosen yet is no mistake", () => {
  const finding = (part: string, code: string, message: string) =>
    create(FindingSchema, {
      field: `spec.alerts[0].limits.${part}`,
      code,
      message,
      severity: Severity.ERROR,
    });
  const key = finding("key", "REQUIRED", "is required: columns of the query, a key of the table");
  const place = finding("columns[0]", "INVALID_NAME", "must be a letter or _, then letters, digits and _");
  const list = [limits.withTable(rule({ name: "busy", when: "n > 1" }), "own", [])];
  expect(faults([key, place], list, false)).toEqual([place]);
  expect(faults([key, place], list, true).map(faultText)).toEqual([
    "The key of the table is required: columns of the query, a key of the table.",
    "The columns of the table must be a letter or _, then letters, digits and _.",
  ]);
  expect(faults([key], [limits.withLimitKey(list[0]!, "a", true)], false)).toEqual([key]);
});

it("templates are of the number that the condition names, or else of the first one", () => {
  const texts = (of: AlertRule): string[] => templates(of, COLUMNS).map(([, when]) => when);
  expect(texts(rule())[0]).toBe("`Mean fare` > 1.5 * before('1d', `Mean fare`)");
  expect(texts(rule({ when: "orders > 3" }))).toEqual([
    "orders > 1.5 * before('1d', orders)",
    "orders < 0.5 * before('7d', orders)",
    "outside(orders, band => 4, season => 'hour of week')",
  ]);
  expect(texts(limits.withTable(rule({ when: "orders > 3" }), "own", []))[0]).toBe("orders > `limit`");
  expect(templates(rule(), COLUMNS.slice(0, 1))).toEqual([]);
});
