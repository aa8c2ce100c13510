import { describe, expect, it } from "vitest";
import { columnsIn, rowWindow } from "./rowwindow.ts";

describe("the rows that are drawn", () => {
  const alike = (): number => 10;
  it("are those that are seen, and pixels stand for all others", () => {
    expect(rowWindow(100, alike, 200, 300)).toEqual({ first: 20, last: 30, before: 200, behind: 700 });
  });
  it("are all of a short list", () => {
    expect(rowWindow(3, alike, -50, 300)).toEqual({ first: 0, last: 3, before: 0, behind: 0 });
    expect(rowWindow(0, alike, 0, 300)).toEqual({ first: 0, last: 0, before: 0, behind: 0 });
  });
  it("have the last one, where a list has become shorter than where one was", () => {
    expect(rowWindow(5, alike, 900, 1_000)).toEqual({ first: 4, last: 5, before: 40, behind: 0 });
  });
  it("are found by the height of each", () => {
    const heights = [30, 10, 20, 40];

    expect(rowWindow(4, (row) => heights[row]!, 40, 50)).toEqual({
      first: 2,
      last: 3,
      before: 40,
      behind: 40,
    });
  });
  it("are never none of a list that has some", () => {
    for (let top = -100; top < 500; top += 7) {
      const { first, last, before, behind } = rowWindow(30, alike, top, top + 1);

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
