import { describe, expect, it } from "vitest";
import { choose, LEVELS, withLevels } from "./loglevels.ts";

const TEXTS = [
  "2026-11-26T07:45:56.391Z INFO runtime: batch rows=1 detail='no ERROR here'",
  "2026-11-26T07:45:57.000Z WARNING runtime: it is late",
  "26/11/26 07:45:58 ERROR Executor: Exception in task 0.0",
  "java.lang.IllegalStateException: no",
  "\tat org.apache.spark.Executor.run(Executor.scala:1)",
  "26/11/26 07:45:59 WARN TaskSetManager: Lost task",
  "2026-11-26T07:46:00.000Z INFO runtime: batch",
];
const lines = withLevels(TEXTS);

describe("lines of a log", () => {
  it("have the level that they name, and those of a trace that of its first", () =>
    expect(lines.map((each) => each.level)).toEqual([
      "",
      "warning",
      "error",
      "error",
      "error",
      "warning",
      "",
    ]));
  it("go on where they were cut", () =>
    expect(withLevels(["\tat one", "x"], "error").map((each) => each.level)).toEqual(["error", "error"]));
  it("are chosen by level and text", () => {
    const count = (title: string, text = ""): number =>
      choose(lines, LEVELS.find((each) => each[0] === title)![1], text).length;
    expect([count("all lines"), count("warnings and errors"), count("errors")]).toEqual([7, 5, 3]);
    expect(count("errors", "ILLEGALSTATE")).toBe(1);
  });
});
