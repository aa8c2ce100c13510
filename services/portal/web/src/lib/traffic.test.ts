import { describe, expect, it } from "vitest";
import { each, traffic } from "./traffic.ts";

const UNKNOWN = { topicsUnchecked: "no host of drivers has answered in 4 s" };

describe("what the topics of a stream are", () => {
  it("is partitions, and records a second where these are known", () => {
    expect(traffic({ partitions: 8, recordsPerSecond: 1234.56, topicsUnchecked: "" })).toBe(
      "8 partitions · 1,234.6 records/s",
    );
    expect(traffic({ partitions: 1, recordsPerSecond: 0, topicsUnchecked: "" })).toBe(
      "1 partition · 0 records/s",
    );
    expect(traffic({ partitions: 0, topicsUnchecked: "" })).toBe("0 partitions");
  });
  it("is not known where nobody looks, and says why", () => {
    expect(traffic(UNKNOWN)).toBe("How much is there is not known: no host of drivers has answered in 4 s");
    expect(traffic({ topicsUnchecked: "" })).toBe("");
  });
  it("is asked of one stream after another, and one that fails keeps no other back", async () => {
    const told: [string, string][] = [];
    let under = 0;
    const ask = async (name: string) => {
      expect(++under).toBe(1);
      await Promise.resolve();
      under--;
      if (name === "gone") throw new Error("not there");
      return { partitions: name.length, topicsUnchecked: "" };
    };
    await each(["ab", "gone", "abc"], ask, (...one) => told.push(one));
    expect(told).toEqual([
      ["ab", "2 partitions"],
      ["abc", "3 partitions"],
    ]);
  });
});
