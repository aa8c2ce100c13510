import { create } from "@bufbuild/protobuf";
import {
  type DaggerSpec,
  ExpectedOutputSchema,
  GivenRecordsSchema,
  type QueryTest,
  QueryTestSchema,
} from "../gen/daggers/v1/spec_pb.ts";
import {
  type TestDifference,
  TestDifference_Kind as Kind,
  type TestProgress,
  type TestResult,
} from "../gen/daggers/v1/query_tests_pb.ts";
import { tableOf } from "./draft.ts";
import { count, many } from "./format.ts";
import { doing } from "./preview.ts";

const MASKED = "(masked)";

/** The JSON objects of a text, each as it stands: numbers of 64 bits lose no digit. What is no object is one, too, for
 * the gateway to refuse; brackets and commas between them are left out, so that a list may be pasted. */
export function objects(text: string): string[] {
  const found: string[] = [];
  let depth = 0;
  let begin = 0;
  const take = (end: number): void => {
    const one = text.slice(begin, end).trim();
    if (one && !/^[\s,[\]]*$/.test(one)) found.push(one.replace(/^[\s,[\]]+/, ""));
    begin = end;
  };
  for (const part of text.matchAll(/"(?:[^"\\]|\\.)*"?|[{}]|\n/g)) {
    const at = part.index;
    if (part[0] === "{" && depth++ === 0) take(at);
    else if (part[0] === "}" && depth > 0 && --depth === 0) take(at + 1);
    else if (part[0] === "\n" && depth === 0) take(at);
  }
  take(text.length);
  return found;
}

/** Objects as a text, one a line where they are short. */
export const lines = (each: string[]): string => each.join("\n");

/** A test that nobody has filled in yet: each table of the query without a record. */
export function blank(spec: DaggerSpec): QueryTest {
  const names = new Set(spec.tests.map((each) => each.name));
  let number = spec.tests.length + 1;
  while (names.has(`Test ${number}`)) number++;
  return create(QueryTestSchema, {
    name: `Test ${number}`,
    given: spec.streams.map((each) => create(GivenRecordsSchema, { table: tableOf(each) })),
    expect: create(ExpectedOutputSchema, {}),
  });
}

/** A specification with its test at a place changed; null: without it. */
export const withTest = (spec: DaggerSpec, at: number, test: QueryTest | null): DaggerSpec => ({
  ...spec,
  tests: spec.tests.flatMap((each, place) => (place !== at ? [each] : test ? [test] : [])),
});

/** A test with other records of a table. */
export function withRecords(test: QueryTest, table: string, records: string[]): QueryTest {
  const others = test.given.filter((each) => each.table !== table);
  const own = create(GivenRecordsSchema, { table, records });
  const at = test.given.findIndex((each) => each.table === table);
  const given = at < 0 ? [...others, own] : test.given.map((each) => (each.table === table ? own : each));
  return { ...test, given };
}

/** The records of a table that a test has. */
export const recordsOf = (test: QueryTest, table: string): string[] =>
  test.given.find((each) => each.table === table)?.records ?? [];

/** A test that expects something else. */
export const expecting = (test: QueryTest, change: Partial<NonNullable<QueryTest["expect"]>>): QueryTest => ({
  ...test,
  expect: { ...(test.expect ?? create(ExpectedOutputSchema, {})), ...change },
});

/** How many quarantined records a test expects, of another count for one reason. */
export function quarantining(test: QueryTest, reason: string, number: number): QueryTest {
  const { [reason]: _, ...others } = test.expect?.quarantined ?? {};
  return expecting(test, { quarantined: number > 0 ? { ...others, [reason]: BigInt(number) } : others });
}

/** A record as it was shown, without what was masked. */
export function unmasked(json: string): string {
  if (!json.includes(MASKED)) return json;
  const drop = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(drop);
    if (value === null || typeof value !== "object") return value;
    const kept = Object.entries(value).filter(([, inner]) => inner !== MASKED);
    return Object.fromEntries(kept.map(([name, inner]) => [name, drop(inner)]));
  };
  return JSON.stringify(drop(JSON.parse(json)));
}

/** How far the tests are, in words. */
export const progress = (at: TestProgress | null): string =>
  at
    ? `Test ${count(at.finished + 1)} of ${count(at.total)}: ${at.test}. ${at.engine ? doing(at.engine) : ""}`
    : "Asked …";

/** What became of a test, in a few words. */
export function verdict(result: TestResult): string {
  const took = `${count(Number(result.tookMs) / 1000)} s`;
  if (result.error) return `Could not be run, ${took}`;
  return result.passed
    ? `${many(result.rows, "row")}, ${took}`
    : `${many(result.differencesTotal, "difference")}, ${took}`;
}

/** A row that differs, column by column: what was expected, what came, and whether that is another. */
export interface Compared {
  column: string;
  expected: string;
  actual: string;
  differs: boolean;
}

/** The columns of a row that differs; none of a count. */
export function compared(difference: TestDifference): Compared[] {
  if (difference.kind === Kind.QUARANTINED || difference.kind === Kind.LATE) return [];
  const expected = members(difference.expected);
  const actual = members(difference.actual);
  const columns = [...new Set([...expected.keys(), ...actual.keys()])];
  return columns.map((column) => ({
    column,
    expected: expected.get(column) ?? "",
    actual: actual.get(column) ?? "",
    differs:
      difference.kind === Kind.ROW_DIFFERS ? difference.columns.includes(column) : !difference.columns.length,
  }));
}

/** The members of a JSON object, each value as its text: numbers of 64 bits keep their digits. */
function members(json: string): Map<string, string> {
  const found = new Map<string, string>();
  if (!json) return found;
  const text = json.trim().slice(1, -1);
  let depth = 0;
  let begin = 0;
  const take = (end: number): void => {
    const part = text.slice(begin, end);
    begin = end + 1;
    const key = /^\s*("(?:[^"\\]|\\.)*")\s*:\s*/.exec(part);
    if (key) found.set(JSON.parse(key[1]!) as string, part.slice(key[0].length).trim());
  };
  for (const part of text.matchAll(/"(?:[^"\\]|\\.)*"|[{}[\],]/g)) {
    if ("{[".includes(part[0])) depth++;
    else if ("}]".includes(part[0])) depth--;
    else if (part[0] === "," && depth === 0) take(part.index);
  }
  take(text.length);
  return found;
}
