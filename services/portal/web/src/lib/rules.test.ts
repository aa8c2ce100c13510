import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { durationFromMs, timestampFromMs } from "@bufbuild/protobuf/wkt";
import { describe, expect, it } from "vitest";
import { AlertSchema } from "../gen/daggers/v1/alert_service_pb.ts";
import {
  type Finding,
  FindingSchema,
  OutputColumn_Role as Role,
  OutputColumnSchema,
  Severity,
} from "../gen/daggers/v1/findings_pb.ts";
import {
  type AlertRule,
  AlertRuleSchema,
  RuleLimitsSchema,
  RuleSeverity,
} from "../gen/daggers/v1/rules_pb.ts";
import { LearningRuleSchema } from "../gen/daggers/v1/telemetry_pb.ts";
import { zoned } from "./format.ts";
import * as rules from "./rules.ts";

const rule = (fields: MessageInitShape<typeof AlertRuleSchema> = {}): AlertRule =>
  create(AlertRuleSchema, fields);
const finding = (field: string, code: string, message: string, more: object = {}): Finding =>
  create(FindingSchema, { field, code, message, severity: Severity.ERROR, ...more });

describe("for how long a rule is true", () => {
  it.each([
    [rule(), "", "windows", "1 window"],
    [rule({ forWindows: 3 }), "3", "windows", "3 windows"],
    [rule({ forTime: durationFromMs(600_000) }), "10", "minutes", "10 min"],
    [rule({ forTime: durationFromMs(90_000) }), "90", "seconds", "1 min"],
    [rule({ forTime: durationFromMs(7_200_000) }), "2", "hours", "2 h"],
    [rule({ forTime: durationFromMs(500) }), "0.5", "seconds", "0 s"],
  ])("%# is read and written back", (one, amount, unit, text) => {
    expect(rules.unitOf(one)).toBe(unit);
    expect(rules.amountOf(one, unit)).toBe(amount);
    expect(rules.holdText(one)).toBe(text);
    expect(rules.withHold(one, amount, unit)).toEqual(one);
  });
  it("is one window for anything but a number above 0", () => {
    for (const text of ["", "0", "-3", "soon"])
      expect(rules.withHold(rule({ forWindows: 3 }), text, "windows")).toEqual(rule());
    expect(rules.withHold(rule(), "0.2", "windows").forWindows).toBe(1);
    expect(rules.withHold(rule(), "1e12", "windows").forWindows).toBe(2 ** 32 - 1);
  });
  it("is counted in another unit without another amount", () => {
    const minutes = rules.withHold(rule({ forWindows: 5 }), "5", "minutes");
    expect([minutes.forWindows, rules.amountOf(minutes, "minutes")]).toEqual([0, "5"]);
    expect(rules.withHold(minutes, "5", "windows")).toEqual(rule({ forWindows: 5 }));
  });
});

it("fires by a condition or by a silence, and says nothing of the other", () => {
  const busy = rule({ when: "n > 3", forWindows: 2, clear: 0.2, key: ["tag_city"], summary: "{n}" });
  const silent = rules.withKind(busy, "silence");
  expect([rules.kindOf(busy), rules.kindOf(silent)]).toEqual(["condition", "silence"]);
  expect(silent).toEqual(rule({ absent: durationFromMs(600_000), key: ["tag_city"], summary: "{n}" }));
  expect([rules.causeText(silent), rules.holdText(silent)]).toEqual(["no row for 10 min", "–"]);
  expect(rules.silenceOf(silent)).toEqual(["10", "minutes"]);
  const shorter = rules.withSilence(silent, rules.timeOf("90", "seconds"));
  expect(rules.silenceOf(shorter)).toEqual(["90", "seconds"]);
  for (const text of ["", "-3", "x"])
    expect(rules.withSilence(silent, rules.timeOf(text, "hours")).absent).toEqual(durationFromMs(0));
  expect(rules.withKind(silent, "condition")).toEqual(rule({ key: ["tag_city"], summary: "{n}" }));
  expect([rules.causeText(busy), rules.causeText(rule())]).toEqual(["n > 3", "–"]);
});

it("says which table has the limits of a rule, and that it has too little past", () => {
  const limits = create(RuleLimitsSchema, { reference: "own", key: ["tag_city", "tag_kind"] });
  expect(rules.causeText(rule({ when: "n > most", limits }))).toBe(
    "n > most, limits of own by tag_city, tag_kind",
  );
  const learning = [
    create(LearningRuleSchema, { rule: "jump", until: timestampFromMs(Date.UTC(2026, 0, 8, 12)) }),
    create(LearningRuleSchema, { rule: "odd" }),
  ];
  expect(rules.learningText(learning, "jump")).toBe(`learning until ${zoned(Date.UTC(2026, 0, 8, 12))}`);
  expect(rules.learningText(learning, "odd")).toBe("learning: there was no window yet");
  expect(rules.learningText(learning, "busy")).toBe("");
});

describe("the end of an incident", () => {
  it("is said in one of three ways, and not in two", () => {
    const share = rules.withEnding(rule({ resolveWhen: "n < 2" }), "share", "7");
    expect([rules.endingOf(share), share.resolveWhen, rules.percentOf(share)]).toEqual(["share", "", "7"]);
    const condition = rules.withEnding(share, "condition", "n < 1");
    expect([rules.endingOf(condition), condition.clear]).toEqual(["condition", 0]);
    expect(rules.withEnding(condition, "false", "")).toEqual(rule());
    expect(rules.percentOf(rule())).toBe("");
  });
});

