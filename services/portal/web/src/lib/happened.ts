import type { Event } from "../gen/daggers/v1/dagger_service_pb.ts";
import type { Tone } from "./phase.ts";

const TONES: [RegExp, Tone][] = [
  [/^(Failed|Exited|LaunchFailed|Unreachable|DeathConfirmed)$/, "bad"],
  [/^(Degraded|RelaunchScheduled)$/, "warn"],
  [/^(Running|Recovered|Settled)$/, "good"],
];

/** LaunchIntended → launch intended. */
export function words(type: string): string {
  const name = type.slice(type.lastIndexOf(".") + 1);
  return name.replace(/(?<=[a-z])(?=[A-Z])/g, " ").toLowerCase();
}
/** What happened, as a pill. */
export function happened(event: Event): { tone: Tone; what: string } {
  const name = event.type.slice(event.type.lastIndexOf(".") + 1);
  const tone = TONES.find(([pattern]) => pattern.test(name))?.[1] ?? "idle";
  return { tone: event.refused ? "warn" : tone, what: words(event.type) };
}
