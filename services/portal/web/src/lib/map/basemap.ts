import { type Box, x, y } from "./mercator.ts";

// Land and borders, of TopoJSON (https://github.com/topojson/topojson-specification): lines as whole numbers, each as a
// step from the one before, which areas name by their numbers; ~n is line n backwards. Pure.

interface Area {
  type: string;
  arcs?: number[][] | number[][][];
}
export interface Topology {
  transform: { scale: number[]; translate: number[] };
  arcs: number[][][];
  objects: Record<string, { geometries: Area[] }>;
}
/** Points one after another as x, y, and the area that they are in. */
export interface Line {
  box: Box;
  points: Float64Array;
}
export interface Basemap {
  /** Rings of land. */
  land: Line[];
  /** Where two countries meet. */
  borders: Line[];
}

const EDGE = 1e-6;

function boxOf(points: Float64Array): Box {
  const box: Box = [Infinity, Infinity, -Infinity, -Infinity];
  for (let at = 0; at < points.length; at += 2) {
    box[0] = Math.min(box[0], points[at]!);
    box[1] = Math.min(box[1], points[at + 1]!);
    box[2] = Math.max(box[2], points[at]!);
    box[3] = Math.max(box[3], points[at + 1]!);
  }
  return box;
}

const line = (points: Float64Array): Line => ({ points, box: boxOf(points) });
const rings = (area: Area): number[][] =>
  area.type === "Polygon"
    ? (area.arcs as number[][])
    : area.type === "MultiPolygon"
      ? (area.arcs as number[][][]).flat()
      : [];

/** What is drawn of countries. */
export function basemap(world: Topology): Basemap {
  const { scale, translate } = world.transform;
  const arcs = world.arcs.map((steps) => {
    const points = new Float64Array(steps.length * 2);
    let [lng, lat] = [0, 0];
    steps.forEach(([right, up], at) => {
      lng += right!;
      lat += up!;
      points[at * 2] = x(lng * scale[0]! + translate[0]!);
      points[at * 2 + 1] = y(lat * scale[1]! + translate[1]!);
    });
    return points;
  });
  const used = new Uint8Array(arcs.length);
  for (const area of world.objects.countries!.geometries)
    for (const ring of rings(area)) for (const arc of ring) used[arc < 0 ? ~arc : arc]!++;
  const land = world.objects.land!.geometries.flatMap(rings).map((ring) => line(joined(ring, arcs)));
  return {
    // What goes over the date line is seen at both edges of the map.
    land: land.flatMap((one) => [
      one,
      ...(one.box[2] > 1 + EDGE ? [shifted(one, -1)] : []),
      ...(one.box[0] < -EDGE ? [shifted(one, 1)] : []),
    ]),
    borders: arcs.filter((_, at) => used[at]! > 1).map(line),
  };
}

const shifted = ({ points }: Line, by: number): Line =>
  line(points.map((value, at) => (at % 2 ? value : value + by)));

/**
 * The points of a ring: its lines, each of which begins where the one before ends. It goes on over the date line, where
 * longitudes begin anew; one that goes around the pole is closed along the edge of the map.
 */
function joined(ring: number[], arcs: Float64Array[]): Float64Array {
  const points: number[] = [];
  let over = 0;
  for (const arc of ring) {
    const own = arcs[arc < 0 ? ~arc : arc]!;
    const last = own.length / 2 - 1;
    for (let at = points.length ? 1 : 0; at <= last; at++) {
      const from = 2 * (arc < 0 ? last - at : at);
      const before = points.at(-2);
      if (before !== undefined) over -= Math.round(own[from]! + over - before);
      points.push(own[from]! + over, own[from + 1]!);
    }
  }
  if (over) points.push(points.at(-2)!, 1, points[0]!, 1);
  return Float64Array.from(points);
}
