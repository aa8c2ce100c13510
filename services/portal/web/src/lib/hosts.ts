import type { Host, HostedDagger, HostMove } from "../gen/daggers/v1/fleet_service_pb.ts";
import { count, ms } from "./format.ts";
import type { Tone } from "./phase.ts";

/** Time without a sign after which a host is called silent, in milliseconds: as the leading scheduler counts it. */
const SILENT_MS = 20_000;

/** What a host is now: gone, drained, cordoned, silent, leading, or ready to launch. */
export function stateOf(host: Host, now = Date.now()): [Tone, string] {
  if (host.gone) return ["bad", "Gone"];
  const heard = ms(host.heardTime);
  if (heard === null || now - heard > SILENT_MS) return ["warn", "Silent"];
  if (host.cordon) return ["warn", host.cordon.drains ? "Drained" : "Cordoned"];
  return ["good", host.leads ? "Leads" : "Ready"];
}

/** When a host was last heard, where it is silent; null where it is not. */
export function silentSince(host: Host, now = Date.now()): number | null {
  const heard = ms(host.heardTime) ?? ms(host.registerTime);
  return heard !== null && now - heard > SILENT_MS ? heard : null;
}

/** 4 cores, 8,192 MiB. */
export function resources(host: Host): string {
  const registered = host.registered;
  if (!registered) return "–";
  return `${count(registered.cores)} cores, ${count(registered.memoryMib)} MiB`;
}

/** Seconds between the last batch there and the first one elsewhere; null while it has not arrived. */
export function silence(move: HostMove): number | null {
  const [last, first] = [ms(move.lastCommit), ms(move.firstCommit)];
  return last === null || first === null ? null : Math.max(0, Math.round((first - last) / 100) / 10);
}

/** How far a move is. */
export function progress(move: HostMove): string {
  const seconds = silence(move);
  if (seconds !== null) return `runs on ${move.toHost || "?"}: ${count(seconds)} s between two batches`;
  if (move.toHost) return `starts on ${move.toHost}`;
  return move.lastCommit ? "has stopped" : "finishes its batch";
}

/** What a drain moves, in its order. */
export const moving = (daggers: HostedDagger[]): HostedDagger[] =>
  daggers
    .filter((each) => !each.stays)
    .sort((one, other) => Number(one.critical) - Number(other.critical) || (one.name < other.name ? -1 : 1));
