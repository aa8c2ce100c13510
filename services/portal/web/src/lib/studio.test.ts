import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { SqlFunctionSchema, StreamColumnSchema } from "../gen/daggers/v1/catalog_service_pb.ts";
import { FindingSchema, Severity } from "../gen/daggers/v1/findings_pb.ts";
import {
  PreviewDone_Empty as Empty,
  PreviewDone_Reason as Reason,
  PreviewDoneSchema,
  PreviewProgress_Phase as Phase,
  PreviewProgressSchema,
} from "../gen/daggers/v1/preview_pb.ts";
import { DaggerSpecSchema, SinkSchema, StreamSchema } from "../gen/daggers/v1/spec_pb.ts";
import { options, values } from "./completion.ts";
import * as drafts from "./draft.ts";
import { publishes, takesLate } from "./publishes.ts";
import { change, diagnostics, grave, meant, mending, needed, sentence, summary } from "./judged.ts";
import { counts, doing, empty, remarks } from "./preview.ts";

const spec = drafts.begun("pricing", "local");
const known = ["bookings", "driver-pings"].map((name) =>
  create(StreamSchema, { name, message: `examples.v1.${name}` }),
);

describe("a draft", () => {
  it("names a table after its stream, and no two the same", () => {
    const both = drafts.choose(drafts.choose(spec, "bookings", true), "driver-pings", true);
    expect(both.streams.map(drafts.tableOf)).toEqual(["bookings", "driver_pings"]);
    const like = drafts.choose(both, "driver_pings", true);
    expect(like.streams.map(drafts.tableOf)).toEqual(["bookings", "driver_pings", "driver_pings_2"]);
    expect(drafts.choose(both, "bookings", false).streams.map((each) => each.stream)).toEqual([
      "driver-pings",
    ]);
  });
  it("forwards one stream alone", () => {
    const both = drafts.choose(drafts.choose(spec, "bookings", true), "driver-pings", true);
    const forward = drafts.forwarding({ ...both, sql: "SELECT 1" }, true);
    expect([forward.streams.length, forward.sql, forward.forward !== undefined]).toEqual([1, "", true]);
    expect(drafts.choose(forward, "driver-pings", true).streams.map((each) => each.stream)).toEqual([
      "driver-pings",
    ]);
  });
  it("renames a table in its query, and in no text or comment", () => {
    const before = drafts.choose(spec, "bookings", true);
    const sql = "SELECT 'bookings', bookings.a, my_bookings FROM `bookings` -- bookings";
    expect(drafts.renamed({ ...before, sql }, 0, "b").sql).toBe(
      "SELECT 'bookings', b.a, my_bookings FROM `b` -- bookings",
    );
  });
  it("is what its address says, without streams that are not there", () => {
    const parameters: Record<string, string> = { streams: "bookings,gone", cluster: "far" };
    const draft = drafts.ofAddress((name) => parameters[name] ?? "", "pricing", "local", known);
    expect(drafts.inAddress(draft)).toEqual({
      kind: "",
      message: "examples.v1.bookings",
      streams: "bookings",
      cluster: "far",
    });
    expect(draft.spec.sql).toContain("FROM `bookings`");
  });
  it("takes the first query of its stream where nobody has changed what it begins with", () => {
    const begun = drafts.choose(spec, "driver-pings", true);
    const untouched = { ...begun, sql: drafts.starter("driver_pings") };
    expect(drafts.withFirstQuery(untouched, "driver-pings", "SELECT 2")?.sql).toBe("SELECT 2");
    expect(drafts.withFirstQuery({ ...begun, sql: "SELECT 1" }, "driver-pings", "SELECT 2")).toBeNull();
    expect(drafts.withFirstQuery(drafts.forwarding(untouched, true), "driver-pings", "SELECT 2")).toBeNull();
    expect(drafts.withFirstQuery(drafts.renamed(untouched, 0, "b"), "driver-pings", "SELECT 2")).toBeNull();
    expect(drafts.withFirstQuery(untouched, "bookings", "SELECT 2")).toBeNull();
    expect(drafts.withFirstQuery(untouched, "driver-pings", untouched.sql)).toBeNull();
    expect(drafts.withTemplate(drafts.renamed(begun, 0, "b"), "SELECT 1 FROM `driver_pings`").sql).toBe(
      "SELECT 1 FROM `b`",
    );
  });
  it("stays in the browser, whole, until it is dropped", () => {
    const held = new Map<string, string>();
    const store = {
      getItem: (key: string) => held.get(key) ?? null,
      setItem: (key: string, value: string) => void held.set(key, value),
      removeItem: (key: string) => void held.delete(key),
    } as unknown as Storage;
    const draft = { name: "a", message: "m", spec: drafts.choose(spec, "bookings", true) };
    drafts.keep(store, "", draft);
    expect(drafts.kept(store, "")).toEqual(draft);
    expect(drafts.kept(store, "other")).toBeNull();
    store.setItem("draft ", "{");
    expect(drafts.kept(store, "")).toBeNull();
    drafts.drop(store, "");
    expect(held.size).toBe(0);
  });
  it("has sinks of each kind, which are read as they are written", () => {
    const kinds = SinkSchema.oneofs[0]!.fields.map((each) => each.localName);
    expect(drafts.SINKS.map(([kind]) => kind).sort()).toEqual(kinds.sort());
    for (const [kind] of drafts.SINKS) {
      const sink = drafts.sinkOf(kind);
      expect(sink.kind.case).toBe(kind);
      expect(drafts.sinkRead(drafts.sinkText(sink))).toEqual(sink);
    }
    expect(() => drafts.sinkRead('{"influx": {"mesurement": "a"}}')).toThrow(/mesurement/);
  });
  it("takes seconds, and leaves to the platform what is none", () => {
    expect(drafts.seconds(drafts.duration("1.5"))).toBe("1.5");
    expect([drafts.duration(""), drafts.duration("-1"), drafts.duration("a")]).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
  });
});