it("what these pages do not know of a rule stays in it", () => {
  const unknown = [{ no: 99, wireType: 0, data: new Uint8Array([1]) }];
  const one = { ...rule({ name: "silent" }), $unknown: unknown };
  const changed = rules.withKey(
    rules.withEnding(rules.withHold(one, "2", "hours"), "share", "5"),
    "city",
    true,
  );
  expect(changed.$unknown).toEqual(unknown);
  expect(rules.withRule([one], 0, changed)[0]!.$unknown).toEqual(unknown);
});

describe("a line of a chart", () => {
  const of = (column: string, above: boolean, value: number): AlertRule =>
    rules.limitRule([rule({ name: "orders_high" })], { column, above, value });
  it("is a rule with a name of its own", () => {
    expect(of("orders", true, 40)).toMatchObject({ name: "orders_high_2", when: "orders > 40" });
    expect(of("Mean fare", false, -1.5)).toMatchObject({ name: "mean_fare_low", when: "`Mean fare` < -1.5" });
    expect(of("größe", true, 1)).toMatchObject({ name: "gr__e_high", when: "`größe` > 1" });
    expect(of("1st", true, 1).name).toBe("rule_1");
  });
  it("has each digit of its number", () => {
    expect([1e21, 1e-7, 0.05, 12_000, -2.5e-8].map(rules.decimal)).toEqual([
      "1000000000000000000000",
      "0.0000001",
      "0.05",
      "12000",
      "-0.000000025",
    ]);
  });
  it("is of the column that the query has, whatever a sink calls it", () => {
    const sql = "SELECT city AS tag_city, sum(x) AS label_amount, TUMBLE_END(a) AS window_timestamp FROM t";
    expect(["amount", "tag_city", "other"].map((each) => rules.columnOf(sql, each))).toEqual([
      "label_amount",
      "tag_city",
      "other",
    ]);
  });
  it("is drawn on the first column that a condition names", () => {
    const columns = ["n", "mean_fare", "mean"];
    expect(rules.readColumn(rule({ when: "MEAN > 3 AND tag = 'n'" }), columns)).toBe("mean");
    expect(rules.readColumn(rule({ when: "`mean` > 3" }), columns)).toBe("mean");
    expect([rules.readColumn(undefined, columns), rules.readColumn(rule(), [])]).toEqual(["n", ""]);
  });
});

it("a key is made of all columns but the time, and by default of tags", () => {
  const columns = [
    create(OutputColumnSchema, { name: "tag_city", role: Role.TAG }),
    create(OutputColumnSchema, { name: "n", role: Role.FIELD }),
    create(OutputColumnSchema, { name: "window_timestamp", role: Role.TIME }),
  ];
  expect([rules.keyColumns(columns), rules.tagColumns(columns)]).toEqual([["tag_city", "n"], ["tag_city"]]);
});

describe("what is wrong with rules", () => {
  const list = [rule({ name: "busy", when: "nn > 3" }), rule()];
  const missing = [
    finding("spec.alerts[1].when", "REQUIRED", "is required: a condition over the query's columns"),
    finding("spec.alerts[1].name", "INVALID_NAME", "must be 3 to 63 of a-z, 0-9, _ and -"),
  ];
  const unknown = finding("spec.alerts[0].when", "UNKNOWN_COLUMN", "there is no column nn", { line: 1 });
  const elsewhere = finding("spec.sql", "SYNTAX_ERROR", "unexpected FROM", { line: 1 });
  const warning = finding("spec.alerts[0].when", "SLOW", "is slow", { severity: Severity.WARNING });
  it("is not what nobody has typed yet", () => {
    expect(rules.faults([unknown, ...missing, elsewhere, warning], list, false)).toEqual([unknown]);
    expect(rules.faults([unknown, ...missing, elsewhere], list, true)).toEqual([unknown, ...missing]);
  });
  it("is one sentence that names the part where its own does not", () => {
    const twice = finding("spec.alerts[0].name", "DUPLICATE", "busy is the name of 2 rules");
    const time = finding(
      "spec.alerts[0].for_time",
      "CONFLICT",
      "is said as windows already: say one of both",
    );
    expect([...missing, unknown, twice, time].map(rules.faultText)).toEqual([
      "The condition is required: a condition over the query's columns.",
      "The name must be 3 to 63 of a-z, 0-9, _ and -.",
      "There is no column nn.",
      "Busy is the name of 2 rules.",
      "The time is said as windows already: say one of both.",
    ]);
  });
});

it("what fires is of the rule's name, and a rule without a severity is a warning", () => {
  const open = ["busy", "slow", ""].map((each) => create(AlertSchema, { dagger: "rides", rule: each }));
  expect(rules.firing(open, "busy").map((each) => each.rule)).toEqual(["busy"]);
  expect(rules.severityName(rule())).toBe("warning");
  expect(rules.severityName(rule({ severity: RuleSeverity.CRITICAL }))).toBe("critical");
});
