import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { describe, expect, it } from "vitest";
import { HostedDaggerSchema, HostMoveSchema, HostSchema } from "../gen/daggers/v1/fleet_service_pb.ts";
import { moving, progress, resources, silence, silentSince, stateOf } from "./hosts.ts";

const NOW = 1_800_000_000_000;
const heardTime = timestampFromMs(NOW - 1_000);
const host = (fields: object) => create(HostSchema, { name: "a", heardTime, ...fields });

describe("hosts", () => {
  it("are gone, silent, drained or cordoned before they are anything else", () => {
    const words = [
      host({}),
      host({ leads: true }),
      host({ leads: true, cordon: {} }),
      host({ cordon: { drains: true } }),
      host({ cordon: {}, heardTime: timestampFromMs(NOW - 60_000) }),
      host({ heardTime: undefined }),
      host({ gone: {} }),
    ].map((each) => stateOf(each, NOW)[1]);
    expect(words).toEqual(["Ready", "Leads", "Cordoned", "Drained", "Silent", "Silent", "Gone"]);
  });

  it("say since when they are silent", () => {
    expect(silentSince(host({}), NOW)).toBe(null);
    expect(silentSince(host({ heardTime: timestampFromMs(NOW - 60_000) }), NOW)).toBe(NOW - 60_000);
    expect(silentSince(host({ heardTime: undefined }), NOW)).toBe(null);
  });

  it("say what they have, where they have registered", () => {
    expect(resources(host({}))).toBe("–");
    expect(resources(host({ registered: { cores: 4, memoryMib: 900n } }))).toBe("4 cores, 900 MiB");
  });

  it("move daggers, critical ones last, and say how far each is", () => {
    const daggers = [{ name: "a", critical: true }, { name: "c" }, { name: "b" }, { name: "d", stays: {} }];
    const names = moving(daggers.map((each) => create(HostedDaggerSchema, each))).map((each) => each.name);
    expect(names).toEqual(["b", "c", "a"]);

    const move = create(HostMoveSchema, { dagger: "b" });
    const said = [progress(move)];
    move.lastCommit = timestampFromMs(NOW);
    said.push(progress(move));
    move.toHost = "h";
    said.push(progress(move));
    move.firstCommit = timestampFromMs(NOW + 12_300);
    said.push(progress(move));
    expect(said).toEqual([
      "finishes its batch",
      "has stopped",
      "starts on h",
      "runs on h: 12.3 s between two batches",
    ]);
    expect(silence(create(HostMoveSchema))).toBe(null);
  });
});
