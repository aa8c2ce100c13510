import { durationFromMs } from "@bufbuild/protobuf/wkt";
import type { Alert } from "../gen/daggers/v1/alert_service_pb.ts";
import { AlertCondition, AlertSeverity } from "../gen/daggers/v1/alerts_pb.ts";
import { pages } from "./read.svelte.ts";
import { alerts } from "./rpc.ts";
import { note, written } from "./written.ts";

/** How often a page that shows alerts asks for them. */
export const LOOK_MS = 5_000;

/** Alerts of a dagger, or of all without a name: those that are open; with `over` also the newest that are not. */
export const alertsOf = (dagger: string, over: boolean, signal: AbortSignal): Promise<Alert[]> =>
  pages(
    (pageToken) =>
      alerts.listAlerts({ dagger, pageToken, includeResolved: over, minSequence: written() }, { signal }),
    (page) => page.alerts,
  );

/** What an alert is about, in words: the rule's name, or the condition: no progress. */
export const conditionOf = (alert: Alert): string =>
  alert.rule || (AlertCondition[alert.condition] ?? "").toLowerCase().replaceAll("_", " ");

const only = ({ dagger, condition, rule, key, incident }: Alert) => ({
  dagger,
  condition,
  rule,
  key,
  incident,
});

/**
 * Say that we look after an alert: for so many ms, or with 0 for as long as it is open. Nobody is reminded of it
 * meanwhile. Raises: ConnectError.
 */
export async function acknowledge(alert: Alert, comment: string, lasts: number): Promise<void> {
  const duration = lasts ? durationFromMs(lasts) : undefined;
  note(await alerts.acknowledgeAlerts({ alerts: only(alert), comment: comment.trim(), duration }));
}

/** Take back that somebody looks after an alert. Raises: ConnectError. */
export async function unacknowledge(alert: Alert): Promise<void> {
  note(await alerts.unacknowledgeAlerts({ alerts: only(alert) }));
}

/** The key that a rule is true of, its columns by name; empty of all other conditions. */
export const keyOf = (alert: Alert): [string, string][] =>
  Object.entries(alert.key).sort(([one], [other]) => (one < other ? -1 : 1));

/** How soon a person has to look, in a word: critical, error, warning; empty where nobody said. */
export const severityOf = (alert: Alert): string =>
  alert.severity ? (AlertSeverity[alert.severity] ?? "").toLowerCase() : "";

/** Where what an alert is of has a page: a dagger, a team, a cluster …; the platform and stores have none. */
export function placeOf(alert: Alert): string {
  const [kind, name] = alert.dagger.split(/\/(.*)/s) as [string, string | undefined];
  if (name === undefined) return kind === "platform" ? "" : `/daggers/${kind}?tab=alerts`;
  if (kind === "store") return "";
  if (kind === "team" || kind === "cluster") return `/${kind}s/${name}`;
  if (kind === "host") return "/hosts";
  const whose: Record<string, string> =
    name === "unauthenticated" ? { kind: "unauthenticated" } : { principal: name };
  return `/audit?${new URLSearchParams(whose)}`;
}

/** Which one it is of a dagger's alerts: conditions are counted apart, and rules by their keys. */
export const incidentOf = (alert: Alert): string =>
  JSON.stringify([alert.condition, alert.rule, keyOf(alert), String(alert.incident)]);
