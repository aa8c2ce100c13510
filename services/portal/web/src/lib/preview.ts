import type { MessageInitShape } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import type { PreviewDone, PreviewProgress, PreviewRangeSchema } from "../gen/daggers/v1/preview_pb.ts";
import {
  PreviewDone_Empty as Empty,
  PreviewDone_Reason as Reason,
  PreviewProgress_Phase as Phase,
} from "../gen/daggers/v1/preview_pb.ts";
import { count, many } from "./format.ts";

/** The range of the last minutes; with 0 none, which is as much as the query needs. */
export const minutesBack = (minutes: number): MessageInitShape<typeof PreviewRangeSchema> | undefined =>
  minutes ? { kind: { case: "last", value: durationFromMs(minutes * 60_000) } } : undefined;

/** What a preview does now. */
export function doing(progress: PreviewProgress | null): string {
  if (!progress) return "Asked …";
  const { phase, ahead, records, recordsTotal } = progress;
  if (phase === Phase.QUEUED) return `Waits: ${ahead} before it`;
  if (phase === Phase.STARTING) return "Its host starts …";
  const total = recordsTotal ? ` of ${count(recordsTotal)}` : "";
  return `${count(records)}${total} records read`;
}

const ENDS: Partial<Record<Reason, string>> = {
  [Reason.ROW_LIMIT]: "There are more rows than are shown.",
  [Reason.TIME_LIMIT]: "It took as long as it may: not everything was read.",
};
const tally = (many: Record<string, bigint>): string =>
  Object.entries(many)
    .map(([name, value]) => `${name} ${count(value)}`)
    .join(", ");

/** What its end counts, for one line. */
export function counts(done: PreviewDone): string {
  const parts = [many(done.records, "record"), many(done.rows, "row")];
  if (done.late) parts.push(`${count(done.late)} late`);
  if (done.series) parts.push(`${count(done.series)} series`);
  return `${parts.join(" · ")} · ${count(Number(done.totalMs) / 1000)} s`;
}

/** What somebody should know of its end, a sentence each. */
export function remarks(done: PreviewDone): string[] {
  const told = [ENDS[done.reason] ?? ""];
  if (done.rowsLeftOut) told.push(`Left out: ${many(done.rowsLeftOut, "row")}, too many or too large.`);
  if (done.recordsLeftOut) told.push(`Not read: ${many(done.recordsLeftOut, "older record")} of the range.`);
  if (Object.keys(done.quarantined).length) told.push(`Would be quarantined: ${tally(done.quarantined)}.`);
  if (Object.keys(done.invalid).length)
    told.push(`Values that functions could not use: ${tally(done.invalid)}.`);
  return told.filter(Boolean);
}

const EMPTY: Partial<Record<Empty, string>> = {
  [Empty.NO_RECORDS]: "No record is in this range. Take a longer one, or look whether somebody sends.",
  [Empty.QUARANTINED]: "All records would be quarantined; their reasons are below.",
  [Empty.LATE]: "All records came after their windows had closed. Wait longer for late records.",
  [Empty.FILTERED]: "The query keeps no record: its WHERE, its HAVING, or a join that found no partner.",
  [Empty.WINDOWS_OPEN]:
    "The range fills no window of the query: all rows are of partial windows. Take a longer range.",
};
/** Why there are no rows of complete windows; empty when there are some. */
export const empty = (done: PreviewDone): string =>
  EMPTY[done.empty] ?? (done.rows ? "" : "No row came of what was read.");

/** What the dagger would cost. */
export function cost(done: PreviewDone): string {
  const at = done.cost;
  if (!at) return "";
  const cores = at.cores < 0.01 ? "less than 0.01" : at.cores.toFixed(2);
  return `${count(at.recordsPerSecond)} records/s · ${cores} of a processor · ${count(at.stateRows)} open groups · ${count(at.rowsPerMinute)} rows a minute`;
}
