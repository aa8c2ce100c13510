import { Code, ConnectError } from "@connectrpc/connect";

/** What went wrong, for a person: a sentence, and whether it is about rights, a login or the network. */
export interface Problem {
  kind: "refused" | "login" | "missing" | "away" | "invalid" | "other";
  text: string;
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
  const text = known.rawMessage || "It did not work, and nobody says why.";
  // fetch itself failed: no answer came at all.
  if (known.code === Code.Unknown && error instanceof TypeError)
    return { kind: "away", text: "The portal does not answer." };
  return { kind, text };
}

/** Whether a call ended because we left. */
export const left = (error: unknown): boolean => ConnectError.from(error).code === Code.Canceled;

const RETRY_MS = [1_000, 2_000, 4_000, 8_000, 15_000];
/** How long to wait before the attempt of this number, from 0 on. */
export const pause = (attempt: number): number => RETRY_MS[Math.min(attempt, RETRY_MS.length - 1)]!;
