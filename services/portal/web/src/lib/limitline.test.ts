import { describe, expect, it } from "vitest";
import { firstLimit, heightOf, moved, type Plot, stepOf, valueAt } from "./limitline.ts";

const PLOT: Plot = { low: 0, high: 44, left: 60, top: 10, width: 600, height: 220 };

describe("a line across a chart", () => {
  it("stands where its number is, and at the edge beyond", () => {
    expect([44, 22, 0, 99, -5].map((each) => heightOf(each, PLOT))).toEqual([10, 120, 230, 10, 230]);
  });
  it("is read from where it is, in steps of a hundredth or so", () => {
    expect(stepOf(PLOT)).toBe(0.5);
    expect([10, 120, 230, 0, 999, 121].map((each) => valueAt(each, PLOT))).toEqual([44, 22, 0, 44, 0, 22]);
    for (const value of [3, 17.5, 40]) expect(valueAt(heightOf(value, PLOT), PLOT)).toBe(value);
  });
  it("is moved by keys", () => {
    const to = (key: string): number | null => moved(20, key, PLOT);
    expect(["ArrowUp", "ArrowDown", "PageUp", "PageDown", "Home", "End", "a"].map(to)).toEqual([
      20.5,
      19.5,
      25,
      15,
      0,
      44,
      null,
    ]);
    expect(moved(0.3, "ArrowUp", { ...PLOT, high: 1 })).toBe(0.31);
  });
  it("begins within what is drawn", () => {
    expect(
      firstLimit([
        [3, null, 30],
        [undefined, 12],
      ]),
    ).toBe(20);
    expect([firstLimit([]), firstLimit([[0]]), firstLimit([[-4]])]).toEqual([0.67, 0.67, 0.67]);
  });
  it("has a step where nothing is drawn", () => {
    expect([stepOf({ ...PLOT, high: 0 }), stepOf({ ...PLOT, high: 1e6 })]).toEqual([1, 10_000]);
  });
});
