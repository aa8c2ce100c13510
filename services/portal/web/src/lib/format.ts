import type { Timestamp } from "@bufbuild/protobuf/wkt";

const number = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const exact = new Intl.NumberFormat("en");

/** A number with its thousands apart; integers of 64 bits keep each digit. */
export const count = (value: number | bigint): string =>
  typeof value === "bigint" ? exact.format(value) : number.format(value);

/** A cell's number, to three places. Not toLocaleString, which makes a format anew for each cell. */
export const amount = (value: number | bigint): string => exact.format(value);

/** Milliseconds since 1970; null for a time that is not said. */
export const ms = (time: Timestamp | undefined): number | null =>
  time ? Number(time.seconds) * 1000 + time.nanos / 1e6 : null;

const iso = (at: number): string => new Date(at).toISOString();

/** 05:43:00, with the date when that is another day; UTC. */
export function clock(at: number | null, now = Date.now()): string {
  if (at === null) return "–";
  const text = iso(at);
  return text.slice(0, 10) === iso(now).slice(0, 10)
    ? text.slice(11, 19)
    : text.slice(0, 16).replace("T", " ");
}

/** 2026-11-23 05:43:00 UTC. */
export const instant = (at: number | null): string =>
  at === null ? "–" : `${iso(at).slice(0, 19).replace("T", " ")} UTC`;

const UNITS: [number, string][] = [
  [86_400, "day"],
  [3_600, "h"],
  [60, "min"],
  [1, "s"],
];

/** 9 days, 3 h, 12 min, 4 s: how long it is since. */
export function since(at: number | null, now = Date.now()): string {
  if (at === null) return "–";
  const seconds = Math.max(0, Math.floor((now - at) / 1000));
  const [size, unit] = UNITS.find(([each]) => seconds >= each) ?? [1, "s"];
  const many = Math.floor(seconds / size);
  return `${many} ${unit === "day" && many !== 1 ? "days" : unit}`;
}

/** 512 KiB. */
export function bytes(value: number | bigint): string {
  let left = Number(value);
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (left < 1024 || unit === "GiB") return `${number.format(left)} ${unit}`;
    left /= 1024;
  }
  return "";
}
