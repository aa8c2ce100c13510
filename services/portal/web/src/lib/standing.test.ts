import { beforeEach, describe, expect, it } from "vitest";
import { answered, connection, ended, lost } from "./connection.svelte.ts";
import { lasting, zoned } from "./format.ts";
import { ageOf, outage, still, STILL_MS } from "./standing.ts";

const NOW = Date.UTC(2026, 10, 23, 12);
const NONE = { away: null, deaf: "", answered: NOW - 4_000, heard: NOW - 4_000 };

describe("what does not answer", () => {
  it("is one sentence that says since when", () => {
    expect(outage(NONE, NOW)).toBe("");
    expect(outage({ ...NONE, away: "gateway", deaf: "Kafka does not answer" }, NOW)).toBe(
      `The gateway has not answered since ${zoned(NOW - 4_000, NOW)}: this page goes on by itself when it does.`,
    );
    expect(outage({ ...NONE, deaf: "the Kafka of the log does not answer." }, NOW)).toBe(
      `The Kafka of the log does not answer since ${zoned(NOW - 4_000, NOW)}: what is shown is of then.`,
    );
    expect(outage({ ...NONE, away: "portal", answered: null }, NOW)).toMatch(
      /^The portal has not answered: /,
    );
  });
});

describe("numbers", () => {
  it("stand still once nobody has renewed them for long, and say since when", () => {
    expect([still(NOW, NOW + STILL_MS - 1), still(NOW, NOW + STILL_MS), still(null, NOW)]).toEqual([
      false,
      true,
      false,
    ]);
    expect(ageOf(NOW - 720_000, NOW)).toBe(`as of ${zoned(NOW - 720_000, NOW)}, ${lasting(720_000)} ago`);
  });
});

describe("the connection", () => {
  beforeEach(() => answered("", NOW));
  it("tells pages when answers come again, and only then", () => {
    const { back } = connection;
    answered("", NOW + 1);
    expect(connection.back).toBe(back);
    lost("gateway");
    lost("gateway");
    expect([connection.away, connection.answered]).toEqual(["gateway", NOW + 1]);
    answered(null, NOW + 2);
    expect([connection.away, connection.back]).toEqual([null, back + 1]);
    ended();
    answered("", NOW + 3);
    expect([connection.over, connection.back]).toEqual([false, back + 2]);
  });
  it("keeps when the gateway heard all last, while it says that it does not", () => {
    answered("Kafka does not answer", NOW + 1);
    answered("Kafka does not answer", NOW + 9_000);
    expect([connection.deaf, connection.heard, connection.answered]).toEqual([
      "Kafka does not answer",
      NOW,
      NOW + 9_000,
    ]);
    answered(null, NOW + 10_000); // of a refusal nobody knows
    expect(connection.deaf).toBe("Kafka does not answer");
    answered("", NOW + 11_000);
    expect([connection.deaf, connection.heard]).toEqual(["", NOW + 11_000]);
  });
});
