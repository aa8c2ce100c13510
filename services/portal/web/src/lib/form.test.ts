import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { FindingSchema } from "../gen/daggers/v1/findings_pb.ts";
import { ClusterSchema, RegisteredSinkSchema, StreamSchema } from "../gen/daggers/v1/spec_pb.ts";
import { OF_CLUSTER, OF_SINK, ofStream } from "./catalogue.ts";
import { at, elsewhere, type Field, findings, names } from "./form.ts";

const found = ["stream.topics[1]", "stream.topics", "stream.topics_of", "stream.name", "request_id"].map(
  (field) => create(FindingSchema, { field, message: `${field} is wrong` }),
);
/** A message after these texts were written into its fields. */
const written = <M>(message: M, fields: Field<M>[], texts: Record<string, string>): M =>
  fields.reduce((now, each) => (each.path in texts ? each.put(now, texts[each.path]!) : now), message);

describe("findings of a form", () => {
  it("stand at the field, those about a part of it, too", () => {
    expect(at(found, "stream.topics")).toBe("stream.topics[1] is wrong. stream.topics is wrong.");
    expect(at(found, "stream.cluster")).toBe("");
  });
  it("stand below it when no field has them", () => {
    const fields = [{ path: "stream.topics" }, { path: "stream.name" }];
    expect(elsewhere(found, fields).map((each) => each.field)).toEqual(["stream.topics_of", "request_id"]);
  });
  it("are none of an error of another kind", () => expect(findings(new Error("away"))).toEqual([]));
});

describe("the fields of what is registered", () => {
  it("give back what was written", () => {
    const fields = ofStream(["local"], ["a.B"]);
    const texts = {
      "stream.name": "rides",
      "stream.cluster": "local",
      "stream.topics": "one, two",
      "stream.message": "a.B",
      "stream.time_field": "at",
      "stream.sensitive": "who.phone",
    };
    const made = written(create(StreamSchema), fields, texts);
    expect(made.topics).toEqual(["one", "two"]);
    expect(Object.fromEntries(fields.map((each) => [each.path, each.get(made)]))).toEqual(texts);
  });
  it("leave alone what has no field", () => {
    const cluster = create(ClusterSchema, {
      kafka: { bootstrapServers: "a:1", properties: { acks: "all" } },
    });
    const made = written(cluster, OF_CLUSTER, { "cluster.kafka.bootstrap_servers": "b:1" });
    expect(made.kafka).toMatchObject({ bootstrapServers: "b:1", properties: { acks: "all" } });
    expect(made.influx).toBeUndefined();
  });
  it("bound the rows of a sink, and not by what is no number", () => {
    const path = "sink.limit.rows_per_second";
    const sink = create(RegisteredSinkSchema);
    expect(written(sink, OF_SINK, { [path]: "2.5" }).limit?.rowsPerSecond).toBe(2.5);
    expect(written(sink, OF_SINK, { [path]: "many" }).limit?.rowsPerSecond).toBe(0);
  });
  it("take names apart", () => expect(names(" a, b\nc ,")).toEqual(["a", "b", "c"]));
});
