import { type Basemap, basemap, type Topology } from "./basemap.ts";

// Natural Earth (public domain), by npm's world-atlas: finer the nearer a map is, and none before somebody looks.
const FINER: [scale: number, load: () => Promise<{ default: Topology }>][] = [
  [0, () => import("world-atlas/countries-110m.json")],
  [2 ** 11, () => import("world-atlas/countries-50m.json")],
  [2 ** 14, () => import("world-atlas/countries-10m.json")],
];
const known = new Map<number, Promise<Basemap>>();

/** Which of the basemaps is for a scale, in pixels for the whole world. */
export const detail = (scale: number): number => FINER.filter(([from]) => scale >= from).length - 1;

/** A basemap, loaded once. */
export function world(of: number): Promise<Basemap> {
  let map = known.get(of);
  if (!map) {
    map = FINER[of]![1]().then((loaded) => basemap(loaded.default));
    map.catch(() => known.delete(of));
    known.set(of, map);
  }
  return map;
}
