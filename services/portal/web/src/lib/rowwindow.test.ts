import { describe, expect, it } from "vitest";
import { columnsIn, rowWindow } from "./rowwindow.ts";

describe("the rows that are drawn", () => {
  const unknown = (): undefined => undefined;
  it("are those that are seen, and pixels stand for all others", () => {
    expect(rowWindow(100, unknown, 10, 200, 300)).toEqual({ first: 20, last: 30, before: 200, behind: 700 });
  });
  it("are all of a short list", () => {
    expect(rowWindow(3, unknown, 10, -50, 300)).toEqual({ first: 0, last: 3, before: 0, behind: 0 });
    expect(rowWindow(0, unknown, 10, 0, 300)).toEqual({ first: 0, last: 0, before: 0, behind: 0 });
  });
  it("have the last one, where a list has become shorter than where one was", () => {
    expect(rowWindow(5, unknown, 10, 900, 1_000)).toEqual({ first: 4, last: 5, before: 40, behind: 0 });
  });
  it("are found by heights that were drawn, and others are as high as these", () => {
    const heights = [30, 10, 20];

    expect(rowWindow(10, (row) => heights[row], 1, 40, 80)).toEqual({
      first: 2,
      last: 4,
      before: 40,
      behind: 120,
    });
  });
  it("are never none of a list that has some", () => {
    for (let top = -100; top < 500; top += 7) {
      const { first, last, before, behind } = rowWindow(30, unknown, 10, top, top + 1);

      expect(last).toBeGreaterThan(first);
      expect(before + behind + (last - first) * 10).toBe(300);
    }
  });
});

it("as many columns stand beside each other as there is room for", () => {
  expect(columnsIn(1_210, 330, 14)).toBe(3);
  expect(columnsIn(1_018, 330, 14)).toBe(3);
  expect(columnsIn(1_017, 330, 14)).toBe(2);
  expect(columnsIn(300, 330, 14)).toBe(1);
});
