import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { expect, it } from "vitest";
import { DaggerSchema, DriverShadowSchema } from "../gen/daggers/v1/dagger_pb.ts";
import { beside } from "./cutover.ts";
import { zoned } from "./format.ts";

const NOW = Date.UTC(2026, 10, 25, 12, 0, 12);
const time = timestampFromMs(NOW - 12_000);

it("a dagger whose driver is alone says nothing of another", () => {
  expect(beside(create(DaggerSchema, { observedVersion: 4n }), NOW)).toBeNull();
});

it("a driver that catches up is told beside the one that writes", () => {
  const shadow = create(DriverShadowSchema, { version: 5n, time });
  expect(beside(create(DaggerSchema, { observedVersion: 4n, shadow }), NOW)).toBe(
    "Version 5 is catching up beside version 4, since 12 s.",
  );
});

it("behind a boundary it is told when the place is taken", () => {
  const boundary = timestampFromMs(NOW + 48_000);
  const shadow = create(DriverShadowSchema, { version: 5n, time, boundary });
  expect(beside(create(DaggerSchema, { observedVersion: 4n, shadow }), NOW)).toBe(
    `Version 5 takes the place of version 4 behind the windows that end at ${zoned(NOW + 48_000, NOW)}.`,
  );
});
