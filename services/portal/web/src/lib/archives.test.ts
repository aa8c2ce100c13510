import { create } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { DaggerSchema } from "../gen/daggers/v1/dagger_pb.ts";
import { archives, notebook } from "./archives.ts";

const dagger = (name: string, stream: string, location?: string, table = "") =>
  create(DaggerSchema, {
    name,
    spec: {
      streams: [{ table: "data_stream", stream }],
      sinks: [
        { kind: { case: "log", value: {} } },
        ...(location === undefined
          ? []
          : [{ registered: "lake", kind: { case: "parquet" as const, value: { location, table } } }]),
      ],
    },
  });

it("archives are the sinks of kind parquet, by stream", () => {
  const found = archives([
    dagger("b", "rides", "/lake"),
    dagger("a", "rides", "s3://lake/cold", "orders"),
    dagger("z", "bookings", ""),
    dagger("none", "bookings"),
  ]);
  expect(found.map((each) => [each.dagger.name, each.path])).toEqual([
    ["z", "lake: z"],
    ["a", "s3://lake/cold/orders"],
    ["b", "/lake/b"],
  ]);
});

it("a notebook has the path of the table in its address", () => {
  const table = { path: "s3://lake/a b", table: "a b" };
  expect(notebook("https://n.example/open?path={path}&t={table}", table)).toBe(
    "https://n.example/open?path=s3%3A%2F%2Flake%2Fa%20b&t=a%20b",
  );
  expect(notebook(null, table)).toBeNull();
});
