import type { Cluster, Stream } from "../gen/daggers/v1/spec_pb.ts";
import { pages } from "./read.svelte.ts";
import { access, catalog } from "./rpc.ts";
import { session } from "./session.svelte.ts";

/** Names of all messages of registered schemas. */
export const messagesOf = (signal: AbortSignal): Promise<string[]> =>
  pages(
    (pageToken) => catalog.listSchemas({ pageToken }, { signal }),
    (page) => page.messages,
  );
export const streamsOf = (signal: AbortSignal): Promise<Stream[]> =>
  pages(
    (pageToken) => catalog.listStreams({ pageToken }, { signal }),
    (page) => page.streams,
  );
export const clustersOf = (signal: AbortSignal): Promise<Cluster[]> =>
  pages(
    (pageToken) => catalog.listClusters({ pageToken }, { signal }),
    (page) => page.clusters,
  );
/** Names of the clusters where daggers may run. */
export const runners = async (signal: AbortSignal): Promise<string[]> =>
  (await clustersOf(signal)).flatMap((each) => (each.sparkMaster ? [each.name] : []));

/** Names of the teams that somebody may ask for: their own; of all, for an administrator. */
export async function teamsOf(signal: AbortSignal): Promise<string[]> {
  const all = await pages(
    (pageToken) => access.listTeams({ pageToken }, { signal }),
    (page) => page.teams.map((each) => each.name),
  );
  const own = session.who?.roles.map((each) => each.team) ?? [];
  return session.who?.administrator || !own.length ? all : own;
}
