import { durationMs } from "@bufbuild/protobuf/wkt";
import type { QueryWindow } from "../gen/daggers/v1/dagger_service_pb.ts";

/**
 * When the next window of a query closes, in ms since 1970; null where nobody can say: sessions end with silence.
 *
 * watermark: event time up to which windows are closed, null before the first record; told at `heard`.
 * delayMs: how long a window waits for late records.
 */
export function closes(
  window: QueryWindow | undefined,
  delayMs: number,
  begun: number,
  watermark: number | null,
  heard: number,
): number | null {
  if (!window?.size || !window.slide || window.kind === "SESSION") return null;
  const size = durationMs(window.size);
  const slide = durationMs(window.slide);
  if (!(slide > 0)) return null;
  // The first end after that instant: windows begin at multiples of their slide.
  const after = watermark ?? begun;
  const end = (Math.floor((after - size) / slide) + 1) * slide + size;
  return watermark === null ? end + delayMs : end + (heard - watermark);
}
