import type { Dagger } from "../gen/daggers/v1/dagger_pb.ts";
import { ms, since, zoned } from "./format.ts";

/** That another driver runs beside the one of a dagger, and when it takes its place; null where none does. */
export function beside(dagger: Dagger, now = Date.now()): string | null {
  const { shadow, observedVersion } = dagger;
  if (!shadow) return null;
  const boundary = ms(shadow.boundary);
  const begun = `Version ${shadow.version} is catching up beside version ${observedVersion}`;
  if (boundary === null) return `${begun}, since ${since(ms(shadow.time), now)}.`;
  return `Version ${shadow.version} takes the place of version ${observedVersion} behind the windows that end at ${zoned(boundary, now)}.`;
}
