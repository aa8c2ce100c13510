import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { describe, expect, it } from "vitest";
import { type Row, RowSchema } from "../gen/daggers/v1/output_pb.ts";
import { viewOf, written } from "./chartview.ts";
import { csv } from "./csv.ts";
import { alone, asSelected, overlaid, series, table, withMissing } from "./rows.ts";
import { selected } from "./select.ts";

const row = (second: number, city: string, numbers: Record<string, bigint>): Row =>
  create(RowSchema, {
    time: timestampFromMs(second * 1000),
    tags: { city },
    fields: Object.entries(numbers).map(([name, value]) => ({
      name,
      value: { case: "integer" as const, value },
    })),
  });

describe("the columns of SELECT", () => {
  it("stand in its order, whatever is written around them", () => {
    const sql = `SELECT city AS tag_city, -- by city, FROM all
      count(CASE WHEN status = 'a, b' THEN 1 END) AS Orders, \`data\`.\`fare\`, max(x, y), 'text',
      TUMBLE_END(rowtime, INTERVAL '1' MINUTE) AS window_timestamp FROM \`data_stream\` GROUP BY city`;
    expect(selected(sql)).toEqual(["tag_city", "orders", "fare", "window_timestamp"]);
  });
  it("are those of the outer query", () => {
    const sql = "WITH a AS (SELECT x, y FROM t) SELECT y AS b, /* , */ x FROM (SELECT z FROM a)";
    expect(selected(sql)).toEqual(["b", "x"]);
    expect([selected("SELECT * FROM t"), selected("SELECT"), selected("")]).toEqual([[], [], []]);
  });
  it("are those of the table, its first number first", () => {
    const rows = table([row(60, "Bali", { amount: 1n, orders: 2n })]);
    const shown = asSelected(
      rows,
      "SELECT count(1) AS orders, sum(x) AS amount, city AS tag_city, rowtime FROM t",
    );
    expect(shown.columns.map((each) => each.name)).toEqual(["orders", "amount", "city", "time"]);
    expect(shown.rows[0]).toEqual([2n, 1n, "Bali", 60_000]);
    expect(asSelected(rows, "SELECT * FROM t").columns).toEqual(rows.columns);
    const tagged: Row = create(RowSchema, { tags: { tag_city: "1" }, fields: [] });
    const columns = asSelected(
      table([tagged]),
      "SELECT city_id AS tag_city, TUMBLE_END(a) AS window_timestamp FROM t",
    );
    expect(columns.columns.map(({ name }) => name)).toEqual(["tag_city", "time"]);
  });
});

describe("a gap", () => {
  it("is a window without rows", () => {
    expect(withMissing([60, 120, 180, 360])).toEqual([60, 120, 180, 240, 300, 360]);
  });
  it("is none where rows come at any time", () => {
    for (const times of [[60, 61, 97, 111], [1, 2.5, 3.5, 9], [60, 360], [60], []])
      expect(withMissing(times)).toEqual(times);
  });
  it("of one line is none of another one's", () => {
    const some = [60, 120, 240].map((at) => row(at, "Bali", { orders: 1n }));
    const now = series(table([...some, row(180, "Solo", { orders: 9n })]), "orders", "city");
    expect(now.labels).toEqual(["Solo", "Bali"]);
    expect(now.values).toEqual([
      [null, null, 9, null],
      [1, 1, null, 1],
    ]);
    const before = { times: [30, 90], labels: ["Bali"], values: [[5, 6]] };
    const both = overlaid({ ...now, labels: ["Bali"], values: [now.values[1]!] }, [
      { series: before, later: 60, suffix: "before" },
      { series: before, later: 90, suffix: "long before" },
    ]);
    expect(both.times).toEqual([60, 90, 120, 150, 180, 240]);
    expect(both.labels).toEqual(["Bali", "Bali, before", "Bali, long before"]);
    expect(both.values).toEqual([
      [1, undefined, 1, undefined, null, 1],
      [undefined, 5, undefined, 6, undefined, undefined],
      [undefined, undefined, 5, undefined, 6, undefined],
    ]);
    expect(both.ghosts).toBe(2);
  });
  it("on both sides leaves a point alone", () => {
    expect(alone([1, null, 2, undefined, null, 3, undefined, 4, null, undefined, 5])).toEqual([0, 2, 10]);
  });
});

it("CSV has every digit, and quotes what needs it", () => {
  const made = csv({
    columns: [
      { name: 'the "city"', kind: "tag" },
      { name: "orders", kind: "number" },
      { name: "time", kind: "time" },
    ],
    rows: [
      ["Solo, Java", 9_007_199_254_740_993n, 60_000],
      ["a\nb", null, null],
    ],
  });
  expect(made).toBe(
    '"the ""city""",orders,time\r\n"Solo, Java",9007199254740993,1970-01-01T00:01:00.000Z\r\n"a\nb",,\r\n',
  );
});

it.each([
  ["=1+1", "'=1+1"],
  ['=HYPERLINK("http://a","b")', `"'=HYPERLINK(""http://a"",""b"")"`],
  ["@SUM(A1)", "'@SUM(A1)"],
  ["-2+3", "'-2+3"],
  ["＝1", "'＝1"],
  ["\t=1", "'\t=1"],
  ["-12.5", "-12.5"],
  ["+62", "+62"],
  ["a=1", "a=1"],
  [-5, "-5"],
])("CSV of the text %s runs in no spreadsheet", (cell, expected) => {
  const columns = [{ name: "city", kind: typeof cell === "number" ? "number" : "tag" } as const];

  expect(csv({ columns, rows: [[cell]] })).toBe(`city\r\n${expected}\r\n`);
});

describe("the address of a chart", () => {
  const NOW = 1_800_000_000_000;
  it("has all that it shows, and is read back", () => {
    const view = viewOf(
      "?range=360&field=amount&by=none&compare=1%2C7&zoom=1799999000-1799999600&tab=x",
      NOW,
    );
    expect(view).toEqual({
      minutes: 360,
      field: "amount",
      by: "none",
      days: [1, 7],
      zoom: [1_799_999_000, 1_799_999_600],
    });
    const address = new URLSearchParams(written(view)).toString();
    expect(viewOf(address, NOW)).toEqual(view);
  });
  it("says nothing of what is as in the beginning", () => {
    const view = viewOf("", NOW);
    expect(view).toEqual({ minutes: 15, field: "", by: "", days: [], zoom: null });
    expect(Object.values(written(view)).join("")).toBe("");
    expect(viewOf("?range=99&compare=2&zoom=9-1&zoom=x", NOW)).toEqual(view);
  });
  it("reads as far back as a zoom that was passed on", () => {
    expect(viewOf(`?zoom=${NOW / 1000 - 7_200}-${NOW / 1000 - 7_000}`, NOW).minutes).toBe(360);
    expect(viewOf("?zoom=1-2", NOW).minutes).toBe(10_080);
  });
});
