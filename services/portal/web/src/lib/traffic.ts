import type { DescribeStreamResponse } from "../gen/daggers/v1/catalog_service_pb.ts";
import { forPages } from "./commands.ts";
import { count } from "./format.ts";

type Topics = Pick<DescribeStreamResponse, "partitions" | "recordsPerSecond" | "topicsUnchecked">;

/** "8 partitions · 12.5 records/s" of the topics of a stream, or why nobody knows. */
export function traffic({ partitions, recordsPerSecond, topicsUnchecked }: Topics): string {
  if (partitions === undefined)
    return topicsUnchecked && `How much is there is not known: ${forPages(topicsUnchecked)}`;
  const parts = [`${count(partitions)} partition${partitions === 1 ? "" : "s"}`];
  if (recordsPerSecond !== undefined) parts.push(`${count(recordsPerSecond)} records/s`);
  return parts.join(" · ");
}

/** Tell what is known of each stream, one after another: each is a process at a host of drivers. */
export async function each(
  streams: string[],
  ask: (name: string) => Promise<Topics>,
  tell: (name: string, text: string) => void,
): Promise<void> {
  for (const name of streams)
    try {
      tell(name, traffic(await ask(name)));
    } catch {
      // The page goes on without: the check says what is wrong with a stream that is chosen.
    }
}
