import type { Component } from "svelte";

export interface Shown {
  title: string;
  /** What the address names, for example a dagger. */
  name: string;
  load: () => Promise<{ default: Component<{ name: string }> }>;
}
type Load = Shown["load"];

const SCREENS: [RegExp, string, Load][] = [
  [/^\/$/, "Daggers", () => import("./screens/list/List.svelte")],
  [/^\/daggers\/([^/]+)$/, "", () => import("./screens/dagger/Dagger.svelte")],
  [/^\/daggers\/([^/]+)\/map$/, "", () => import("./screens/map/Map.svelte")],
  [/^\/daggers\/([^/]+)\/edit$/, "", () => import("./screens/studio/Studio.svelte")],
  [/^\/new\/stream$/, "New stream", () => import("./screens/streams/Stream.svelte")],
  [/^\/new\/cluster$/, "New cluster", () => import("./screens/clusters/Cluster.svelte")],
  [/^\/new\/schema$/, "New schema", () => import("./screens/schemas/NewSchema.svelte")],
  [/^\/new\/sink$/, "New sink", () => import("./screens/sinks/Sink.svelte")],
  [/^\/streams\/([^/]+)$/, "", () => import("./screens/streams/Stream.svelte")],
  [/^\/clusters\/([^/]+)$/, "", () => import("./screens/clusters/Cluster.svelte")],
  [/^\/sinks\/([^/]+)$/, "", () => import("./screens/sinks/Sink.svelte")],
  [/^\/sinks$/, "Sinks", () => import("./screens/sinks/Sinks.svelte")],
  [/^\/new\/reference$/, "New reference table", () => import("./screens/references/Reference.svelte")],
  [/^\/references\/([^/]+)$/, "", () => import("./screens/references/Reference.svelte")],
  [/^\/references$/, "Reference tables", () => import("./screens/references/References.svelte")],
  [/^\/new$/, "New dagger", () => import("./screens/studio/Studio.svelte")],
  [/^\/alerts$/, "Alerts", () => import("./screens/alerts/Alerts.svelte")],
  [/^\/silences$/, "Silences", () => import("./screens/silences/Silences.svelte")],
  [/^\/routes$/, "Routes of alerts", () => import("./screens/routes/Teams.svelte")],
  [/^\/routes\/([^/]+)$/, "", () => import("./screens/routes/Routes.svelte")],
  [/^\/new\/silence$/, "New silence", () => import("./screens/silences/NewSilence.svelte")],
  [/^\/audit$/, "Audit", () => import("./screens/audit/Audit.svelte")],
  [/^\/streams$/, "Streams", () => import("./screens/streams/Streams.svelte")],
  [/^\/schemas$/, "Schemas", () => import("./screens/schemas/Schemas.svelte")],
  [/^\/archive$/, "Archive", () => import("./screens/archive/Archive.svelte")],
  [/^\/clusters$/, "Clusters", () => import("./screens/clusters/Clusters.svelte")],
  [/^\/hosts$/, "Hosts", () => import("./screens/hosts/Hosts.svelte")],
  [/^\/hosts\/([^/]+)$/, "", () => import("./screens/hosts/Host.svelte")],
  [/^\/teams$/, "Teams", () => import("./screens/teams/Teams.svelte")],
  [/^\/new\/team$/, "New team", () => import("./screens/teams/Register.svelte")],
  [/^\/teams\/([^/]+)$/, "", () => import("./screens/teams/Team.svelte")],
  [/^\/teams\/([^/]+)\/edit$/, "", () => import("./screens/teams/Register.svelte")],
];
const NOWHERE: Load = () => import("./screens/Nowhere.svelte");

/** The screen of an address. */
export function screen(path: string): Shown {
  for (const [pattern, title, load] of SCREENS) {
    const found = pattern.exec(path);
    if (found) {
      const name = decodeURIComponent(found[1] ?? "");
      return { title: title || name, name, load };
    }
  }
  return { title: "Nothing here", name: "", load: NOWHERE };
}
