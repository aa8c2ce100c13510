import { create } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { describe, expect, it } from "vitest";
import { AlertSchema } from "../gen/daggers/v1/alert_service_pb.ts";
import { DaggerSchema, Phase } from "../gen/daggers/v1/dagger_pb.ts";
import { QueryWindowSchema } from "../gen/daggers/v1/dagger_service_pb.ts";
import { DaggerSpecSchema } from "../gen/daggers/v1/spec_pb.ts";
import { VitalsSchema } from "../gen/daggers/v1/vitals_pb.ts";
import { begun } from "./draft.ts";
import { healthOf } from "./health.ts";
import { finder } from "./phase.ts";
import { received, shared } from "./share.ts";
import { branches } from "./tree.ts";
import { closes } from "./window.ts";

const window = (kind: string, size: number, slide = size) =>
  create(QueryWindowSchema, { kind, size: durationFromMs(size), slide: durationFromMs(slide) });

describe("the first window", () => {
  it("closes at its end and the wait for late records, before anything is heard", () =>
    expect(closes(window("TUMBLE", 60_000), 5_000, 90_000, null, 90_000)).toBe(125_000));
  it("closes as late as the watermark is behind", () =>
    expect(closes(window("TUMBLE", 60_000), 5_000, 90_000, 95_000, 102_000)).toBe(127_000));
  it("ends behind the watermark where that stands on an end", () =>
    expect(closes(window("TUMBLE", 60_000), 0, 0, 120_000, 120_000)).toBe(180_000));
  it("of windows that overlap is the next that ends", () =>
    expect(closes(window("HOP", 60_000, 10_000), 0, 91_000, null, 91_000)).toBe(100_000));
  it("is not said of sessions, nor of a query without one", () => {
    expect(closes(window("SESSION", 60_000), 0, 90_000, null, 90_000)).toBeNull();
    expect(closes(undefined, 0, 90_000, null, 90_000)).toBeNull();
  });
});

describe("a draft in an address", () => {
  const draft = {
    name: "orders",
    message: "examples.v1.Booking",
    spec: create(DaggerSpecSchema, { ...begun("pricing", "local"), sql: "SELECT 'ÄÖ😀 & =#%+' FROM `a`" }),
  };
  it("comes whole", () => expect(received(shared(draft))).toEqual(draft));
  it("is none where it was cut, or where there is none", () => {
    expect(received(shared(draft).slice(0, -9))).toBeNull();
    expect(received("#main")).toBeNull();
    expect(received("")).toBeNull();
  });
});

describe("a tree of a message", () => {
  it("has its fields in their order, with their types", () => {
    const made = branches(VitalsSchema).map((each) => `${each.number} ${each.name} ${each.type}`);
    expect(made.slice(0, 4)).toEqual([
      "1 dagger string",
      "2 generation int64",
      "3 heard_time Timestamp",
      "4 records_per_s double",
    ]);
    expect(made).toContain("14 quarantined map<string, int64>");
    expect(made).toContain("18 warnings repeated HealthWarning");
  });
  it("unfolds messages, those of Google's aside, and tells values of enums", () => {
    const of = Object.fromEntries(branches(VitalsSchema).map((each) => [each.name, each]));
    expect(of["warnings"]!.message?.name).toBe("HealthWarning");
    expect(of["heard_time"]!.message).toBeUndefined();
    const domain = branches(of["warnings"]!.message!).find((each) => each.name === "domain");
    expect(domain?.values).toContain("ERROR_DOMAIN_EXTERNAL");
  });
});

const dagger = (name: string, phase: Phase, lag: bigint) =>
  create(DaggerSchema, {
    name,
    phase,
    creator: "user:ada@example.org",
    spec: { team: "pricing", streams: [{ stream: "bookings" }] },
    vitals: { dagger: name, lag, recentLateRows: 2n, quarantined: { MALFORMED: 3n, NO_TIME: 4n } },
  });

describe("the health of a team", () => {
  it("is that of its daggers together, and its own alerts", () => {
    const of = (dagger: string) => create(AlertSchema, { dagger });
    const alerts = [of("a"), of("team/pricing")];
    const others = [of("others"), of("team/other"), of("platform")];
    const now = healthOf(
      "pricing",
      [dagger("a", Phase.RUNNING, 5n), dagger("b", Phase.FAILED, 7n), dagger("c", Phase.RUNNING, 0n)],
      [...alerts, ...others],
    );
    expect(now.phases).toEqual([
      ["Failed", 1],
      ["Running", 2],
    ]);
    expect(now.alerts).toEqual(alerts);
    expect(now.sums).toEqual([
      ["Lag", 12n, "records"],
      ["Late", 6n, "rows lately"],
      ["Quarantined", 0n, "records lately, 21 in all"],
    ]);
  });
  it("says of how many nobody knows how far behind they are", () => {
    const away = dagger("away", Phase.DEGRADED, 0n);
    away.vitals = create(VitalsSchema, { dagger: "away", generation: 3n, heardTime: { seconds: 1n } });
    const now = healthOf("pricing", [dagger("a", Phase.RUNNING, 5n), away], []);
    expect(now.sums[0]).toEqual(["Lag", 5n, "records; not known of 1"]);
  });
});

describe("a search", () => {
  const one = dagger("a", Phase.RUNNING, 0n);
  const topics = new Map([["bookings", "booking-log booking-log-2"]]);
  it("finds who made a dagger", () => expect(finder("ADA pricing")(one)).toBe(true));
  it("finds topics of its streams", () => {
    expect(finder("booking-log-2", topics)(one)).toBe(true);
    expect(finder("booking-log-2")(one)).toBe(false);
  });
});
