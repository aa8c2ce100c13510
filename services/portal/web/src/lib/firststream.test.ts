import { create, createFileRegistry } from "@bufbuild/protobuf";
import {
  FieldDescriptorProto_Label as Label,
  FieldDescriptorProto_Type as Type,
} from "@bufbuild/protobuf/wkt";
import { file_google_protobuf_timestamp, FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { describe, expect, it } from "vitest";
import { DiscoveredTopicSchema, MessageFitSchema } from "../gen/daggers/v1/catalog_service_pb.ts";
import { type Candidate, eventTimes, fits, newDaggerOn, ranked, streamName } from "./firststream.ts";

const field = (
  name: string,
  number: number,
  typeName = ".google.protobuf.Timestamp",
  label = Label.OPTIONAL,
) => ({
  name,
  number,
  label,
  type: Type.MESSAGE,
  typeName,
});
const files = create(FileDescriptorSetSchema, {
  file: [
    file_google_protobuf_timestamp.proto,
    {
      name: "trips.proto",
      package: "trips",
      syntax: "proto3",
      dependency: ["google/protobuf/timestamp.proto"],
      messageType: [
        {
          name: "Trip",
          field: [
            field("created_at", 1),
            field("updated_at", 2),
            field("stops", 3, undefined, Label.REPEATED),
            field("place", 4, ".trips.Place"),
            field("event_timestamp", 5),
            field("next", 6, ".trips.Trip"),
          ],
        },
        { name: "Place", field: [field("event_time", 1)] },
        { name: "Nothing" },
      ],
    },
  ],
});
const registry = createFileRegistry(files);
const candidate = (topic: string, score: number, recordsPerSecond = 0, coverage = 1): Candidate => ({
  cluster: "local",
  topic: create(DiscoveredTopicSchema, { topic, recordsPerSecond }),
  fit: create(MessageFitSchema, { message: "trips.Trip", score, coverage }),
});

describe("a first stream", () => {
  it("has its event time in a single timestamp, the likeliest first", () => {
    expect(eventTimes(registry.getMessage("trips.Trip")!).slice(0, 5)).toEqual([
      "event_timestamp",
      "created_at",
      "updated_at",
      "place.event_time",
      "next.event_timestamp",
    ]);
    expect(eventTimes(registry.getMessage("trips.Nothing")!)).toEqual([]);
  });
  it("has a name that may be one, and that no stream has", () => {
    const taken = new Set(["booking-log", "booking-log-2"]);
    const names = ["booking-log", "Trip.Events", "42", "x", "_a_", "é", "a".repeat(90)];
    expect(names.map((each) => streamName(each, taken))).toEqual([
      "booking-log-3",
      "trip-events",
      "stream",
      "stream-x",
      "stream-a",
      "stream",
      "a".repeat(63),
    ]);
    expect(streamName("a".repeat(90), new Set(["a".repeat(63)]))).toBe(`${"a".repeat(61)}-2`);
  });
  it("is of the topic that fits best, and of these of the one with the most records", () => {
    const all = [candidate("b", 0.5, 9), candidate("a", 1, 1), candidate("c", 1, 5), candidate("d", 0.95)];
    const short = candidate("short", 1, 20, 0.25); // its records have one field of four: much decodes as that
    expect(ranked([short, ...all]).map((each) => each.topic.topic)).toEqual(["c", "a", "short", "d", "b"]);
    expect(ranked(all).map(fits)).toEqual([true, true, true, false]);
  });
  it("is chosen in the studio by an address", () => {
    expect(newDaggerOn("a", "trips.Trip")).toBe("/new?message=trips.Trip&streams=a");
  });
});
