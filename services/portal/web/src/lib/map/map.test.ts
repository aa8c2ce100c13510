import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { describe, expect, it } from "vitest";
import { type Row, RowSchema } from "../../gen/daggers/v1/output_pb.ts";
import { basemap } from "./basemap.ts";
import { naming } from "./columns.ts";
import { around, LEAST_PX } from "./painter.ts";
import { kindOf, outline, Shapes, title } from "./cells.ts";
import * as geohash from "./geohash.ts";
import * as mercator from "./mercator.ts";
import * as s2 from "./s2.ts";
import {
  begins,
  breaks,
  classed,
  classOf,
  colour,
  label,
  NO_CLASS,
  round,
  sideLabel,
  sideOf,
  sides,
} from "./scale.ts";
import { difference, ranked, Texts, Windows } from "./windows.ts";

const JAKARTA = "3344474489181175808"; // S2Id(-6.170024, 106.8243203, 13)

describe("a cell of S2", () => {
  it("keeps each of its 64 bits", () => {
    const cell = s2.ofId(JAKARTA)!;
    expect(cell.level).toBe(13);
    expect(s2.token(cell)).toBe(BigInt(JAKARTA).toString(16).replace(/0+$/, ""));
    expect(s2.ofToken(s2.token(cell))).toEqual(cell);
    expect(s2.ofId(BigInt(JAKARTA))).toEqual(cell);
  });
  it("has a signed id on the far half of the earth, and the same cell unsigned", () => {
    const signed = s2.ofId("-1146657280347439104")!;
    expect(signed).toEqual(s2.ofId((BigInt("-1146657280347439104") + (1n << 64n)).toString()));
  });
  it("holds the point that it is made of", () => {
    const shapes = new Shapes();
    shapes.add(outline("s2", JAKARTA));
    expect(shapes.under(mercator.x(106.8243203), mercator.y(-6.170024), () => true)).toBe(0);
    expect(shapes.under(mercator.x(106.9), mercator.y(-6.170024), () => true)).toBe(-1);
  });
  it.each(["0", "-1x", "", "2", "99999999999999999999", "18446744073709551615", "Jakarta", "1.5"])(
    "is not %s",
    (text) => expect(s2.ofId(text)).toBeNull(),
  );
  it("of a whole face has sides in pieces, for they are no lines of a map", () => {
    expect(outline("token", "1")).toHaveLength(4 * 32);
    expect(outline("s2", JAKARTA)).toHaveLength(4);
  });
});

describe("a geohash", () => {
  it("covers what it says", () => {
    const [south, west, north, east] = geohash.bounds("qqguyu")!;
    expect(south < -6.170024 && north > -6.170024 && west < 106.8243203 && east > 106.8243203).toBe(true);
    expect(north - south).toBeCloseTo(180 / 2 ** 15, 12);
    expect(east - west).toBeCloseTo(360 / 2 ** 15, 12);
  });
  it("has no a, i, l, o and twelve letters at most", () =>
    expect(["a", "qqguyi", "", "0123456789bcd"].map(geohash.bounds)).toEqual([null, null, null, null]));
});

describe("a column names cells", () => {
  it("when the query says so, whatever it is called", () => {
    expect(kindOf("where", ["qqguyu"], "geohash")).toBe("geohash");
    expect(kindOf("where", [s2.token(s2.ofId(JAKARTA)!)], "s2")).toBe("token");
  });
  it("by its name", () => {
    expect(kindOf("tag_s2id", [JAKARTA])).toBe("s2");
    expect(kindOf("s2_token", ["2e69f14", "2e69f1c"])).toBe("token");
    expect(kindOf("geohash", ["qqguyu", "qqguyv"])).toBe("geohash");
  });
  it("by its values where these are ids of one level", () => {
    expect(kindOf("area", [JAKARTA])).toBe("s2");
    expect(kindOf("area", [JAKARTA, "3344474489181175809"])).toBeNull();
  });
  it("else not: a city may look like a geohash", () => {
    expect(kindOf("city", ["bdg", "sub"])).toBeNull();
    expect(kindOf("city_id", ["1", "17"])).toBeNull();
    expect(kindOf("tag_s2id", ["nowhere"])).toBeNull();
    expect(kindOf("tag_s2id", [])).toBeNull();
  });
  it("and a person reads tokens", () => expect(title("s2", JAKARTA)).toBe("2e69f5d4, level 13"));
});

