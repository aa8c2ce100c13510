import type { LatLng } from "./s2.ts";

// The projection that maps in browsers have: the world is a square from 0 to 1, x to the east and y to the south. Pure.

/** Which part of the world is shown: its middle, and how many pixels the whole world is wide. */
export interface View {
  x: number;
  y: number;
  scale: number;
}
/** Of an area: least x and y, greatest x and y. */
export type Box = [number, number, number, number];

const HIGHEST = 85.05112878;
const LEAST_SCALE = 512;
/** How wide the world is at zoom 0, in pixels, as others count. */
const TILE = 256;
const GREATEST_SCALE = 2 ** 30;
export const METRES_AROUND = 40_075_016.686;

export const x = (lng: number): number => lng / 360 + 0.5;

export function y(lat: number): number {
  const sine = Math.sin((Math.max(-HIGHEST, Math.min(HIGHEST, lat)) * Math.PI) / 180);
  return 0.5 - Math.log((1 + sine) / (1 - sine)) / (4 * Math.PI);
}

/** The place of a point of the square. */
export const place = (atX: number, atY: number): LatLng => [
  (Math.atan(Math.sinh(Math.PI * (1 - 2 * atY))) * 180) / Math.PI,
  (atX - 0.5) * 360,
];

const bounded = (scale: number): number => Math.max(LEAST_SCALE, Math.min(GREATEST_SCALE, scale));

/** A view that shows a whole area in so many pixels, with a margin. */
export function fitted(box: Box, width: number, height: number, margin = 0.12): View {
  const [left, top, right, bottom] = box;
  const across = Math.max(right - left, 1e-7);
  const down = Math.max(bottom - top, 1e-7);
  const scale = bounded(Math.min(width / across, height / down) / (1 + 2 * margin));
  return { x: (left + right) / 2, y: (top + bottom) / 2, scale };
}

/** The view after it was dragged by so many pixels. */
export const moved = (view: View, right: number, down: number): View => ({
  scale: view.scale,
  x: Math.max(-0.5, Math.min(1.5, view.x - right / view.scale)),
  y: Math.max(0, Math.min(1, view.y - down / view.scale)),
});

/** The view nearer by a factor; what is so many pixels right of and below its middle stays where it is. */
export function zoomed(view: View, factor: number, right = 0, down = 0): View {
  const scale = bounded(view.scale * factor);
  const shift = 1 / view.scale - 1 / scale;
  return moved({ x: view.x + right * shift, y: view.y + down * shift, scale }, 0, 0);
}

/** What is seen in so many pixels, and so many times as much around it. */
export function seen(view: View, width: number, height: number, times = 1): Box {
  const across = ((width / view.scale) * times) / 2;
  const down = ((height / view.scale) * times) / 2;
  return [view.x - across, view.y - down, view.x + across, view.y + down];
}

export const meet = (a: Box, b: Box): boolean => a[0] <= b[2] && b[0] <= a[2] && a[1] <= b[3] && b[1] <= a[3];
export const within = (inner: Box, outer: Box): boolean =>
  inner[0] >= outer[0] && inner[1] >= outer[1] && inner[2] <= outer[2] && inner[3] <= outer[3];

/** The view that an address has, as latitude, longitude and zoom: one more is twice as near; null for none. */
export function ofText(text: string): View | null {
  const [lat, lng, zoom] = text.split(",").map(Number);
  if ([lat, lng, zoom].some((each) => each === undefined || !Number.isFinite(each))) return null;
  return { x: x(lng!), y: y(lat!), scale: bounded(TILE * 2 ** zoom!) };
}

export function text(view: View): string {
  const [lat, lng] = place(view.x, view.y);
  return `${lat.toFixed(4)},${lng.toFixed(4)},${Math.log2(view.scale / TILE).toFixed(2)}`;
}

/** A round length of at most so many pixels, at the middle of a view: in metres, and in pixels. */
export function ruler(view: View, most: number): [metres: number, pixels: number] {
  const [lat] = place(view.x, view.y);
  const metresOfPixel = (METRES_AROUND * Math.cos((lat * Math.PI) / 180)) / view.scale;
  const longest = most * metresOfPixel;
  const power = 10 ** Math.floor(Math.log10(longest));
  const metres = power * ([5, 2, 1].find((each) => each * power <= longest) ?? 1);
  return [metres, metres / metresOfPixel];
}

const STEPS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 45];

/** How many degrees lie between two lines of a graticule that are some pixels apart. */
export const degrees = (view: View, pixels: number): number =>
  STEPS.find((each) => (each / 360) * view.scale >= pixels) ?? 45;
