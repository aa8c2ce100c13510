import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { describe, expect, it } from "vitest";
import { VitalsSchema } from "../gen/daggers/v1/vitals_pb.ts";
import { DaggerSchema, Phase } from "../gen/daggers/v1/dagger_pb.ts";
import { OutputColumn_Role as Role, OutputColumnSchema } from "../gen/daggers/v1/findings_pb.ts";
import { type Row, RowSchema } from "../gen/daggers/v1/output_pb.ts";
import { lines } from "./diff.ts";
import { bytes, count, formats, many, since, typeName } from "./format.ts";
import { words } from "./happened.ts";
import { byUrgency, finder, trouble } from "./phase.ts";
import { offset } from "./places.ts";
import { pause, problem } from "./problem.ts";
import { flux } from "./flux.ts";
import { inOrder, merged, overlaid, series, table } from "./rows.ts";
import { corners, noted } from "./spark.ts";

const row = (second: number, city: string, orders: bigint): Row =>
  create(RowSchema, {
    time: timestampFromMs(second * 1000),
    tags: { city },
    fields: [{ name: "orders", value: { case: "integer", value: orders } }],
  });

describe("places of findings", () => {
  it("counts code points where the editor counts units", () => {
    expect(offset("a 😀 b\nc", 1, 5)).toBe(5);
    expect(offset("a 😀 b\nc", 2, 1)).toBe(7);
  });
  it("stays in the text", () => expect(offset("ab", 9, 9)).toBe(2));
});

describe("rows", () => {
  it("become a table of tags, fields and the time", () => {
    const made = table([row(60, "Jakarta", 7n)]);
    expect(made.columns.map((each) => each.name)).toEqual(["city", "orders", "time"]);
    expect(made.rows).toEqual([["Jakarta", 7n, 60_000]]);
  });
  it("keep each digit of a number beyond 2^53", () => {
    expect(table([row(60, "Jakarta", 9007199254740993n)]).rows[0]![1]).toBe(9007199254740993n);
  });
  it("are summed by a tag, the largest first and the rest as one", () => {
    const rows = Array.from({ length: 9 }, (_, at) => row(60, `city ${at}`, BigInt(10 * (at + 1))));
    const made = series(table([...rows, row(120, "city 8", 5n)]), "orders", "city");
    expect(made.times).toEqual([60, 120]);
    expect(made.labels).toEqual(["city 8", "city 7", "city 6", "city 5", "city 4", "all others"]);
    expect(made.values[0]).toEqual([90, 5]);
    expect(made.values[5]).toEqual([100, null]);
  });
  it("that come again take the place of what was there", () => {
    const now = merged(
      [row(60, "Jakarta", 1n), row(60, "Bali", 2n)],
      [row(60, "Jakarta", 3n), row(120, "Bali", 4n)],
      9,
    );
    expect(now.map((each) => each.fields[0]!.value.value)).toEqual([4n, 3n, 2n]);
  });
});

describe("a difference", () => {
  it("keeps what both have", () => {
    expect(lines("a\nb\nc", "a\nx\nc").map((each) => each.kind[0] + each.text)).toEqual([
      "sa",
      "gb",
      "cx",
      "sc",
    ]);
  });
  it("of nothing and something is what came", () => {
    expect(lines("", "a\nb")).toEqual([
      { kind: "come", text: "a" },
      { kind: "come", text: "b" },
    ]);
  });
});

describe("daggers", () => {
  const dagger = (name: string, phase: Phase, team = "pricing") =>
    create(DaggerSchema, { name, phase, spec: { team } });
  it("in trouble stand first", () => {
    const all = [
      dagger("c", Phase.STOPPED),
      dagger("b", Phase.RUNNING),
      dagger("d", Phase.FAILED),
      dagger("a", Phase.RUNNING),
    ];
    expect(all.sort(byUrgency).map((each) => each.name)).toEqual(["d", "a", "b", "c"]);
  });
  it("are found by each word, wherever it stands", () => {
    expect(finder("PRIC compl")(dagger("completed", Phase.RUNNING))).toBe(true);
    expect(finder("fraud")(dagger("completed", Phase.RUNNING))).toBe(false);
  });
  it("say why they failed", () => {
    const failed = create(DaggerSchema, { phase: Phase.FAILED, lastError: { detail: "no such file" } });
    expect(trouble(failed)?.what).toBe("No such file.");
    expect(trouble(dagger("a", Phase.RUNNING))).toBeNull();
  });
});

describe("words", () => {
  const noon = Date.UTC(2026, 10, 23, 12);
  const { clock } = formats(["en-GB"], "UTC");
  it("of times and sizes", () => {
    expect(clock(noon, noon + 1000)).toBe("12:00:00");
    expect(clock(noon, noon + 86_400_000)).toBe("23 Nov 2026, 12:00");
    expect(since(noon, noon + 3_700_000)).toBe("1 h");
    expect(since(noon, noon + 2 * 86_400_000)).toBe("2 days");
    expect(bytes(1536n)).toBe("1.5 KiB");
    expect(count(9007199254740993n)).toBe("9,007,199,254,740,993");
  });
  it("of events", () => expect(words("daggers.v1.RelaunchScheduled")).toBe("relaunch scheduled"));
});

