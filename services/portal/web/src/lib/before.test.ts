import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { type QuotaUse, QuotaUseSchema } from "../gen/daggers/v1/access_service_pb.ts";
import { ClusterUseSchema } from "../gen/daggers/v1/catalog_service_pb.ts";
import { hindrances } from "./before.ts";

const use = (name: string, used: number, hard?: bigint): QuotaUse =>
  create(QuotaUseSchema, { name, used, quota: { hard } });
const room = (left: number | undefined) => create(ClusterUseSchema, { cluster: "local", room: left });

describe("before a dagger is asked for", () => {
  it("a spent quota refuses it, or lets it wait", () => {
    const uses = [use("daggers", 40, 40n), use("drivers", 3, 3n), use("memory_mib", 10, 20n)];
    expect(
      hindrances("pricing", uses, room(4), true).map((each) => [each.text.split(",")[0], each.refuses]),
    ).toEqual([
      ["Team pricing has 40 daggers", true],
      ["Team pricing uses 3 drivers at once", false],
    ]);
  });
  it("a missing room lets it wait", () => {
    expect(hindrances("pricing", [], room(0), true)).toEqual([
      {
        text: "There is no room for another driver. A new dagger on local waits until another one stops.",
        refuses: false,
      },
    ]);
  });
  it("nothing stands in the way of an edit, or where nobody has said how much there is", () => {
    expect(hindrances("pricing", [use("daggers", 40, 40n)], room(0), false)).toEqual([]);
    expect(hindrances("pricing", [use("daggers", 40)], room(undefined), true)).toEqual([]);
    expect(hindrances("pricing", [use("daggers", 39, 40n)], undefined, true)).toEqual([]);
  });
  it("spent previews are told of, also of an edit", () => {
    expect(
      hindrances("pricing", [use("preview_seconds_per_hour", 600, 600n)], undefined, false),
    ).toHaveLength(1);
  });
});
