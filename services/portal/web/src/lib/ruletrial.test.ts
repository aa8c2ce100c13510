import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { describe, expect, it } from "vitest";
import {
  type PreviewDone,
  PreviewDone_Empty as Empty,
  PreviewDoneSchema,
  type PreviewRule,
  PreviewRuleSchema,
} from "../gen/daggers/v1/preview_pb.ts";
import { type RuleObserved, RuleObservedSchema, RuleState } from "../gen/daggers/v1/rules_pb.ts";
import { several, zoned } from "./format.ts";
import { bands, incidents, keyText, notes, outcome } from "./ruletrial.ts";

const NOON = Date.UTC(2026, 0, 1, 12);
const MINUTE = 60_000;
const at = (minute: number) => timestampFromMs(NOON + minute * MINUTE);
const observe = (state: RuleState, city: string, minute: number, more: object = {}): RuleObserved =>
  create(RuleObservedSchema, {
    rule: "busy",
    key: { tag_city: city },
    state,
    window: at(minute),
    since: at(minute),
    ...more,
  });
const ended = (rules: PreviewRule[], more: object = {}): PreviewDone =>
  create(PreviewDoneSchema, { rules: { rules, until: at(30) }, ...more });
// As tests of the command have it (cli/tests/test_cli_rule_test.py).
const BUSY = create(PreviewRuleSchema, {
  rule: "busy",
  observed: [
    observe(RuleState.FIRED, "oslo", 1),
    observe(RuleState.FIRED, "rome", 10),
    observe(RuleState.CHANGED, "rome", 12),
    observe(RuleState.RESOLVED, "oslo", 5),
    observe(RuleState.RESOLVED, "bali", 6),
  ],
});
const NEVER = create(PreviewRuleSchema, {
  rule: "never",
  nearest: 0.043,
  limit: 0.05,
  nearestWindow: at(0),
});

describe("a test of rules", () => {
  it("pairs each firing with its end, by key", () => {
    expect(incidents(BUSY).map(({ fired, since, until }) => [keyText(fired), since, until])).toEqual([
      ["tag_city=oslo", NOON + MINUTE, NOON + 5 * MINUTE],
      ["tag_city=rome", NOON + 10 * MINUTE, null],
    ]);
  });
  it("says how often, and for how long in all", () => {
    const done = ended([BUSY]);
    expect(outcome(BUSY, incidents(BUSY), done)).toBe("would have fired 2 times, 24 min in all");
    expect(outcome(BUSY, incidents(BUSY).slice(0, 1), done)).toBe("would have fired once, 4 min in all");
  });
  it("says how near it came where it never fired, and that nothing matched", () => {
    const near = `never fired: nearest 0.043 of 0.05 at ${zoned(NOON)}`;
    expect(outcome(NEVER, [], ended([NEVER]))).toBe(near);
    expect(outcome(create(PreviewRuleSchema), [], ended([]))).toBe("never fired");
    const nothing = ended([NEVER], { empty: Empty.FILTERED });
    expect(outcome(NEVER, [], nothing)).toBe("no data matched");
  });
  it("says of all further keys how many they are, and of none nothing", () => {
    expect(keyText(create(RuleObservedSchema, { others: 1_200n }))).toMatch(/^1.200 further keys$/);
    expect(keyText(create(RuleObservedSchema, { key: { b: "2", a: "1" } }))).toBe("a=1 b=2");
    expect(keyText(create(RuleObservedSchema))).toBe("");
  });
  it("says up to when windows were judged, what is left out, and a host that cannot", () => {
    const many = create(PreviewRuleSchema, { rule: "busy", observedLeftOut: 12n });
    expect(notes(ended([many]))).toEqual([
      `Windows up to ${zoned(NOON + 30 * MINUTE)} were judged.`,
      "Further firings and ends of busy are left out: 12.",
    ]);
    expect(notes(create(PreviewDoneSchema))[0]).toContain("an earlier version");
  });
});

it("bands of a chart join where incidents overlap, and what is open goes to the end", () => {
  const span = (since: number, until: number | null) => ({
    fired: create(RuleObservedSchema),
    since: since * 1000,
    until: until === null ? null : until * 1000,
  });
  expect(bands([span(10, 20), span(15, 18), span(20, 30), span(40, null)], 60_000)).toEqual([
    [10, 30],
    [40, 60],
  ]);
  expect(bands([span(70, null)], 60_000)).toEqual([[70, 70]]);
});

it.each([
  [0, "0 s"],
  [41 * MINUTE, "41 min"],
  [84 * MINUTE, "1 h 24 min"],
  [3_605_000, "1 h"],
  [27 * 60 * MINUTE, "1 day 3 h"],
])("%i ms are %s", (span, text) => expect(several(span)).toBe(text));
