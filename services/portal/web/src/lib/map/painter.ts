import type { Basemap, Line } from "./basemap.ts";
import type { Shapes } from "./cells.ts";
import { type Box, degrees, meet, moved, place, seen, type View, within, x, y } from "./mercator.ts";

/** Colours of a scheme. */
export interface Paint {
  sea: string;
  land: string;
  coast: string;
  lines: string;
  text: string;
  edge: string;
  chosen: string;
  classes: string[];
}

// What a frame may take for outlines that are due; the rest comes with the next ones.
const BUDGET_MS = 4;
const AT_ONCE = 100;
// A path that has many outlines takes longer for one more.
const IN_A_PATH = 1_000;
// Outlines are kept in floats of 32 bits: whole numbers of these parts of the world are near enough from their origin.
const UNIT = 2 ** 24;
const LINES_APART = 110;
const AROUND = 3;
const EDGES_FROM = 7;
/** Pixels across that a cell has at least: in a view of several cities each of them is seen. */
export const LEAST_PX = 7;

/** How wide a line around a cell is, in pixels: of its own colour it is what the cell lacks of the least size. */
export const around = (pixels: number): number =>
  pixels >= EDGES_FROM ? 0.8 : Math.max(0.5, LEAST_PX - pixels);

interface Traced {
  /** By their colour, each some of its outlines. */
  paths: [colour: number, path: Path2D][];
  /** How wide the cells are, of the world. */
  wide: number;
}
interface Ground {
  of: Basemap;
  area: Box;
  origin: [number, number];
  land: Path2D;
  borders: Path2D;
}

/**
 * Draws a map. Outlines become paths once for each change of values, a few at a time; a frame that only moves draws
 * these elsewhere, which takes as long for one cell as for all.
 */
export class Painter {
  view: View = { x: 0.5, y: 0.5, scale: 512 };
  base: Basemap | null = null;
  paint: Paint | null = null;
  /** The cell that is pointed at, or -1. */
  chosen = -1;
  /** Whether it moves: what only closes the gaps between neighbours can wait. */
  moving = false;
  #canvas: HTMLCanvasElement;
  #context: CanvasRenderingContext2D;
  #shapes: Shapes | null = null;
  #origin: [number, number] = [0, 0];
  #due: Generator<void, Traced> | null = null;
  #traced: Traced | null = null;
  #ground: Ground | null = null;
  #frame = 0;
  #changed = false;
  #width = 0;
  #height = 0;
  #ratio = 1;

  constructor(canvas: HTMLCanvasElement) {
    this.#canvas = canvas;
    this.#context = canvas.getContext("2d", { alpha: false })!;
  }

  get width(): number {
    return this.#width;
  }
  get height(): number {
    return this.#height;
  }

  size(width: number, height: number, ratio: number): void {
    [this.#width, this.#height, this.#ratio] = [width, height, ratio];
    this.#canvas.width = Math.round(width * ratio);
    this.#canvas.height = Math.round(height * ratio);
    this.#draw(); // at once: a canvas that was sized is empty
  }

  /** Show cells by their classes, NO_CLASS where a cell is not shown. */
  show(shapes: Shapes, classes: Uint8Array, colours: number): void {
    if (shapes !== this.#shapes) {
      this.#shapes = shapes;
      const box = shapes.box(() => true);
      this.#origin = box ? [(box[0] + box[2]) / 2, (box[1] + box[3]) / 2] : [0, 0];
    }
    this.#due = this.#trace(shapes, classes, colours);
    this.#next();
  }

  /** Show it with the next frame. */
  draw(): void {
    this.#changed = true;
    this.#next();
  }

  /** Go on with what is due in the next frame; what has not changed is not drawn. */
  #next(): void {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      const end = performance.now() + BUDGET_MS;
      while (this.#due && performance.now() < end) {
        const step = this.#due.next();
        if (!step.done) continue;
        this.#traced = step.value;
        this.#due = null;
        this.#changed = true;
      }
      if (this.#due) this.#next();
      if (this.#changed) this.#draw();
    });
  }