describe("how many", () => {
  it("is said with the word for one and for more", () => {
    expect([many(0, "row"), many(1n, "row"), many(1_204, "row")]).toEqual(["0 rows", "1 row", "1,204 rows"]);
  });
});

describe("types", () => {
  it("are written in capitals, the names of fields in them as they are", () => {
    const written = ["bigint", "array<string>", "decimal(10,2)", "struct<cityId:int,at:timestamp>"];

    expect(written.map(typeName)).toEqual([
      "BIGINT",
      "ARRAY<STRING>",
      "DECIMAL(10,2)",
      "STRUCT<cityId:INT,at:TIMESTAMP>",
    ]);
  });
});

describe("problems", () => {
  it("are told by their code", () => {
    expect(problem(new ConnectError("not yours", Code.PermissionDenied))).toEqual({
      kind: "refused",
      text: "Not yours.",
    });
    expect(problem(new ConnectError("", Code.Internal)).text).not.toBe("");
    const refused = new ConnectError("spec.sql: line 4, column 6: there is no x", Code.InvalidArgument);
    expect(problem(refused).text).toBe("Line 4, column 6: there is no x.");
  });
  it("are tried again after longer and longer, up to a bound", () => {
    expect([0, 1, 99].map(pause)).toEqual([1000, 2000, 15_000]);
  });
});

describe("an earlier time", () => {
  it("has the lines of now, in their order, and the rest", () => {
    const rows = table([row(60, "Bali", 7n), row(60, "Jakarta", 2n), row(60, "Solo", 1n)]);
    const made = series(rows, "orders", "city", ["Jakarta", "Medan", "all others"]);
    expect(made.labels).toEqual(["Jakarta", "Medan", "all others"]);
    expect(made.values).toEqual([[2], [null], [8]]);
  });
  it("lies below now, as if it were later", () => {
    const now = series(table([row(120, "Bali", 3n), row(180, "Bali", 4n)]), "orders", "city");
    const before = series(table([row(60, "Bali", 1n), row(121, "Bali", 2n)]), "orders", "city");
    const earlier = [{ series: before, later: 60, suffix: "a minute before" }];
    expect(overlaid(now, earlier)).toEqual({
      times: [120, 180, 181],
      labels: ["Bali", "Bali, a minute before"],
      values: [
        [3, 4, undefined],
        [1, undefined, 2],
      ],
      ghosts: 1,
    });
  });
});

describe("the query of a chart", () => {
  it("sums a field by a tag", () => {
    const lines = flux({ bucket: "daggers", measurement: "orders" }, "count", "city", 15).split("\n");
    expect(lines[0]).toBe('from(bucket: "daggers")');
    expect(lines.slice(3)).toEqual([
      '  |> group(columns: ["city"])',
      "  |> aggregateWindow(every: 30s, fn: sum, createEmpty: false)",
    ]);
  });
  it("takes the bucket of whom it is asked by, and no name for a part of it", () => {
    const query = flux({ bucket: "", measurement: 'a"b\\${c}' }, "count", "", 60);
    expect(query).toContain("from(bucket: v.defaultBucket)");
    expect(query).toContain('r._measurement == "a\\"b\\\\\\${c}"');
    expect(query).toContain("group(columns: [])");
  });
});

describe("a sparkline", () => {
  it("keeps the newest rates of each dagger", () => {
    const vitals = (rowsPerS?: number) => [create(VitalsSchema, { dagger: "a", rowsPerS })];
    let rates = noted(new Map(), vitals());
    for (let each = 0; each < 70; each++) rates = noted(rates, vitals(each));
    expect([rates.get("a")![0], rates.get("a")!.length]).toEqual([10, 60]);
  });
  it("goes from left to right, the largest at the top", () => {
    expect(corners([0, 4, 2], 80, 20)).toBe("0.0,20.0 40.0,0.0 80.0,10.0");
    expect([corners([3], 80, 20), corners([0, 0], 80, 20)]).toEqual(["", "0.0,20.0 80.0,20.0"]);
  });
});

describe("a table of a query", () => {
  const row = create(RowSchema, {
    time: timestampFromMs(60_000),
    tags: { city: "1", tag_area: "n" },
    fields: [
      { name: "fare", value: { case: "number", value: 2.5 } },
      { name: "orders", value: { case: "integer", value: 3n } },
    ],
  });
  const output = (name: string, role: Role, key = name) => create(OutputColumnSchema, { name, role, key });
  it("has its columns as SELECT names them", () => {
    const outputs = [
      output("orders", Role.FIELD),
      output("tag_area", Role.TAG),
      output("window_timestamp", Role.TIME),
      output("label_city", Role.TAG, "city"),
    ];
    const shown = inOrder(table([row]), outputs);
    expect(shown.columns.map((each) => each.name)).toEqual(["orders", "tag_area", "time", "city", "fare"]);
    expect(shown.rows).toEqual([[3n, "n", 60_000, "1", 2.5]]);
  });
  it("stays as it is where nobody says what SELECT names", () => {
    expect(inOrder(table([row]), [])).toEqual(table([row]));
  });
});
