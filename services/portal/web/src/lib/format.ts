import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { LOCALES, ZONE } from "./locale.ts";

/** How numbers and times are written for a viewer. Times are milliseconds since 1970; null: not said. */
export interface Formats {
  /** A number with its thousands apart, to one place; integers of 64 bits keep each digit. */
  count: (value: number | bigint) => string;
  /** A cell's number, to three places. */
  amount: (value: number | bigint) => string;
  /** Degrees of the earth, to three places. */
  degrees: (value: number) => string;
  /** 05:43:00, with the date in place of the seconds when that is another day. */
  clock: (at: number | null, now?: number) => string;
  /** The same with the zone: 05:43:00 CET. */
  zoned: (at: number | null, now?: number) => string;
  /** 23 Nov 2026, 05:43:00 CET. */
  instant: (at: number | null) => string;
  /** 05:43, or with seconds: along an axis. */
  tick: (at: number, seconds: boolean) => string;
  /** What the zone is called at a time: CET. */
  zone: (at: number) => string;
}

const DAY = { year: "numeric", month: "short", day: "numeric" } as const;
const MINUTE = { hour: "2-digit", minute: "2-digit" } as const;
const SECOND = { ...MINUTE, second: "2-digit" } as const;

/** Formats for languages, the dearest first, and a time zone. Made once: a format for each cell takes long. */
export function formats(locales: readonly string[], timeZone: string): Formats {
  const times = (options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat =>
    new Intl.DateTimeFormat(locales as string[], { ...options, timeZone });
  const number = new Intl.NumberFormat(locales as string[], { maximumFractionDigits: 1 });
  const places = new Intl.NumberFormat(locales as string[], {
    minimumFractionDigits: 3,
    maximumFractionDigits: 3,
  });
  const exact = new Intl.NumberFormat(locales as string[]);
  const [second, minute, moment, whole] = [SECOND, MINUTE, { ...DAY, ...MINUTE }, { ...DAY, ...SECOND }].map(
    times,
  ) as [Intl.DateTimeFormat, Intl.DateTimeFormat, Intl.DateTimeFormat, Intl.DateTimeFormat];
  const day = times(DAY);
  const named = times({ ...SECOND, timeZoneName: "short" });
  const zone = (at: number): string =>
    named.formatToParts(at).find((part) => part.type === "timeZoneName")?.value ?? timeZone;
  const clock = (at: number | null, now = Date.now()): string =>
    at === null ? "–" : (day.format(at) === day.format(now) ? second : moment).format(at);
  return {
    count: (value) => (typeof value === "bigint" ? exact : number).format(value),
    amount: (value) => exact.format(value),
    degrees: (value) => places.format(value),
    clock,
    zoned: (at, now) => (at === null ? "–" : `${clock(at, now)} ${zone(at)}`),
    instant: (at) => (at === null ? "–" : `${whole.format(at)} ${zone(at)}`),
    tick: (at, seconds) => (seconds ? second : minute).format(at),
    zone,
  };
}

/** As who looks at this page writes them. */
export const { count, amount, degrees, clock, zoned, instant, tick, zone } = formats(LOCALES, ZONE);

/** How many of a thing: 1 row, 1,204 rows. */
export const many = (value: number | bigint, noun: string): string =>
  `${count(value)} ${noun}${Number(value) === 1 ? "" : "s"}`;

/** A column's type as pages write types: BIGINT, ARRAY<STRING>; names of fields in it stay. */
export const typeName = (type: string): string =>
  type.replace(/\w+(?!\w*\s*:)/g, (word) => word.toUpperCase());

/** Milliseconds since 1970; null for a time that is not said. */
export const ms = (time: Timestamp | undefined): number | null =>
  time ? Number(time.seconds) * 1000 + time.nanos / 1e6 : null;

const UNITS: [number, string][] = [
  [86_400, "day"],
  [3_600, "h"],
  [60, "min"],
  [1, "s"],
];

/** 9 days, 3 h, 12 min, 4 s. */
export function lasting(span: number): string {
  const seconds = Math.max(0, Math.floor(span / 1000));
  const [size, unit] = UNITS.find(([each]) => seconds >= each) ?? [1, "s"];
  const many = Math.floor(seconds / size);
  return `${count(many)} ${unit === "day" && many !== 1 ? "days" : unit}`;
}

/** The same by two units: 1 h 24 min. */
export function several(span: number): string {
  const parts: string[] = [];
  let left = Math.max(0, Math.floor(span / 1000));
  for (const [size, unit] of UNITS) {
    const part = Math.floor(left / size);
    left %= size;
    if (part || parts.length) parts.push(part ? lasting(part * size * 1000) : "");
  }
  return parts.slice(0, 2).filter(Boolean).join(" ") || lasting(0);
}

/** How long it is since. */
export const since = (at: number | null, now = Date.now()): string => (at === null ? "–" : lasting(now - at));

/** 512 KiB. */
export function bytes(value: number | bigint): string {
  let left = Number(value);
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (left < 1024 || unit === "GiB") return `${count(left)} ${unit}`;
    left /= 1024;
  }
  return "";
}
