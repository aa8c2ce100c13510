import { create, type DescMessage, type MessageInitShape } from "@bufbuild/protobuf";
import { anyPack } from "@bufbuild/protobuf/wkt";
import { expect, it } from "vitest";
import { type Event, EventSchema } from "../gen/daggers/v1/dagger_service_pb.ts";
import {
  DaggerRequestedSchema,
  DegradedSchema,
  ExitedSchema,
  RelaunchScheduledSchema,
  RestartRequestedSchema,
  RunningSchema,
  StopMode,
  StopRequestedSchema,
} from "../gen/daggers/v1/events_pb.ts";
import { happened, why } from "./happened.ts";

function event<D extends DescMessage>(
  schema: D,
  fields: MessageInitShape<D>,
  more: MessageInitShape<typeof EventSchema> = {},
): Event {
  const data = anyPack(schema, create(schema, fields));
  return create(EventSchema, { type: schema.typeName, data, ...more });
}

it("a request says by whom, what for, and what it changed", () => {
  const asked = event(
    DaggerRequestedSchema,
    { name: "a", meta: { actor: "user:ana", message: "cities of the north, too" } },
    { version: 3n },
  );
  expect(why(asked, ["sql", "sinks"])).toEqual([
    "By user:ana.",
    "Cities of the north, too.",
    "Version 3 changed sql, sinks.",
  ]);
});

it("a request of nobody says so, and how it was meant", () => {
  expect(why(event(StopRequestedSchema, { meta: {}, mode: StopMode.NOW }))).toEqual([
    "By anonymous.",
    "At once, without finishing its batch.",
  ]);
  expect(why(event(RestartRequestedSchema, { meta: { actor: "bob" }, fromStart: true }))).toEqual([
    "By bob.",
    "From the start, without its checkpoint.",
  ]);
});

it("what went wrong is a sentence, and what comes next has its time", () => {
  const error = { reason: "SINK_UNAVAILABLE", detail: "influx: InfluxDB at http://db does not answer." };
  expect(why(event(ExitedSchema, { code: 1, error }))).toEqual([
    "Sink unavailable: influx: InfluxDB at http://db does not answer (exit code 1).",
  ]);
  expect(why(event(ExitedSchema, { code: -9 }))).toEqual(["Killed by signal 9."]);
  expect(why(event(ExitedSchema, { code: 0 }))).toEqual([]);
  expect(why(event(DegradedSchema, { reasons: ["NO_PROGRESS", "SINK_RETRYING"] }))).toEqual([
    "No progress, sink retrying.",
  ]);
  const again = event(RelaunchScheduledSchema, { attempt: 2, notBefore: { seconds: 1_800_000_000n } });
  expect(why(again)[0]).toMatch(/^Attempt 2, not before .+\.$/);
});

it("a refusal, and a message of another version, are told as far as they are known", () => {
  const refused = event(RunningSchema, {}, { refused: "it is of an older launch" });
  expect(why(refused)).toEqual(["It is of an older launch."]);
  expect(happened(refused).tone).toBe("warn");
  const unknown = create(EventSchema, {
    type: "daggers.v1.Teleported",
    data: { typeUrl: "type.googleapis.com/daggers.v1.Teleported", value: new Uint8Array([8, 1]) },
  });
  expect([why(unknown), happened(unknown).what]).toEqual([[], "teleported"]);
});