  stop(): void {
    cancelAnimationFrame(this.#frame);
  }

  /** What lies under a pixel, in the square of the map. */
  at(right: number, down: number): [number, number] {
    const there = moved(this.view, this.#width / 2 - right, this.#height / 2 - down);
    return [there.x, there.y];
  }

  *#trace(shapes: Shapes, classes: Uint8Array, colours: number): Generator<void, Traced> {
    const paths: Traced["paths"] = [];
    const open = Array.from({ length: colours }, () => ({ path: new Path2D(), has: IN_A_PATH }));
    let [wide, many] = [0, 0];
    for (let at = 0; at < classes.length; at++) {
      if (at % AT_ONCE === AT_ONCE - 1) yield;
      const own = open[classes[at]!];
      if (!own) continue;
      if (own.has === IN_A_PATH) {
        [own.path, own.has] = [new Path2D(), 0];
        paths.push([classes[at]!, own.path]);
      }
      own.has++;
      outline(own.path, shapes, at, this.#origin);
      wide += shapes.boxes[4 * at + 2]! - shapes.boxes[4 * at]!;
      many++;
    }
    return { paths, wide: many ? wide / many : 0 };
  }

  /** Draw what is in units of the world, from an origin. */
  #place([fromX, fromY]: [number, number], unit: number): number {
    const { view } = this;
    const factor = (view.scale * this.#ratio) / unit;
    this.#context.setTransform(
      factor,
      0,
      0,
      factor,
      ((fromX - view.x) * view.scale + this.#width / 2) * this.#ratio,
      ((fromY - view.y) * view.scale + this.#height / 2) * this.#ratio,
    );
    return factor;
  }

  #draw(): void {
    const { paint, view } = this;
    if (!paint || !this.#width) return;
    this.#changed = false;
    const own = this.#context;
    own.setTransform(1, 0, 0, 1, 0, 0);
    own.fillStyle = paint.sea;
    own.fillRect(0, 0, this.#canvas.width, this.#canvas.height);
    own.lineJoin = "round";
    const ground = this.#grounded();
    if (ground) {
      this.#onlyTheWorld();
      const factor = this.#place(ground.origin, UNIT);
      own.fillStyle = paint.land;
      own.fill(ground.land, "evenodd");
      own.strokeStyle = paint.coast;
      own.lineWidth = this.#ratio / factor;
      own.stroke(ground.land);
      own.stroke(ground.borders);
      own.restore();
    }
    this.#lines(paint);
    if (this.#traced) {
      const factor = this.#place(this.#origin, UNIT);
      const pixels = this.#traced.wide * view.scale;
      const edges = pixels >= EDGES_FROM;
      own.lineWidth = (around(pixels) * this.#ratio) / factor;
      for (const [colour, path] of this.#traced.paths) {
        own.fillStyle = paint.classes[colour]!;
        own.fill(path);
        if (this.moving && !edges && pixels >= LEAST_PX / 2) continue;
        own.strokeStyle = edges ? paint.edge : paint.classes[colour]!;
        own.stroke(path);
      }
    }
    if (ground) {
      this.#onlyTheWorld();
      const factor = this.#place(ground.origin, UNIT);
      own.globalAlpha = 0.6;
      own.lineWidth = this.#ratio / factor;
      own.strokeStyle = paint.coast;
      own.stroke(ground.land);
      own.stroke(ground.borders);
      own.restore();
    }
    if (this.chosen >= 0 && this.#shapes && this.chosen < this.#shapes.size) {
      const path = new Path2D();
      outline(path, this.#shapes, this.chosen, this.#origin);
      const factor = this.#place(this.#origin, UNIT);
      own.strokeStyle = paint.edge;
      own.lineWidth = (5 * this.#ratio) / factor;
      own.stroke(path);
      own.strokeStyle = paint.chosen;
      own.lineWidth = (2.5 * this.#ratio) / factor;
      own.stroke(path);
    }
  }

  /** Until `restore`: land that goes on beyond the date line ends there, and is at the other edge, too. */
  #onlyTheWorld(): void {
    const { scale, x: atX, y: atY } = this.view;
    const own = this.#context;
    own.save();
    own.setTransform(this.#ratio, 0, 0, this.#ratio, 0, 0);
    own.beginPath();
    own.rect(this.#width / 2 - atX * scale, this.#height / 2 - atY * scale, scale, scale);
    own.clip();
  }

  /** Land and borders around the view; made anew when it leaves them. */
  #grounded(): Ground | null {
    if (!this.base) return null;
    const now = seen(this.view, this.#width, this.#height);
    const kept = this.#ground;
    const near = kept && kept.area[2] - kept.area[0] < (now[2] - now[0]) * AROUND * 4;
    if (kept && kept.of === this.base && near && within(now, kept.area)) return kept;
    const area = seen(this.view, this.#width, this.#height, AROUND);
    const origin: [number, number] = [this.view.x, this.view.y];
    const path = (lines: Line[], closed: boolean): Path2D => {
      const made = new Path2D();
      for (const line of lines) if (meet(line.box, area)) trace(made, line.points, origin, closed);
      return made;
    };
    const { land, borders } = this.base;
    this.#ground = { of: this.base, area, origin, land: path(land, true), borders: path(borders, false) };
    return this.#ground;
  }

  /** Lines of latitude and longitude, which say what they are. */
  #lines(paint: Paint): void {
    const own = this.#context;
    const step = degrees(this.view, LINES_APART);
    const [left, top, right, bottom] = seen(this.view, this.#width, this.#height);
    const [north, west] = place(left, top);
    const [south, east] = place(right, bottom);
    own.setTransform(this.#ratio, 0, 0, this.#ratio, 0, 0);
    own.strokeStyle = paint.lines;
    own.lineWidth = 1;
    own.fillStyle = paint.text;
    own.font = "11px system-ui, sans-serif";
    own.beginPath();
    const named: [string, number, number][] = [];
    for (let lng = Math.ceil(Math.max(west, -180) / step) * step; lng <= Math.min(east, 180); lng += step) {
      const across = Math.round((x(lng) - left) * this.view.scale) + 0.5;
      own.moveTo(across, 0);
      own.lineTo(across, this.#height);
      named.push([degree(lng, "E", "W"), across + 4, 14]);
    }
    for (let lat = Math.ceil(Math.max(south, -85) / step) * step; lat <= Math.min(north, 85); lat += step) {
      const down = Math.round((y(lat) - top) * this.view.scale) + 0.5;
      own.moveTo(0, down);
      own.lineTo(this.#width, down);
      if (down > 30) named.push([degree(lat, "N", "S"), 4, down - 4]);
    }
    own.stroke();
    for (const [text, across, down] of named) own.fillText(text, across, down);
  }
}

function degree(value: number, positive: string, negative: string): string {
  const size = Number(Math.abs(value).toFixed(2));
  return `${size}°${size ? (value > 0 ? positive : negative) : ""}`;
}

function outline(path: Path2D, shapes: Shapes, at: number, origin: [number, number]): void {
  trace(path, shapes.points, origin, true, shapes.starts[at], shapes.starts[at + 1]);
}

function trace(
  path: Path2D,
  points: ArrayLike<number>,
  [fromX, fromY]: [number, number],
  closed: boolean,
  begin = 0,
  end = points.length,
): void {
  for (let at = begin; at < end; at += 2) {
    const [right, down] = [(points[at]! - fromX) * UNIT, (points[at + 1]! - fromY) * UNIT];
    if (at === begin) path.moveTo(right, down);
    else path.lineTo(right, down);
  }
  if (closed && end > begin) path.closePath();
}
