import type { QuotaUse } from "../gen/daggers/v1/access_service_pb.ts";
import type { ClusterUse } from "../gen/daggers/v1/catalog_service_pb.ts";
import { count, many } from "./format.ts";

/** What stands in the way of a dagger before it is asked for. */
export interface Hindrance {
  text: string;
  /** Whether it would be refused; else it is created, and waits. */
  refuses: boolean;
}
const WAITING: Record<string, string> = {
  drivers: "drivers at once",
  memory_mib: "MiB of memory",
};
/** The memory of a launch that says nothing of it is unknown here: only what is used up is told. */
const spent = (use: QuotaUse | undefined): use is QuotaUse =>
  use?.quota?.hard !== undefined && use.used >= Number(use.quota.hard);

/** What a team and a cluster have no room for; `fresh`: whether it would be a new dagger. */
export function hindrances(
  team: string,
  uses: QuotaUse[],
  cluster: ClusterUse | undefined,
  fresh: boolean,
): Hindrance[] {
  const found: Hindrance[] = [];
  const named = (name: string): QuotaUse | undefined => uses.find((each) => each.name === name);
  const daggers = named("daggers");
  if (fresh && spent(daggers))
    found.push({
      text: `Team ${team} has ${many(daggers.used, "dagger")}, as many as its quota allows. Delete one, or ask an administrator for more.`,
      refuses: true,
    });
  for (const [name, what] of Object.entries(WAITING)) {
    const use = named(name);
    if (fresh && spent(use))
      found.push({
        text: `Team ${team} uses ${count(use.used)} ${what}, as many as its quota allows. A new dagger waits until another one stops.`,
        refuses: false,
      });
  }
  const previews = named("preview_seconds_per_hour");
  if (spent(previews))
    found.push({
      text: `Team ${team} has used its previews of this hour. A preview is refused until some of it has passed.`,
      refuses: false,
    });
  if (fresh && cluster?.room === 0)
    found.push({
      text: `There is no room for another driver. A new dagger on ${cluster.cluster} waits until another one stops.`,
      refuses: false,
    });
  return found;
}
