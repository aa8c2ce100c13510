import type { DescribeArchiveResponse } from "../gen/daggers/v1/output_pb.ts";
import { daggers } from "./rpc.ts";

const PATIENCE_MS = 60_000;
let last: Promise<unknown> = Promise.resolve();

/** What a table has: one after another, for each look starts a process on a host of drivers. */
export function describe(name: string, sink: string, signal: AbortSignal): Promise<DescribeArchiveResponse> {
  const asked = last.then(() => daggers.describeArchive({ name, sink }, { signal, timeoutMs: PATIENCE_MS }));
  last = asked.catch(() => undefined);
  return asked;
}