describe("the projection", () => {
  it("goes there and back", () => {
    const [lat, lng] = mercator.place(mercator.x(106.8), mercator.y(-6.17));
    expect([lat, lng].map((each) => each.toFixed(9))).toEqual(["-6.170000000", "106.800000000"]);
  });
  it("keeps what is under the pointer where it is", () => {
    const view = { x: 0.5, y: 0.5, scale: 1000 };
    const near = mercator.zoomed(view, 2, 100, -50);
    expect(near.x + 100 / near.scale).toBeCloseTo(view.x + 100 / view.scale, 12);
    expect(near.y - 50 / near.scale).toBeCloseTo(view.y - 50 / view.scale, 12);
  });
  it("shows all of an area", () => {
    const view = mercator.fitted([0.2, 0.3, 0.4, 0.35], 800, 600);
    expect(mercator.within([0.2, 0.3, 0.4, 0.35], mercator.seen(view, 800, 600))).toBe(true);
  });
  it("stands in an address", () => {
    const view = mercator.ofText("-6.2000,106.8000,11.50")!;
    expect(mercator.text(view)).toBe("-6.2000,106.8000,11.50");
    expect(mercator.ofText("")).toBeNull();
    expect(mercator.ofText("a,b,c")).toBeNull();
  });
  it("has a round ruler that is no longer than asked", () => {
    const [metres, pixels] = mercator.ruler({ x: 0.5, y: 0.5, scale: 256 }, 100);
    expect(metres).toBe(10_000_000);
    expect(pixels).toBeLessThanOrEqual(100);
  });
});

describe("a basemap", () => {
  it("joins lines to rings, and borders are lines of two countries", () => {
    const world = {
      transform: { scale: [1, 1], translate: [0, 0] },
      arcs: [
        [
          [0, 0],
          [10, 0],
        ],
        [
          [10, 0],
          [0, 10],
          [-10, -10],
        ],
        [
          [10, 0],
          [-5, -10],
          [-5, 10],
        ],
      ],
      objects: {
        land: { geometries: [{ type: "MultiPolygon", arcs: [[[1, ~2]]] }] },
        countries: {
          geometries: [
            { type: "Polygon", arcs: [[0, 1]] },
            { type: "Polygon", arcs: [[~0, ~2]] },
          ],
        },
      },
    };
    const made = basemap(world);
    expect(made.borders).toHaveLength(1);
    expect(made.land[0]!.points).toHaveLength(2 * 5);
    expect(made.land[0]!.box[0]).toBe(0.5);
  });
});

describe("land over the date line", () => {
  const world = (arcs: number[][][]) =>
    basemap({
      transform: { scale: [1, 1], translate: [0, 0] },
      arcs,
      objects: {
        land: { geometries: [{ type: "Polygon", arcs: [[0]] }] },
        countries: { geometries: [] },
      },
    });
  it("goes on beyond the edge, and is at the other one, too", () => {
    const made = world([
      [
        [170, 60],
        [-345, 0], // to 175 degrees west
        [0, 5],
        [345, 0],
        [0, -5],
      ],
    ]);
    expect(made.land).toHaveLength(2);
    expect(made.land[0]!.box[2]).toBeCloseTo(185 / 360 + 0.5, 12);
    expect(made.land[1]!.box[0]).toBeCloseTo(-10 / 360, 12);
  });
  it("that is around a pole reaches the edge of the map", () => {
    const made = world([
      [
        [-180, -70],
        [100, 0],
        [100, 0],
        [100, 0],
        [60, 0],
        [-360, 0],
      ],
    ]);
    expect(made.land[0]!.box[3]).toBe(1);
  });
});

const at = (minute: number, cell: string, orders: number | null, city = "Jakarta"): Row =>
  create(RowSchema, {
    time: timestampFromMs(minute * 60_000),
    tags: { tag_s2id: cell, city },
    fields: orders === null ? [] : [{ name: "orders", value: { case: "integer", value: BigInt(orders) } }],
  });

describe("windows", () => {
  it("add up the rows of a cell, which other tags tell apart", () => {
    const all = new Windows();
    all.add([at(1, "a", 3), at(1, "a", 4, "Bali"), at(1, "b", 1), at(2, "b", 9)]);
    expect(all.times).toEqual([60_000, 120_000]);
    const of = (how: "sum" | "mean" | "least" | "greatest" | "rows") => [
      ...all.values(60_000, "tag_s2id", "orders", how).values,
    ];
    expect(of("sum")).toEqual([7, 1]);
    expect(of("mean")).toEqual([3.5, 1]);
    expect(of("least")).toEqual([3, 1]);
    expect(of("greatest")).toEqual([4, 1]);
    expect(of("rows")).toEqual([2, 1]);
    expect([...all.values(120_000, "tag_s2id", "orders", "sum").values]).toEqual([NaN, 9]);
  });
  it("say how many rows have no cell", () => {
    const all = new Windows();
    const nowhere = create(RowSchema, { time: timestampFromMs(60_000), tags: { city: "Bali" } });
    all.add([at(1, "a", 3), nowhere]);
    expect(all.values(60_000, "tag_s2id", "orders", "sum").without).toBe(1);
  });
  it("that are read again take the place of what was there", () => {
    const all = new Windows();
    all.add([at(1, "a", 3), at(2, "b", 9)]);
    const fresh = new Windows();
    fresh.add([at(2, "c", 1), at(2, "b", 2)]);
    all.take(fresh);
    expect(all.texts.get("tag_s2id")!.all).toEqual(["a", "b", "c"]);
    expect([...all.values(120_000, "tag_s2id", "orders", "sum").values]).toEqual([NaN, 2, 1]);
    expect(all.size).toBe(3);
  });
  it("have differences to those of a day before, whose cells have other numbers there", () => {
    const [now, before] = [new Windows(), new Windows()];
    now.add([at(1, "a", 3), at(1, "b", 9)]);
    before.add([at(1, "c", 2), at(1, "b", 4)]);
    now.know(before);
    const cells = now.texts.get("tag_s2id");
    const values = now.values(60_000, "tag_s2id", "orders", "sum").values;
    const then = before.values(60_000, "tag_s2id", "orders", "sum", cells).values;
    expect(cells!.all).toEqual(["a", "b", "c"]);
    expect([...difference(values, then, "sum")]).toEqual([3, 5, -2]);
    expect([...difference(values, then, "mean")]).toEqual([NaN, 5, NaN]);
  });
});

