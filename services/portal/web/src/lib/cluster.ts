import type { Cluster } from "../gen/daggers/v1/spec_pb.ts";
import { catalog } from "./rpc.ts";

/** A cluster; nothing where it is not shown. For pages that seldom ask, which load the catalogue's messages then. */
export async function clusterOf(name: string): Promise<Cluster | undefined> {
  try {
    return (await catalog.getCluster({ name })).cluster;
  } catch {
    return undefined;
  }
}
