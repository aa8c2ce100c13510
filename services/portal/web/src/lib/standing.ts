import { lasting, zoned } from "./format.ts";

/** Numbers that nobody has renewed for so long stand still: a driver is heard every few seconds. */
export const STILL_MS = 30_000;

/** Whether numbers of this time stand still now. */
export const still = (at: number | null, now: number): boolean => at !== null && now - at >= STILL_MS;

/** "as of 05:43:00 UTC, 12 min ago", for numbers that stand still. */
export const ageOf = (at: number, now: number): string => `as of ${zoned(at, now)}, ${lasting(now - at)} ago`;

const NAMES = { portal: "The portal", gateway: "The gateway" } as const;
interface Known {
  away: keyof typeof NAMES | null;
  deaf: string;
  answered: number | null;
  heard: number | null;
}

/** What does not answer, since when, in one sentence; empty while all do. */
export function outage({ away, deaf, answered, heard }: Known, now: number): string {
  const of = (at: number | null): string => (at === null ? "" : ` since ${zoned(at, now)}`);
  if (away)
    return `${NAMES[away]} has not answered${of(answered)}: this page goes on by itself when it does.`;
  if (!deaf) return "";
  const why = deaf.replace(/\.$/, "");
  return `${why[0]?.toUpperCase()}${why.slice(1)}${of(heard)}: what is shown is of then.`;
}
