/** Where InfluxDB has the rows; without a bucket that of whom it is asked by. */
export interface Place {
  bucket: string;
  measurement: string;
}
const LINES = 30;

const text = (value: string): string => `"${value.replace(/["\\]/g, "\\$&").replaceAll("${", "\\${")}"`;

/** The Flux that reads what a chart shows: sums of a field by a tag over the last minutes. */
export function flux({ bucket, measurement }: Place, value: string, by: string, minutes: number): string {
  return [
    `from(bucket: ${bucket ? text(bucket) : "v.defaultBucket"})`,
    `  |> range(start: -${minutes}m)`,
    `  |> filter(fn: (r) => r._measurement == ${text(measurement)} and r._field == ${text(value)})`,
    `  |> group(columns: [${by ? text(by) : ""}])`,
    `  |> aggregateWindow(every: ${(minutes * 60) / LINES}s, fn: sum, createEmpty: false)`,
  ].join("\n");
}