describe("a scale", () => {
  it("has a class for each value where there are few", () => {
    expect(breaks([Float64Array.of(1, 2, 2, 3, NaN)])).toEqual([2, 3]);
    expect(breaks([Float64Array.of(5, 5)])).toEqual([]);
    expect(breaks([])).toEqual([]);
  });
  it("has classes of about as many values, which begin at round ones", () => {
    const begins = breaks([Float64Array.from({ length: 7000 }, (_, value) => value)]);
    expect(begins).toEqual([1000, 2000, 3000, 4000, 5000, 6000]);
    expect([0, 999, 1000, 6999].map((value) => classOf(value, begins))).toEqual([0, 0, 1, 6]);
  });
  it("is the same on both sides of a difference", () => {
    const begins = sides([Float64Array.of(-30, -20, -10, 0, 10, 20, 30, 40)]);
    expect(begins.length % 2).toBe(0);
    expect(begins).toEqual([...begins].reverse().map((each) => -each));
    const half = begins.length / 2;
    expect(sideOf(0, begins)).toBe(half);
    for (const value of [10, 25, 40])
      expect(sideOf(value, begins) - half).toBe(half - sideOf(-value, begins));
    expect(sides([Float64Array.of(0, 0)])).toEqual([]);
  });
  it("says what a class is", () => {
    expect([0, 1, 2].map((each) => label(each, [10, 1500]))).toEqual([
      "below 10",
      "10 to 1,500",
      "1,500 and more",
    ]);
    expect([0, 1, 2, 3, 4].map((each) => sideLabel(each, [-20, -5, 5, 20]))).toEqual([
      "−20 and more",
      "−5 to −20",
      "within ±5",
      "+5 to +20",
      "+20 and more",
    ]);
  });
  it("uses both ends of the colours", () => {
    expect([0, 1, 2].map((each) => colour(each, 3))).toEqual([0, 3, 6]);
    expect(round(1234.5)).toBe(1200);
    expect(round(-0.01234)).toBe(-0.012);
  });
  it("gives each cell the colour of its class, and none to a cell without a value", () => {
    const values = Float64Array.of(5, NaN, 50, 7, 9);
    const { classes, counts } = classed(values, 4, [10], false);
    expect([...classes]).toEqual([0, NO_CLASS, 6, 0]);
    expect(counts).toEqual([2, 1]);
    expect([...classed(Float64Array.of(-3, 0, 3), 3, [-1, 1], true).classes]).toEqual([0, 3, 6]);
  });

  it("has the same classes for all windows", () => {
    const windows: Record<number, Float64Array> = { 1: Float64Array.of(1, 2), 2: Float64Array.of(3) };
    expect(begins([1, 2], (time) => windows[time]!, false)).toEqual([2, 3]);
    expect(begins([], () => new Float64Array(), false)).toEqual([]);
  });
});

describe("the cells of a map", () => {
  it("come by their values, and only those that are drawn", () => {
    expect([...ranked(Float64Array.of(1, NaN, 3, 2, 9), 4)]).toEqual([2, 3, 0]);
  });

  it("are named by the column of which the query says so, then by what looks like it", () => {
    const texts = (...all: string[]): Texts => {
      const made = new Texts();
      for (const each of all) made.number(each);
      return made;
    };
    const columns = new Map([
      ["s2id", texts(JAKARTA)],
      ["city", texts("Jakarta")],
      ["where", texts("qqguyu")],
    ]);
    expect([...naming(columns, { where: "geohash" })]).toEqual([
      ["where", "geohash"],
      ["s2id", "s2"],
    ]);
    expect([...naming(columns, {})]).toEqual([["s2id", "s2"]]);
  });
});

describe("the least size of cells", () => {
  it("is made up by a line of the cell's own colour, and large cells have an edge", () => {
    expect([0, 1, 6.5, 6.8, 40].map(around)).toEqual([LEAST_PX, LEAST_PX - 1, 0.5, 0.5, 0.8]);
  });
  it("lets a cell be pointed at that is smaller than what is drawn of it", () => {
    const shapes = new Shapes();
    shapes.add(outline("s2", JAKARTA));
    const [atX, atY] = [mercator.x(106.84), mercator.y(-6.17)];

    expect(shapes.under(atX, atY, () => true)).toBe(-1);
    expect(shapes.under(atX, atY, () => true, mercator.x(0.03) - mercator.x(0))).toBe(0);
    expect(shapes.under(atX, atY, () => false, 1)).toBe(-1);
  });
});
