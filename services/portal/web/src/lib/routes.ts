import type { Duration } from "@bufbuild/protobuf/wkt";
import type { ExplainedRoute, ExplainRouteResponse } from "../gen/daggers/v1/alert_service_pb.ts";
import type { AlertRoute } from "../gen/daggers/v1/alerts_pb.ts";
import { instant, lasting, ms } from "./format.ts";

const long = (span: Duration): string => lasting(Number(span.seconds) * 1000 + span.nanos / 1e6);
const isNever = (span: Duration): boolean => !span.seconds && !span.nanos;

/** Which alerts take a route, of those that come to it. */
export const condition = (route: AlertRoute): string =>
  route.match.length ? route.match.join(" and ") : "every alert";

/** What a route says itself, a few words each; the rest is as its parent has it. */
export function settings(route: AlertRoute): string[] {
  const said: string[] = [];
  if (route.receivers.length) said.push(`notifies ${route.receivers.join(", ")}`);
  if (route.groupBy)
    said.push(
      route.groupBy.names.length ? `one message by ${route.groupBy.names.join(", ")}` : "one message of all",
    );
  if (route.groupWait) said.push(`first after ${long(route.groupWait)}`);
  if (route.groupInterval) said.push(`looks again every ${long(route.groupInterval)}`);
  if (route.repeatInterval)
    said.push(
      isNever(route.repeatInterval) ? "never repeated" : `repeated every ${long(route.repeatInterval)}`,
    );
  if (route.windows)
    said.push(route.windows.windows.length ? `within ${route.windows.windows.join("; ")}` : "always");
  if (route.escalation)
    said.push(
      route.escalation.after && !isNever(route.escalation.after)
        ? `${route.escalation.receivers.join(", ")} after ${long(route.escalation.after)} without acknowledgement`
        : "no escalation",
    );
  if (route.continues) said.push("routes behind it are asked, too");
  return said;
}

/** What is known of an alert that may come. */
export interface Supposed {
  dagger: string;
  condition: string;
  severity: string;
  rule: string;
}

/** The labels of such an alert, as the gateway names them; what nobody filled in is none. */
export const labelsOf = ({ condition, severity, rule }: Supposed): Record<string, string> =>
  Object.fromEntries(Object.entries({ condition, severity, rule: rule.trim() }).filter(([, value]) => value));

/** Who is notified by a route, when, and in which group: a title and what it is. */
export function explained({ destination, group, firstNotice }: ExplainedRoute): [string, string][] {
  const labels = Object.entries(group).map(([label, value]) => `${label} = ${value || "none"}`);
  const to = destination;
  return [
    ["Notified", to?.receivers.join(", ") || "nobody"],
    ["Because", to?.why.join(", ") || "every alert comes here"],
    ["Group", labels.join(", ") || "all alerts of the route"],
    ["First", firstNotice ? instant(ms(firstNotice)) : "in no window"],
    [
      "Repeated",
      to?.repeatInterval && !isNever(to.repeatInterval) ? `every ${long(to.repeatInterval)}` : "never",
    ],
    [
      "Escalated",
      to?.escalateTo.length && to.escalateAfter
        ? `to ${to.escalateTo.join(", ")} after ${long(to.escalateAfter)}`
        : "to nobody",
    ],
  ];
}

/** Who is notified where no route names anybody, a sentence. */
export function others({ team, receivers, platform }: ExplainRouteResponse): string {
  const named = receivers.join(", ");
  if (!platform) return `${team || "Its team"} has no routes: ${named || "nobody"} is notified at once.`;
  return `No receiver of ${team || "its team"} is notified; the platform's are, at once${named ? `: ${named}` : ""}.`;
}
