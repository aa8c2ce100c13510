import type { DaggerSpec, Sink } from "../gen/daggers/v1/spec_pb.ts";

/** Whether a sink takes late records, and no rows. */
export const takesLate = (spec: DaggerSpec, sink: Sink): boolean =>
  !!sink.name && spec.late?.keep === sink.name;

/** Whether its rows go to a topic. */
export const publishes = (spec: DaggerSpec): boolean =>
  spec.sinks.some((each) => each.kind.case === "kafka" && !takesLate(spec, each));
