import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { expect, test } from "vitest";
import { type Dagger, DaggerSchema, Phase } from "../gen/daggers/v1/dagger_pb.ts";
import { byTeam, concerns } from "./concerns.ts";

const NOW = Date.UTC(2026, 10, 29, 12);
const HOUR = 3_600_000;
const dagger = (team: string, phase: Phase, more: object = {}): Dagger =>
  create(DaggerSchema, { name: `${team}-${phase}`, spec: { team }, phase, ...more });

test("whose trouble is worst stands first, and who has none but a change last", () => {
  const teams = byTeam(
    [
      dagger("calm", Phase.RUNNING),
      dagger("edits", Phase.RUNNING, { updateTime: timestampFromMs(NOW - HOUR) }),
      dagger("late", Phase.RUNNING, { vitals: { recentLateRows: 3n } }),
      dagger("worst", Phase.FAILED),
      dagger("worst", Phase.DEGRADED, { vitals: { recentQuarantined: 1n } }),
    ],
    NOW,
  );

  expect(teams.map(({ team, troubled }) => [team, troubled])).toEqual([
    ["worst", true],
    ["late", true],
    ["edits", false],
  ]);
  expect(teams[0]!.counts).toEqual({ bad: 1, warn: 1, late: 0, quarantined: 1, changed: 0 });
});
test("a change is one of the last 24 hours", () => {
  const changed = (before: number): boolean =>
    concerns(dagger("a", Phase.RUNNING, { updateTime: timestampFromMs(NOW - before) }), "changed", NOW);

  expect([HOUR, 25 * HOUR].map(changed)).toEqual([true, false]);
});
