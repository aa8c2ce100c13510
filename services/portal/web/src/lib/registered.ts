import type { Dagger } from "../gen/daggers/v1/dagger_pb.ts";
import type { ClusterUse } from "../gen/daggers/v1/catalog_service_pb.ts";
import type { Cluster, ReferenceTable, Stream } from "../gen/daggers/v1/spec_pb.ts";
import { pages } from "./read.svelte.ts";
import { access, catalog, daggers } from "./rpc.ts";
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
/** The topics of each stream, separated by spaces. */
export const topicsOf = async (): Promise<ReadonlyMap<string, string>> =>
  new Map((await streamsOf(new AbortController().signal)).map((each) => [each.name, each.topics.join(" ")]));
export const clustersOf = (signal: AbortSignal): Promise<Cluster[]> =>
  pages(
    (pageToken) => catalog.listClusters({ pageToken }, { signal }),
    (page) => page.clusters,
  );
export const referencesOf = (signal: AbortSignal): Promise<ReferenceTable[]> =>
  pages(
    (pageToken) => catalog.listReferences({ pageToken }, { signal }),
    (page) => page.references,
  );
/** Every cluster, with what runs there. */
export const clustersInUse = (signal: AbortSignal): Promise<[Cluster, ClusterUse | undefined][]> =>
  pages(
    (pageToken) => catalog.listClusters({ pageToken }, { signal }),
    (page) => page.clusters.map((each, at) => [each, page.uses[at]]),
  );
/** All daggers, of one team or of all. */
export const daggersOf = (team: string, signal: AbortSignal): Promise<Dagger[]> =>
  pages(
    (pageToken) => daggers.listDaggers({ team, pageToken, pageSize: 1000 }, { signal }),
    (page) => page.daggers,
  );
/** The streams that carry a message, and the daggers that read these: of those whose specifications are shown. */
export async function readersOf(
  message: string,
  signal: AbortSignal,
): Promise<{ streams: string[]; daggers: string[] }> {
  const [carrying, all] = await Promise.all([
    pages(
      (pageToken) => catalog.listStreams({ message, pageToken }, { signal }),
      (page) => page.streams,
    ),
    daggersOf("", signal),
  ]);
  const streams = carrying.map((each) => each.name);
  const reads = (each: Dagger): boolean =>
    each.spec?.streams.some((input) => streams.includes(input.stream)) ?? false;
  return { streams, daggers: all.filter(reads).map((each) => each.name) };
}
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
