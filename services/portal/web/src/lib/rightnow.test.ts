import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { describe, expect, it } from "vitest";
import { type Dagger, DaggerSchema, Phase } from "../gen/daggers/v1/dagger_pb.ts";
import { ReadMetricsResponseSchema } from "../gen/daggers/v1/dagger_service_pb.ts";
import { VitalsSchema } from "../gen/daggers/v1/vitals_pb.ts";
import { factsOf } from "./facts.ts";
import { lastDay, MINUTES, peaks, pieces } from "./minutes.ts";
import { rightNow } from "./rightnow.ts";

const NOW = 1_800_000_000_000;

function dagger(phase: Phase, vitals: MessageInitShape<typeof VitalsSchema>, more = {}): Dagger {
  return create(DaggerSchema, {
    name: "a",
    phase,
    phaseTime: timestampFromMs(NOW - 3_600_000),
    vitals: { heardTime: timestampFromMs(NOW - 2_000), rows: 7n, ...vitals },
    ...more,
  });
}
const said = (one: Dagger): [string, string] => {
  const { tone, text } = rightNow(one, NOW);
  return [tone, text];
};

describe("is it right now", () => {
  it("yes, and by how much", () => {
    const freshness = {
      crm: { rows: 5n, p95Ms: 900n },
      influx: { rows: 5n, p95Ms: 5_900n },
      kafka: { p95Ms: 9n },
    };
    expect(said(dagger(Phase.RUNNING, { freshness }))).toEqual([
      "good",
      "Yes: 95 of 100 rows are in influx within 5.9 s of the end of their window, and nothing was late or quarantined in the last 5 min.",
    ]);
    expect(said(dagger(Phase.RUNNING, {}))[1]).toMatch(/^Yes: it has run since .+, and nothing was late/);
  });
  it("mostly, where rows are missing", () => {
    expect(said(dagger(Phase.RUNNING, { recentLateRows: 3n, recentQuarantined: 12n }))).toEqual([
      "warn",
      "Mostly: it runs, with 3 late rows and 12 quarantined records in the last 5 min.",
    ]);
  });
  it("not quite, and why", () => {
    const warnings = [{ code: "SINK_UNAVAILABLE", message: "influx does not answer", next: "ask" }];
    expect(said(dagger(Phase.DEGRADED, { warnings }))).toEqual([
      "warn",
      "Not quite: Influx does not answer.",
    ]);
    const quota = [{ code: "TEAM_QUOTA", message: "Team pricing has more than 1 daggers" }];
    expect(said(dagger(Phase.RUNNING, { warnings: quota }))[0]).toBe("good");
    expect(said(dagger(Phase.DEGRADED, {}))[1]).toMatch(/^Not quite: it has been degraded since /);
  });
  it("no, or not yet", () => {
    const lastError = { reason: "BAD", detail: "the topic is gone" };
    expect(said(dagger(Phase.FAILED, {}, { lastError }))).toEqual(["bad", "No: The topic is gone."]);
    expect(said(dagger(Phase.STARTING, {}))[1]).toMatch(/^Not yet: it has been starting since .+\.$/);
    const turn = [{ code: "WAITS_FOR_TURN", message: "it waits for its turn to start" }];
    expect(said(dagger(Phase.STOPPING, { warnings: turn }))).toEqual([
      "warn",
      "Not yet: It waits for its turn to start.",
    ]);
    expect(said(dagger(Phase.STOPPED, {}))[1]).toMatch(/^It writes no rows: it has been stopped since /);
    expect(said(dagger(Phase.RUNNING, { rows: 0n }))[1]).toMatch(/has written no rows yet/);
  });
  it("nobody knows, where nothing was heard for long", () => {
    const heardTime = timestampFromMs(NOW - 720_000);
    expect(said(dagger(Phase.RUNNING, { heardTime }))[1]).toMatch(/^Nobody knows: .+ 12 min ago\.$/);
  });
});

describe("minutes of the last day", () => {
  const minute = Math.floor(NOW / 60_000);
  const answer = (begin: number, rows: bigint[]) =>
    create(ReadMetricsResponseSchema, { begin: timestampFromMs(begin * 60_000), rows });

  it("end before the one of now, with gaps as gaps", () => {
    const day = lastDay(answer(minute - 3, [5n, -1n, 7n, 1n]), "rows", NOW);
    expect(day).toHaveLength(MINUTES);
    expect(day.slice(-4)).toEqual([null, 5, null, 7]);
  });
  it("leave out what is older, and are unknown where nothing was heard", () => {
    const rows = Array.from({ length: 1_500 }, (_, at) => BigInt(at));
    expect(lastDay(answer(minute - 1_500, rows), "rows", NOW)[0]).toBe(60);
    expect(new Set(lastDay(create(ReadMetricsResponseSchema), "lag", NOW))).toEqual(new Set([null]));
  });
  it("keep their peaks, and a line between two gaps each", () => {
    expect(peaks([1, 9, null, null, 2], 2)).toEqual([9, null, 2]);
    expect(pieces([0, 10, null, 5, null, 10, 5], 60, 20)).toEqual([
      "0.0,20.0 10.0,0.0",
      "30.0,10.0 40.0,10.0",
      "50.0,0.0 60.0,10.0",
    ]);
    expect(pieces([null, null], 60, 20)).toEqual([]);
  });
});

describe("facts", () => {
  const vitals = create(VitalsSchema, {
    freshness: { a: { rows: 1n, p95Ms: 2n }, b: { rows: 1n, p95Ms: 7_000n } },
  });
  it("have the slowest of several sinks by minute", () => {
    const drawn = factsOf(vitals, NOW).filter((each) => each.metric === "freshnessP95Ms");
    expect(drawn.map((each) => [each.title, each.value])).toEqual([["Slowest sink", "7 s"]]);
  });
  it("have what a day costs, where a driver says so", () => {
    const cost = create(ReadMetricsResponseSchema, {
      cost: { age: { seconds: 60n }, cpuSecondsPerDay: 8_640, launchMemoryMib: 2_304n },
    }).cost!;
    expect(factsOf(vitals, NOW, cost).at(-1)).toEqual({
      title: "Cost a day",
      value: "2.4 h",
      note: "of a processor, 2,304 MiB reserved",
    });
    expect(factsOf(vitals, NOW).at(-1)!.title).toBe("Memory");
  });
});
