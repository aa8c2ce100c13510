import type { AuditRecord } from "../gen/daggers/v1/audit_service_pb.ts";
import { AuditKind, type CallAudited } from "../gen/daggers/v1/audit_pb.ts";
import { Role } from "../gen/daggers/v1/access_pb.ts";
import type { WhoAmIResponse } from "../gen/daggers/v1/access_service_pb.ts";

/** The kinds of records, as the page and `daggers audit --kind` call them. */
export const KINDS: [string, AuditKind][] = [
  ["refused", AuditKind.REFUSED],
  ["unauthenticated", AuditKind.UNAUTHENTICATED],
  ["read", AuditKind.READ],
  ["preview", AuditKind.PREVIEW],
  ["sink-test", AuditKind.SINK_TEST],
  ["check", AuditKind.CHECK],
];
export const kindName = (kind: AuditKind): string => KINDS.find((each) => each[1] === kind)?.[0] ?? "–";

/** How far back the page looks, in hours; all that is kept without a number. */
export const SPANS: [string, number | null][] = [
  ["the last hour", 1],
  ["the last day", 24],
  ["the last week", 168],
  ["all that is kept", null],
];

/** The teams of which somebody may read the audit; of administrators an empty name first: all of it. */
export function teamsOf(who: WhoAmIResponse | null, all: string[]): string[] {
  if (who === null) return [];
  if (who.administrator) return ["", ...all];
  return who.roles.filter((each) => each.role >= Role.OWNER).map((each) => each.team);
}

/** Who called; of a call without a valid token where it came from. */
export const caller = (call: CallAudited): string =>
  call.principal || `no valid token, from ${call.peer || "nowhere"}`;

/** Why a call was refused, or what of what is sensitive was read. */
export function what({ call }: AuditRecord): string {
  if (!call) return "–";
  const times = call.calls > 1n ? ` (${call.calls} calls)` : "";
  if (!call.allowed) return `${call.reason}: ${call.detail}${times}`;
  return call.sensitive.length ? `with ${call.sensitive.join(", ")}` : call.reason;
}

/** What was asked for, on lines of its own: the query of a preview reads as a query. */
export function asked(call: CallAudited): { sql: string; rest: string } {
  if (!call.asked) return { sql: "", rest: "" };
  try {
    const { spec, ...rest } = JSON.parse(call.asked) as { spec?: { sql?: string } };
    const { sql, ...others } = spec ?? {};
    return { sql: sql ?? "", rest: JSON.stringify(spec ? { ...rest, spec: others } : rest, null, 1) };
  } catch {
    return { sql: "", rest: call.asked }; // it was long, and is cut
  }
}
