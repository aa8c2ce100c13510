import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { describe, expect, it } from "vitest";
import { type Dagger, DaggerSchema, Phase } from "../gen/daggers/v1/dagger_pb.ts";
import { COLUMNS, parseSort, sorted, turn, writeSort } from "./columns.ts";

const dagger = (name: string, phase: Phase, vitals?: object): Dagger =>
  create(DaggerSchema, { name, phase, spec: { team: "pricing" }, vitals });
const DAGGERS = [
  dagger("silent", Phase.PENDING),
  dagger("b", Phase.RUNNING, { lag: 1_000n, rowsPerS: 2 }),
  dagger("a", Phase.FAILED, {
    lag: 90n,
    freshness: { influx: { rows: 9n, p95Ms: 1_500n }, kafka: { rows: 9n, p95Ms: 900n } },
  }),
  dagger("c", Phase.RUNNING, { lag: 90n }),
];
const by = (text: string): string[] => sorted(DAGGERS, parseSort(text)).map((each) => each.name);

describe("the table of daggers", () => {
  it("begins with what needs somebody", () => expect(by("")).toEqual(["a", "b", "c", "silent"]));
  it("is sorted by a number as a number, what is not known last either way", () => {
    expect(by("lag")).toEqual(["a", "c", "b", "silent"]);
    expect(by("-lag")).toEqual(["b", "a", "c", "silent"]);
  });
  it("is sorted by name and state", () => {
    expect(by("-name")).toEqual(["silent", "c", "b", "a"]);
    expect(by("-state")).toEqual(["silent", "b", "c", "a"]);
  });
  it("shows what is not known as such, and of several sinks the slowest", () => {
    const show = (name: string): string[] =>
      COLUMNS.map((each) =>
        each.show(
          DAGGERS.find((one) => one.name === name)!,
          0,
        ),
      );
    expect(show("silent").slice(3)).toEqual(["–", "–", "–", "–", "–", "–"]);
    expect(show("b")[3]).toBe("120");
    expect(show("a")[5]).toBe("1.5 s");
    const old = create(DaggerSchema, { name: "old", updateTime: timestampFromMs(0) });
    expect(COLUMNS.at(-1)!.show(old, 7_200_000)).toBe("2 h ago");
  });
});

describe("a press on a head", () => {
  const [name, lag] = [parseSort("name")!.column, parseSort("lag")!.column];
  it("sorts, turns and ends: numbers by the greatest first", () => {
    const pressed = (column: typeof lag) => {
      const first = turn(null, column);
      const second = turn(first, column);
      return [first, second, turn(second, column)].map(writeSort);
    };
    expect(pressed(lag)).toEqual(["-lag", "lag", ""]);
    expect(pressed(name)).toEqual(["name", "-name", ""]);
  });
  it("begins anew in another column", () => expect(writeSort(turn(parseSort("lag"), name))).toBe("name"));
  it("is none where an address names no column", () => expect(parseSort("shoes")).toBeNull());
});
