// Cells of S2 (https://s2geometry.io/devguide/s2cell_hierarchy). An id has 64 bits, of which a Number holds 53: it is
// kept as two halves of 32. An id is its face (3 bits), where it is on the Hilbert curve there (two bits for each
// level), and a one behind that. Pure.

export interface S2Cell {
  high: number;
  low: number;
  /** From 0, a face, to 30. */
  level: number;
}
/** A corner: degrees. */
export type LatLng = [number, number];

const MAX_LEVEL = 30;
const FACES = 6;
// The curve through the four quarters of a square, for each of its four orientations, and how each turns it.
const QUARTERS = [
  [0, 1, 3, 2],
  [0, 2, 3, 1],
  [3, 2, 0, 1],
  [3, 1, 0, 2],
] as const;
const TURNS = [1, 0, 0, 3] as const;
const DECIMAL = /^-?\d{1,20}$/;
const TOKEN = /^[0-9a-f]{1,16}$/;

/** The cell of an id: as S2Id gives it, a signed number, or an unsigned one; null for what is no cell. */
export function ofId(id: string | bigint): S2Cell | null {
  if (typeof id === "string" && !DECIMAL.test(id)) return null;
  const whole = BigInt(id);
  if (whole < -(1n << 63n) || whole >= 1n << 64n) return null;
  const bits = BigInt.asUintN(64, whole);
  return ofBits(Number(bits >> 32n), Number(bits & 0xffffffffn));
}

/** The cell of a token: the id in hexadecimal without the zeros at its end; null for what is no cell. */
export function ofToken(token: string): S2Cell | null {
  if (!TOKEN.test(token)) return null;
  const digits = token.padEnd(16, "0");
  return ofBits(parseInt(digits.slice(0, 8), 16), parseInt(digits.slice(8), 16));
}

/** Its token. */
export const token = (cell: S2Cell): string =>
  [cell.high, cell.low]
    .map((half) => half.toString(16).padStart(8, "0"))
    .join("")
    .replace(/0+$/, "");

function ofBits(high: number, low: number): S2Cell | null {
  const zeros = low ? trailing(low) : 32 + trailing(high);
  if (high >>> 29 >= FACES || zeros % 2 || zeros > 2 * MAX_LEVEL) return null;
  return { high, low, level: MAX_LEVEL - zeros / 2 };
}

/** How many zeros a number of 32 bits ends with; 32 for 0. */
const trailing = (bits: number): number => (bits ? 31 - Math.clz32(bits & -bits) : 32);

/** What it covers of its face, from 0 to 1 each way: the face, the least s and t, and how long a side is. */
function square(cell: S2Cell): [face: number, s: number, t: number, side: number] {
  const face = cell.high >>> 29;
  // One bit to the left, so that no pair lies across the halves.
  const high = ((cell.high << 1) | (cell.low >>> 31)) >>> 0;
  const low = (cell.low << 1) >>> 0;
  let orientation = face & 1;
  let i = 0;
  let j = 0;
  for (let level = 0; level < cell.level; level++) {
    const shift = 60 - 2 * level;
    const pair = (shift >= 32 ? high >>> (shift - 32) : low >>> shift) & 3;
    const quarter = QUARTERS[orientation]![pair]!;
    i = i * 2 + (quarter >> 1);
    j = j * 2 + (quarter & 1);
    orientation ^= TURNS[pair]!;
  }
  const side = 2 ** -cell.level;
  return [face, i * side, j * side, side];
}

/** S2's quadratic projection: from 0 … 1 to -1 … 1. */
const flat = (s: number): number => (s >= 0.5 ? (4 * s * s - 1) / 3 : (1 - 4 * (1 - s) * (1 - s)) / 3);

function latLng(face: number, u: number, v: number): LatLng {
  const [x, y, z] = [
    [1, u, v],
    [-u, 1, v],
    [-u, -v, 1],
    [-1, -v, -u],
    [v, -1, -u],
    [v, u, -1],
  ][face] as [number, number, number];
  return [(Math.atan2(z, Math.hypot(x, y)) * 180) / Math.PI, (Math.atan2(y, x) * 180) / Math.PI];
}

/** Its four corners, counter-clockwise. */
export function corners(cell: S2Cell): LatLng[] {
  return outline(cell, 1);
}

/** Its middle. */
export function centre(cell: S2Cell): LatLng {
  const [face, s, t, side] = square(cell);
  return latLng(face, flat(s + side / 2), flat(t + side / 2));
}

/** How many lines draw a side, so that a map does not show it as straight where it is not. */
export const pieces = (level: number): number => Math.max(1, 32 >> level);

/** Its outline, counter-clockwise, each side in so many pieces. Sides are geodesics, straight lines of a face. */
export function outline(cell: S2Cell, each: number): LatLng[] {
  const [face, s, t, side] = square(cell);
  const [u0, u1, v0, v1] = [flat(s), flat(s + side), flat(t), flat(t + side)];
  const turns: [number, number][] = [
    [u0, v0],
    [u1, v0],
    [u1, v1],
    [u0, v1],
  ];
  return turns.flatMap(([u, v], at) => {
    const [nextU, nextV] = turns[(at + 1) % 4]!;
    return Array.from({ length: each }, (_, piece) =>
      latLng(face, u + ((nextU - u) * piece) / each, v + ((nextV - v) * piece) / each),
    );
  });
}