describe("a sink of late records", () => {
  const { begun, sinkOf, sinkRead, sinkText, withLate, withSink } = drafts;
  const rows = sinkRead('{"kafka": {"topic": "x", "format": "FORMAT_JSON"}}');
  const kept = withLate({ ...begun("t", "c"), sinks: [sinkOf("influx"), rows] }, 1, true);

  it("is named by the rule, and has no format of rows", () => {
    expect(kept.late?.keep).toBe("late");
    expect(kept.sinks.map((sink) => takesLate(kept, sink))).toEqual([false, true]);
    expect([publishes(kept), publishes(withLate(kept, 1, false))]).toEqual([false, true]);
    expect(sinkText(kept.sinks[1]!)).not.toContain("format");
    const both = withLate({ ...kept, sinks: [...kept.sinks, rows] }, 2, true);
    expect(both.sinks.map((sink) => sink.name)).toEqual(["", "late", "late_2"]);
  });

  it("takes the rule along: renamed, removed, and as a sink of rows again", () => {
    const renamed = withSink(kept, 1, { ...kept.sinks[1]!, name: "other" });
    expect(renamed.late?.keep).toBe("other");
    expect([withSink(kept, 1, null).late, withLate(kept, 1, false).late]).toEqual([undefined, undefined]);
    expect(withSink(kept, 0, sinkOf("log")).late?.keep).toBe("late");
  });

  it("is apart from the time for which windows take late records", () => {
    const { duration, seconds, withUpdate } = drafts;
    const both = withUpdate(kept, duration("600"));
    expect([both.late?.keep, seconds(both.late?.update)]).toEqual(["late", "600"]);
    expect(seconds(withSink(both, 1, null).late?.update)).toBe("600");
    expect(withUpdate(withSink(both, 1, null), duration("")).late).toBeUndefined();
  });
  it("offers late updates to one stream, and as long as they are chosen", () => {
    const of = (streams: string[], update?: string) =>
      drafts.offersUpdate(
        drafts.withUpdate(
          create(DaggerSpecSchema, { streams: streams.map((stream) => ({ stream })) }),
          drafts.duration(update ?? ""),
        ),
      );

    expect([of(["a"]), of(["a", "b"]), of(["a", "b"], "600")]).toEqual([true, false, true]);
  });
});

