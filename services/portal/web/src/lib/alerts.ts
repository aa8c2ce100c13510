import type { Alert } from "../gen/daggers/v1/alert_service_pb.ts";
import { AlertSeverity } from "../gen/daggers/v1/alerts_pb.ts";
import { pages } from "./read.svelte.ts";
import { alerts } from "./rpc.ts";

/** How often a page that shows alerts asks for them. */
export const LOOK_MS = 5_000;

/** Alerts of a dagger, or of all without a name: those that are open; with `over` also the newest that are not. */
export const alertsOf = (dagger: string, over: boolean, signal: AbortSignal): Promise<Alert[]> =>
  pages(
    (pageToken) => alerts.listAlerts({ dagger, pageToken, includeResolved: over }, { signal }),
    (page) => page.alerts,
  );

/** The key that a rule is true of, its columns by name; empty of all other conditions. */
export const keyOf = (alert: Alert): [string, string][] =>
  Object.entries(alert.key).sort(([one], [other]) => (one < other ? -1 : 1));

/** How soon a person has to look, in a word: critical, error, warning; empty where nobody said. */
export const severityOf = (alert: Alert): string =>
  alert.severity ? (AlertSeverity[alert.severity] ?? "").toLowerCase() : "";

/** Where what an alert is of has a page: a dagger, a team, or whose calls were refused; nothing of the platform. */
export function placeOf(alert: Alert): string {
  const [kind, name] = alert.dagger.split(/\/(.*)/s) as [string, string | undefined];
  if (name === undefined) return kind === "platform" ? "" : `/daggers/${kind}?tab=alerts`;
  if (kind === "team") return `/teams/${name}`;
  const whose: Record<string, string> =
    name === "unauthenticated" ? { kind: "unauthenticated" } : { principal: name };
  return `/audit?${new URLSearchParams(whose)}`;
}

/** Which one it is of a dagger's alerts: conditions are counted apart, and rules by their keys. */
export const incidentOf = (alert: Alert): string =>
  JSON.stringify([alert.condition, alert.rule, keyOf(alert), String(alert.incident)]);
