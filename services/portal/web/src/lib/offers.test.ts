import { create } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { OfferedStreamSchema } from "../gen/daggers/v1/dagger_service_pb.ts";
import { offerOf, steps } from "./offers.ts";

const stream = {
  name: "hourly",
  topics: ["hourly-rows"],
  message: "outputs.hourly.Row",
  timeField: "window_start",
};

test("an offer for JSON names the message, the further topic and the stream", () => {
  const offer = create(OfferedStreamSchema, {
    sink: "kafka",
    stream,
    schema: { messages: ["outputs.hourly.Row"] },
    furtherSink: { kind: { case: "kafka", value: { topic: "hourly-rows" } } },
  });

  expect(steps("hourly", offer).map((each) => each.split(/[:,.]/)[0])).toEqual([
    "Message outputs",
    "hourly gets a further sink",
    "Topic hourly-rows is registered as a stream",
  ]);
});
test("messages that are registered are a stream at once", () => {
  expect(steps("hourly", create(OfferedStreamSchema, { sink: "kafka", stream }))).toHaveLength(1);
});
test("the page of an offer has the dagger in its address", () => {
  expect(offerOf("a b")).toBe("/new/stream?of=a+b");
});
