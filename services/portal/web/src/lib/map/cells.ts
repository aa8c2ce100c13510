import * as geohash from "./geohash.ts";
import { type Box, x, y } from "./mercator.ts";
import * as s2 from "./s2.ts";
import type { LatLng } from "./s2.ts";

/** How the texts of a column name cells: ids of S2 as decimal numbers, its tokens, geohashes. */
export type Kind = "s2" | "token" | "geohash";

const LOOKED_AT = 500;
const LONG = /^-?\d{17,20}$/;
const HASH = /geo_?hash/i;
const S2 = /(^|_)s2|s2_?(id|cell|token)/i;

/**
 * How a column names cells; null when it does not. What the query's functions say counts, then its name, and ids of
 * S2 are also told by their length where all are of one level: a city may be called as a geohash is.
 */
export function kindOf(name: string, texts: Iterable<string>, said?: "s2" | "geohash"): Kind | null {
  const some: string[] = [];
  for (const text of texts) if (text && some.push(text) === LOOKED_AT) break;
  if (!some.length) return null;
  const all = (of: (text: string) => unknown): boolean => some.every((text) => of(text) !== null);
  if (said === "geohash" || (!said && HASH.test(name))) return all(geohash.bounds) ? "geohash" : null;
  const named = said === "s2" || S2.test(name);
  const levels = new Set(some.map((text) => s2.ofId(text)?.level));
  const looks = levels.size === 1 && some.every((text) => LONG.test(text));
  if (!levels.has(undefined) && (looks || (named && some.some((text) => LONG.test(text))))) return "s2";
  return named && all(s2.ofToken) ? "token" : null;
}

const cell = (kind: Kind, text: string): s2.S2Cell | null =>
  kind === "s2" ? s2.ofId(text) : s2.ofToken(text);

/** What a cell covers; null for a text that is none. */
export function outline(kind: Kind, text: string): LatLng[] | null {
  if (kind === "geohash") return geohash.corners(text);
  const found = cell(kind, text);
  return found && s2.outline(found, s2.pieces(found.level));
}

/** The middle of a cell. */
export function middle(kind: Kind, text: string): LatLng | null {
  if (kind === "geohash") {
    const found = geohash.bounds(text);
    return found && [(found[0] + found[2]) / 2, (found[1] + found[3]) / 2];
  }
  const found = cell(kind, text);
  return found && s2.centre(found);
}

/** What a person reads of a cell: a token of S2 with its level, as others write it; a geohash. */
export function title(kind: Kind, text: string): string {
  const found = kind === "geohash" ? null : cell(kind, text);
  return found ? `${s2.token(found)}, level ${found.level}` : text;
}

/** Outlines in the square of the map, by the numbers that their texts have in a column. */
export class Shapes {
  /** x and y of all points, one outline behind another. */
  points: number[] = [];
  /** Where each begins in `points`, and where the last ends. */
  starts: number[] = [0];
  /** Of each: least x and y, greatest x and y. */
  boxes: number[] = [];

  get size(): number {
    return this.starts.length - 1;
  }

  /** The next one; null for a text that is no cell. */
  add(outline: LatLng[] | null): void {
    const box: Box = [Infinity, Infinity, -Infinity, -Infinity];
    const first = outline?.[0]?.[1] ?? 0;
    for (const [lat, lng] of outline ?? []) {
      // Over the edge of the map rather than across all of it.
      const near = lng - first > 180 ? lng - 360 : lng - first < -180 ? lng + 360 : lng;
      const [atX, atY] = [x(near), y(lat)];
      this.points.push(atX, atY);
      box[0] = Math.min(box[0], atX);
      box[1] = Math.min(box[1], atY);
      box[2] = Math.max(box[2], atX);
      box[3] = Math.max(box[3], atY);
    }
    this.boxes.push(...box);
    this.starts.push(this.points.length);
  }

  /** The area of those that are shown; null when none is. */
  box(shown: (at: number) => boolean): Box | null {
    const box: Box = [Infinity, Infinity, -Infinity, -Infinity];
    for (let at = 0; at < this.size; at++) {
      if (this.starts[at] === this.starts[at + 1] || !shown(at)) continue;
      box[0] = Math.min(box[0], this.boxes[4 * at]!);
      box[1] = Math.min(box[1], this.boxes[4 * at + 1]!);
      box[2] = Math.max(box[2], this.boxes[4 * at + 2]!);
      box[3] = Math.max(box[3], this.boxes[4 * at + 3]!);
    }
    return box[0] === Infinity ? null : box;
  }

  /** The smallest of those that are shown whose area has a point, else the nearest within reach; -1 for none. */
  under(atX: number, atY: number, shown: (at: number) => boolean, reach = 0): number {
    let found = -1;
    let least = Infinity;
    for (let at = 0, of = 0; at < this.size; at++, of += 4) {
      if (atX < this.boxes[of]! || atX > this.boxes[of + 2]!) continue;
      if (atY < this.boxes[of + 1]! || atY > this.boxes[of + 3]! || !shown(at)) continue;
      const area = (this.boxes[of + 2]! - this.boxes[of]!) * (this.boxes[of + 3]! - this.boxes[of + 1]!);
      if (area < least && this.#holds(at, atX, atY)) [found, least] = [at, area];
    }
    return found < 0 && reach ? this.#nearest(atX, atY, shown, reach) : found;
  }

  /** The one whose middle is nearest to a point, and not further than `reach`; -1 for none. */
  #nearest(atX: number, atY: number, shown: (at: number) => boolean, reach: number): number {
    let found = -1;
    let least = reach;
    for (let at = 0, of = 0; at < this.size; at++, of += 4) {
      const across = (this.boxes[of]! + this.boxes[of + 2]!) / 2 - atX;
      if (Math.abs(across) > least) continue;
      const away = Math.hypot(across, (this.boxes[of + 1]! + this.boxes[of + 3]!) / 2 - atY);
      if (away <= least && shown(at)) [found, least] = [at, away];
    }
    return found;
  }

  /** Whether a point is in an outline: how often a line from it to the east crosses that. */
  #holds(at: number, atX: number, atY: number): boolean {
    const [begin, end] = [this.starts[at]!, this.starts[at + 1]!];
    let inside = false;
    for (let one = begin, before = end - 2; one < end; before = one, one += 2) {
      const [ax, ay] = [this.points[one]!, this.points[one + 1]!];
      const [bx, by] = [this.points[before]!, this.points[before + 1]!];
      if (ay > atY !== by > atY && atX < ((bx - ax) * (atY - ay)) / (by - ay) + ax) inside = !inside;
    }
    return inside;
  }
}
