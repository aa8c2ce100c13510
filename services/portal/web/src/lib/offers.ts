import type { OfferedStream } from "../gen/daggers/v1/dagger_service_pb.ts";

/** What accepting an offer does, in its order: a sentence each. */
export function steps(dagger: string, offer: OfferedStream): string[] {
  const { stream, furtherSink } = offer;
  if (!stream) return [];
  const kafka = furtherSink?.kind.case === "kafka" ? furtherSink.kind.value : undefined;
  return [
    ...(offer.schema ? [`Message ${stream.message} is registered, with a field for each column.`] : []),
    ...(kafka
      ? [
          `${dagger} gets a further sink: topic ${kafka.topic}, the same rows as these messages. What ${offer.sink} writes is JSON, of which no stream can be, and stays as it is.`,
        ]
      : []),
    `Topic ${stream.topics.join(", ")} is registered as a stream, its event time ${stream.timeField}.`,
  ];
}

/** The address of the page that offers what a dagger writes. */
export const offerOf = (dagger: string): string => `/new/stream?${new URLSearchParams({ of: dagger })}`;