describe("completion", () => {
  const status = create(StreamColumnSchema, {
    path: "status",
    type: "STRING",
    comment: "How it went.",
    enumValues: [{ name: "COMPLETED", number: 3 }],
  });
  const tables = [{ name: "data_stream", columns: [status] }];
  it("knows tables, columns and what these are", () => {
    expect(options(tables).map((each) => [each.label, each.detail])).toEqual([
      ["`data_stream`", "table"],
      ["status", "STRING"],
    ]);
  });
  it("knows functions by how they are called", () => {
    const s2 = create(SqlFunctionSchema, {
      name: "S2Id",
      usage: "S2Id(latitude) → STRING",
      about: "A cell.",
    });
    expect(options([], [s2])).toEqual([
      { label: "S2Id", apply: "S2Id(", type: "function", detail: "(latitude) → STRING", info: "A cell." },
    ]);
  });
  it("knows the values of an enum where one is compared", () => {
    expect(values(tables, "WHERE status = 'CO")).toMatchObject({
      back: 2,
      options: [{ label: "COMPLETED" }],
    });
    expect(values(tables, "WHERE status IN ('A', '")).toMatchObject({ back: 0 });
    expect(values(tables, "WHERE city = '")).toBeNull();
  });
});

describe("findings", () => {
  const text = "SELECT '😀', citi_id";
  const finding = create(FindingSchema, {
    code: "UNKNOWN_COLUMN",
    severity: Severity.ERROR,
    line: 1,
    column: 13,
    endLine: 1,
    endColumn: 20,
    suggestion: "city_id",
    edit: { line: 1, column: 13, endLine: 1, endColumn: 20, text: "city_id" },
  });
  it("stand where the editor has their characters", () => {
    const [one] = diagnostics(text, [finding, create(FindingSchema, { code: "NO_SINK" })]);
    expect(text.slice(one!.from, one!.to)).toBe("citi_id");
    const edit = change(text, finding)!;
    expect(text.slice(0, edit.from) + edit.insert + text.slice(edit.to)).toBe("SELECT '😀', city_id");
  });
  it("are counted by what they hinder", () => {
    const warning = create(FindingSchema, { severity: Severity.WARNING });
    expect(summary([])).toBe("Ready to run");
    expect(summary([finding, warning, warning])).toBe("1 error, 2 warnings");
  });
  it("of what nobody has written yet are no errors", () => {
    const open = create(FindingSchema, { code: "REQUIRED", severity: Severity.ERROR, field: "spec.streams" });
    expect([needed(open), grave(open), needed(finding), grave(finding)]).toEqual([true, false, false, true]);
    expect(summary([open, open])).toBe("2 things still to say");
  });
  it("are one sentence, and what is meant is said once", () => {
    const said = { ...finding, message: "bookings has no column citi_id: did you mean city_id?" };
    expect([sentence(said), meant(said), mending(said)]).toEqual([
      "Bookings has no column citi_id.",
      "",
      "Write city_id",
    ]);
    const elsewhere = create(FindingSchema, {
      field: "spec.cluster",
      message: "locl is not registered: did you mean local?",
      suggestion: "local",
    });
    expect([sentence(elsewhere), meant(elsewhere), mending(elsewhere)]).toEqual([
      "The cluster locl is not registered.",
      "Suggestion: local",
      "",
    ]);
    expect(mending({ ...finding, suggestion: "", edit: { ...finding.edit!, text: "" } })).toBe("Take it out");
  });
});

describe("a preview", () => {
  it("says what it does", () => {
    expect(doing(create(PreviewProgressSchema, { phase: Phase.QUEUED, ahead: 2 }))).toBe(
      "Waits: 2 before it",
    );
    expect(
      doing(create(PreviewProgressSchema, { phase: Phase.READING, records: 1000n, recordsTotal: 2000n })),
    ).toBe("1,000 of 2,000 records read");
    expect(doing(create(PreviewProgressSchema, { phase: Phase.READING, records: 1000n }))).toBe(
      "1,000 records read",
    );
  });
  it("says where records are that became no row", () => {
    const done = create(PreviewDoneSchema, { empty: Empty.FILTERED, records: 7n, quarantined: { LATE: 2n } });
    expect(empty(done)).toContain("WHERE");
    expect(remarks(done)).toEqual(["Would be quarantined: LATE 2."]);
    expect(empty(create(PreviewDoneSchema, { rows: 1n }))).toBe("");
  });
  it("says what is left out", () => {
    const done = create(PreviewDoneSchema, {
      reason: Reason.ROW_LIMIT,
      rows: 9n,
      rowsLeftOut: 4n,
      totalMs: 1500n,
    });
    expect(counts(done)).toBe("0 records · 9 rows · 1.5 s");
    expect(remarks(done)).toHaveLength(2);
  });
});
