import { Code, ConnectError } from "@connectrpc/connect";
import { sentence } from "./commands.ts";
import type { Away } from "./connection.svelte.ts";

/** What a call did not reach, as the portal's bridge says beside the error. */
const AWAY = "x-daggers-away";

/** What went wrong, for a person: a sentence, and whether it is about rights, a login or the network. */
export interface Problem {
  kind: "refused" | "login" | "missing" | "away" | "invalid" | "other";
  text: string;
  /** Whether it is about all pages: then it is said once, above them. */
  everywhere?: boolean;
}

const KINDS: Partial<Record<Code, Problem["kind"]>> = {
  [Code.PermissionDenied]: "refused",
  [Code.Unauthenticated]: "login",
  [Code.NotFound]: "missing",
  [Code.Unavailable]: "away",
  [Code.DeadlineExceeded]: "away",
  [Code.InvalidArgument]: "invalid",
  [Code.FailedPrecondition]: "invalid",
  [Code.AlreadyExists]: "invalid",
  [Code.Aborted]: "invalid",
};

/** The problem that an exception of a call is. */
export function problem(error: unknown): Problem {
  const known = ConnectError.from(error);
  const kind = KINDS[known.code] ?? "other";
  // A place in the query says by itself that the query is meant.
  const said = known.rawMessage.replace(/^spec\.sql: (?=line \d)/, "");
  const text = sentence(said || "It did not work, and nobody says why.");
  // fetch itself failed: no answer came at all.
  if (unreached(error) === "portal")
    return { kind: "away", text: "The portal does not answer.", everywhere: true };
  return unreached(error) || kind === "login" ? { kind, text, everywhere: true } : { kind, text };
}

/** What a call did not reach; null where it was answered, if only by a refusal. */
export function unreached(error: unknown): Away | null {
  const known = ConnectError.from(error);
  if (known.metadata.get(AWAY) === "gateway") return "gateway";
  // A call that failed for good is a TypeError of fetch, or one inside of what Connect makes of it.
  const failed = error instanceof TypeError || known.cause instanceof TypeError;
  return failed && known.code === Code.Unknown ? "portal" : null;
}

/** Whether a call ended because we left. */
export const left = (error: unknown): boolean => ConnectError.from(error).code === Code.Canceled;

const RETRY_MS = [1_000, 2_000, 4_000, 8_000, 15_000];
/** How long to wait before the attempt of this number, from 0 on. */
export const pause = (attempt: number): number => RETRY_MS[Math.min(attempt, RETRY_MS.length - 1)]!;
