import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { describe, expect, it } from "vitest";
import { type Alert, AlertSchema, ListedSilenceSchema } from "../gen/daggers/v1/alert_service_pb.ts";
import { AlertCondition } from "../gen/daggers/v1/alerts_pb.ts";
import { placeOf } from "./alerts.ts";
import { CONDITIONS, matchersOf, newSilence, parse, request, stateOf, valuesOf, write } from "./silences.ts";

const alert = (fields: object): Alert => create(AlertSchema, { dagger: "rides", ...fields });
const RULE = alert({ condition: AlertCondition.RULE, rule: "few", key: { tag_city: "7", "a b": "x" } });
const NOW = 1_800_000_000_000;
const MINUTE = 60_000;

describe("matchers", () => {
  it("are of one alert, with the rule and the key that it is true of", () => {
    expect(matchersOf(alert({ condition: AlertCondition.NO_PROGRESS })).map(write)).toEqual([
      "dagger=rides",
      "condition=no_progress",
    ]);
    expect(matchersOf(RULE).map(write)).toEqual([
      "dagger=rides",
      "condition=rule",
      "rule=few",
      "key_tag_city=7",
      "key_a_20_b=x",
    ]);
  });
  it("are read as they are written, and what is none is left out", () => {
    const texts = ["dagger=trial_*", "severity!=critical", "key_city=a=b"];
    expect(texts.flatMap(parse).map(write)).toEqual(texts);
    expect(["", "dagger", "=x"].flatMap(parse)).toEqual([]);
  });
  it("come to a new silence by its address", () => {
    const found = new URL(newSilence("pricing", matchersOf(RULE)), "http://a").searchParams;
    expect(found.get("team")).toBe("pricing");
    expect(found.getAll("matcher").flatMap(parse)).toEqual(matchersOf(RULE));
    expect(newSilence("", [])).toBe("/new/silence?");
  });
  it("are offered the values that a label may have, or has among open alerts", () => {
    expect(valuesOf("condition", [], [])).toEqual(CONDITIONS);
    expect(CONDITIONS).toContain("kafka_away");
    expect(CONDITIONS).not.toContain("unspecified");
    expect(valuesOf("severity", [], [])).toEqual(["warning", "error", "critical"]);
    expect(valuesOf("team", [], ["", "pricing"])).toEqual(["pricing"]);
    expect(valuesOf("key_tag_city", [RULE, RULE], [])).toEqual(["7"]);
  });
});

describe("a silence", () => {
  it("begins when it is asked for, or at a time of who asks", () => {
    const matchers = parse("dagger=a");
    expect(request("t", matchers, "", MINUTE, " disk ")).toMatchObject({
      team: "t",
      matchers: ["dagger=a"],
      begin: undefined,
      reason: "disk",
    });
    const begin = request("t", matchers, "2027-01-15T08:00", MINUTE, "disk").begin;
    expect(begin).toMatchObject(timestampFromMs(new Date(2027, 0, 15, 8).getTime()));
  });
  it("is planned, silent, over, or was ended", () => {
    const state = (begin: number, end: number, endedBy = ""): string =>
      stateOf(
        create(ListedSilenceSchema, {
          endedBy,
          silence: { begin: timestampFromMs(NOW + begin), end: timestampFromMs(NOW + end) },
        }),
        NOW,
      )[1];
    expect(state(MINUTE, 2 * MINUTE)).toBe("Planned");
    expect(state(-MINUTE, MINUTE)).toBe("Silent");
    expect(state(-MINUTE, 0)).toBe("Over");
    expect(state(-MINUTE, 0, "user:ada")).toBe("Ended");
  });
});

describe("what an alert is of", () => {
  it.each([
    ["rides", "/daggers/rides?tab=alerts"],
    ["team/pricing", "/teams/pricing"],
    ["principal/user:ada@example.org", "/audit?principal=user%3Aada%40example.org"],
    ["principal/unauthenticated", "/audit?kind=unauthenticated"],
    ["cluster/blue", "/clusters/blue"],
    ["host/spark-1", "/hosts"],
    ["store/influx:8086", ""],
    ["platform", ""],
  ])("%s has its page", (dagger, place) => expect(placeOf(alert({ dagger }))).toBe(place));
});
