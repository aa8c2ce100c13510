import type { LatLng } from "./s2.ts";

// Geohashes (https://en.wikipedia.org/wiki/Geohash): bits that halve longitude and latitude in turn, five a letter. Pure.
const LETTERS = "0123456789bcdefghjkmnpqrstuvwxyz";
const LONGEST = 12;

/** What a geohash covers, in degrees: south, west, north, east; null for what is none. */
export function bounds(hash: string): [number, number, number, number] | null {
  if (!hash || hash.length > LONGEST) return null;
  const low = [-180, -90];
  const high = [180, 90];
  let bit = 0;
  for (const letter of hash.toLowerCase()) {
    const digit = LETTERS.indexOf(letter);
    if (digit < 0) return null;
    for (let of = 4; of >= 0; of--, bit++) {
      const side = bit % 2;
      const middle = (low[side]! + high[side]!) / 2;
      if ((digit >> of) & 1) low[side] = middle;
      else high[side] = middle;
    }
  }
  return [low[1]!, low[0]!, high[1]!, high[0]!];
}

/** Its four corners, counter-clockwise; null for what is none. */
export function corners(hash: string): LatLng[] | null {
  const found = bounds(hash);
  if (!found) return null;
  const [south, west, north, east] = found;
  return [
    [south, west],
    [south, east],
    [north, east],
    [north, west],
  ];
}
