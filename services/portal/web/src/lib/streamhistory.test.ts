import { create, toBinary } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { type Event, EventSchema } from "../gen/daggers/v1/dagger_service_pb.ts";
import { StreamRegisteredSchema } from "../gen/daggers/v1/events_pb.ts";
import { type Stream, StreamSchema } from "../gen/daggers/v1/spec_pb.ts";
import { fieldChanges, registrations, streamChanges } from "./streamhistory.ts";

const stream = (more: Partial<Stream> = {}): Stream =>
  create(StreamSchema, {
    name: "orders",
    cluster: "local",
    topics: ["a"],
    message: "m.M",
    ...more,
  } as object);
const registered = (sequence: bigint, of: Stream, refused = ""): Event => {
  const told = create(StreamRegisteredSchema, { stream: of, meta: { actor: "ana" } });
  return create(EventSchema, {
    sequence,
    refused,
    type: "daggers.v1.StreamRegistered",
    data: {
      typeUrl: "type.googleapis.com/daggers.v1.StreamRegistered",
      value: toBinary(StreamRegisteredSchema, told),
    },
  });
};

test("the newest registration stands first, and says what it changed and who asked", () => {
  const events = [registered(1n, stream()), registered(2n, stream({ topics: ["a", "b"], writer: "hourly" }))];

  expect(registrations(events, "m.M").map(({ sequence, by, changes }) => [sequence, by, changes])).toEqual([
    [2n, "ana", ["Topics: a,b, was a.", "Written by: hourly, was none."]],
    [1n, "ana", ["Stream registered."]],
  ]);
});
test("what was refused, and what is the same again, is no history", () => {
  const events = [
    registered(1n, stream()),
    registered(2n, stream({ topics: ["b"] }), "another version"),
    registered(3n, stream()),
  ];

  expect(registrations(events, "m.M").map((each) => each.sequence)).toEqual([1n]);
});
test("fields that came, went and changed are named with their types", () => {
  const before = new Map([
    ["id", "string"],
    ["fare", "float"],
    ["old", "int32"],
  ]);
  const after = new Map([
    ["id", "string"],
    ["fare", "double"],
    ["city", "string"],
  ]);

  expect(fieldChanges("m.M", before, after)).toEqual([
    "New: city (string).",
    "Removed: old.",
    "fare is double, was float.",
  ]);
  expect(fieldChanges("m.M", undefined, after)).toEqual(["Message m.M registered: 3 fields."]);
});
test("a stream that is registered as it is changes nothing", () => {
  expect(streamChanges(stream(), stream())).toEqual([]);
});
