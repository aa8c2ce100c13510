import type { Alert } from "../gen/daggers/v1/alert_service_pb.ts";
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
