import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { FreshnessSchema, SpoolSchema } from "../gen/daggers/v1/telemetry_pb.ts";
import { VitalsSchema } from "../gen/daggers/v1/vitals_pb.ts";
import { fresh, took, waiting } from "./freshness.ts";

describe("how fresh rows are", () => {
  it("is told in units that people read", () => {
    expect([0n, 340n, 5_900n, 60_000n, 7_200_000n].map(took)).toEqual([
      "0 ms",
      "340 ms",
      "5.9 s",
      "1 min",
      "2 h",
    ]);
  });
  it("is a card for each sink, with what waits for one", () => {
    const now = 1_000_000;
    const vitals = create(VitalsSchema, {
      freshness: {
        files: create(FreshnessSchema, { waitingSince: { seconds: 820n } }),
        crm: create(FreshnessSchema, { rows: 9n, p50Ms: 400n, p95Ms: 5_900n, p99Ms: 61_000n }),
      },
    });
    expect(fresh(vitals, now)).toEqual([
      ["Fresh in crm", "5.9 s", "p95 of an hour; p50 400 ms, p99 1 min"],
      ["Fresh in files", "–", "a row waits, 3 min old"],
    ]);
    expect(fresh(create(VitalsSchema))).toEqual([]);
  });
  it("tells what waits for a sink, and how fast it is written", () => {
    const now = 1_000_000;
    const vitals = create(VitalsSchema, {
      spools: {
        db: create(SpoolSchema, { rows: 7n, paused: true }),
        crm: create(SpoolSchema, { rows: 1_200n, since: { seconds: 820n }, rowsPerSecond: 30 }),
      },
    });
    expect(waiting(vitals, now)).toEqual([
      ["Waits for crm", "1,200 rows", "the oldest for 3 min; 30 rows/s are written"],
      ["Waits for db", "7 rows", "paused"],
    ]);
  });
});
