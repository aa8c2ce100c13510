import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import {
  TestDifference_Kind as Kind,
  TestDifferenceSchema,
  TestResultSchema,
} from "../gen/daggers/v1/query_tests_pb.ts";
import { begun, choose } from "./draft.ts";
import * as tests from "./querytests.ts";

const spec = choose(begun("pricing", "local"), "bookings", true);

describe("records of a test", () => {
  it("are the objects of a text, with every digit, however they are divided", () => {
    const big = '{"id": 9007199254740993, "note": "a } {\\" b"}';
    expect(tests.objects(`[${big},\n {\n "a": {"b": []}}]`)).toEqual([big, '{\n "a": {"b": []}}']);
    expect(tests.objects(`${big}\n${big}\n\n`)).toEqual([big, big]);
    expect(tests.objects(" \n")).toEqual([]);
  });
  it("are refused by the gateway where they are no objects: nothing is lost", () => {
    expect(tests.objects('{"a": 1}\nseven\n{"b": ')).toEqual(['{"a": 1}', "seven", '{"b":']);
  });
  it("lose what was masked, and nothing else", () => {
    expect(tests.unmasked('{"a": "(masked)", "b": {"c": "(masked)", "d": 1}}')).toBe('{"b":{"d":1}}');
    expect(tests.unmasked('{"a": 9007199254740993}')).toBe('{"a": 9007199254740993}');
  });
});

describe("a test", () => {
  const one = { ...spec, tests: [tests.blank(spec)] };
  const first = one.tests[0]!;
  it("begins with the tables of the query, and a name of its own", () => {
    expect(first.given.map((each) => each.table)).toEqual(["bookings"]);
    expect(tests.blank(one).name).not.toBe(first.name);
  });
  it("is changed where it stands", () => {
    const filled = tests.withRecords(first, "bookings", ["{}"]);
    expect(tests.recordsOf(filled, "bookings")).toEqual(["{}"]);
    expect(tests.withTest(one, 0, filled).tests[0]!.given[0]!.records).toEqual(["{}"]);
    expect(tests.withTest(one, 0, null).tests).toEqual([]);
    const counted = tests.quarantining(first, "NO_EVENT_TIME", 2);
    expect(counted.expect?.quarantined).toEqual({ NO_EVENT_TIME: 2n });
    expect(tests.quarantining(counted, "NO_EVENT_TIME", 0).expect?.quarantined).toEqual({});
  });
});

describe("what differs", () => {
  it("is told column by column", () => {
    const difference = create(TestDifferenceSchema, {
      kind: Kind.ROW_DIFFERS,
      expected: '{"n": 9007199254740993, "at": "a, b"}',
      actual: '{"city": "x", "n": 9007199254740992, "at": "a, b", "parts": [1, {"a": 2}]}',
      columns: ["n"],
    });
    expect(tests.compared(difference)).toEqual([
      { column: "n", expected: "9007199254740993", actual: "9007199254740992", differs: true },
      { column: "at", expected: '"a, b"', actual: '"a, b"', differs: false },
      { column: "city", expected: "", actual: '"x"', differs: false },
      { column: "parts", expected: "", actual: '[1, {"a": 2}]', differs: false },
    ]);
    expect(
      tests.compared(create(TestDifferenceSchema, { kind: Kind.LATE, expected: "1", actual: "2" })),
    ).toEqual([]);
  });
  it("is counted in a line", () => {
    const result = create(TestResultSchema, { differencesTotal: 2, tookMs: 1500n });
    expect(tests.verdict(result)).toBe("2 differences, 1.5 s");
    expect(tests.verdict({ ...result, passed: true, rows: 3n })).toBe("3 rows, 1.5 s");
    expect(tests.verdict({ ...result, error: "x" })).toBe("Could not be run, 1.5 s");
  });
});
