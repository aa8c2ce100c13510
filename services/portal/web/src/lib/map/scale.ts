import { count } from "../format.ts";

/** How many colours there are. */
export const CLASSES = 7;
/** The class of a cell that is not shown. */
export const NO_CLASS = 255;
const SAMPLED = 20_000;
/** Of so many windows, which stand for all. */
const BREAKS_OF = 24;
const compare = (a: number, b: number): number => a - b;

/** A number of two digits and zeros. */
export function round(value: number): number {
  if (!value || !Number.isFinite(value)) return 0;
  const power = 10 ** (Math.floor(Math.log10(Math.abs(value))) - 1);
  return Number((Math.round(value / power) * power).toPrecision(12));
}

function sampled(values: Iterable<Float64Array>): number[] {
  const all: number[] = [];
  for (const some of values) for (const value of some) if (!Number.isNaN(value)) all.push(value);
  if (all.length <= SAMPLED) return all.sort(compare);
  const step = all.length / SAMPLED;
  return Array.from({ length: SAMPLED }, (_, at) => all[Math.floor(at * step)]!).sort(compare);
}

/** Where classes begin that have about as many values each: at most one less than there are colours, ascending. */
export function breaks(values: Iterable<Float64Array>, classes = CLASSES): number[] {
  const sorted = sampled(values);
  const different = [...new Set(sorted)];
  if (different.length <= classes) return different.slice(1);
  const found = Array.from({ length: classes - 1 }, (_, at) =>
    round(sorted[Math.floor(((at + 1) * sorted.length) / classes)]!),
  );
  return [...new Set(found)].filter((each) => each > sorted[0]!).sort(compare);
}

/** The same for differences: the middle class is what has hardly changed, and both sides have the same steps. */
export function sides(values: Iterable<Float64Array>): number[] {
  const sizes = sampled(values)
    .map(Math.abs)
    .filter((each) => each > 0);
  const up = breaks([Float64Array.from(sizes)], (CLASSES + 1) / 2);
  if (!up.length && sizes.length) up.push(Math.min(...sizes));
  return [...up.map((each) => -each).reverse(), ...up];
}

/** Where the classes of some windows begin, by the values or differences that each has. */
export function begins(times: number[], values: (time: number) => Float64Array, compared: boolean): number[] {
  const step = Math.ceil(times.length / BREAKS_OF);
  const some = times.filter((_, at) => at % step === 0).map(values);
  return compared ? sides(some) : breaks(some);
}

/** The class of a value: how many classes begin at or below it. */
export function classOf(value: number, begins: number[]): number {
  let at = 0;
  while (at < begins.length && value >= begins[at]!) at++;
  return at;
}

/** Of a difference, whose classes below zero end at their bound and have it: -5 has changed as much as 5. */
export function sideOf(value: number, begins: number[]): number {
  const half = begins.length / 2;
  return value < 0 ? half - classOf(-value, begins.slice(half)) : half + classOf(value, begins.slice(half));
}

/** Which of the colours a class has, so that few classes are as far apart as many. */
export const colour = (at: number, classes: number): number =>
  classes < 2 ? CLASSES - 2 : Math.round((at * (CLASSES - 1)) / (classes - 1));

/** The colour of each of so many cells, NO_CLASS for one without a value; how many cells are in each class. */
export function classed(
  values: Float64Array,
  many: number,
  begins: number[],
  compared: boolean,
): { classes: Uint8Array; counts: number[] } {
  const classes = new Uint8Array(Math.min(many, values.length)).fill(NO_CLASS);
  const counts = new Array<number>(begins.length + 1).fill(0);
  const colours = counts.map((_, at) => colour(at, counts.length));
  for (let cell = 0; cell < classes.length; cell++) {
    const value = values[cell]!;
    if (Number.isNaN(value)) continue;
    const found = compared ? sideOf(value, begins) : classOf(value, begins);
    counts[found]!++;
    classes[cell] = colours[found]!;
  }
  return { classes, counts };
}

/** What stands beside the colour of a class. */
export function label(at: number, begins: number[]): string {
  if (!begins.length) return "all";
  if (at === 0) return `below ${count(begins[0]!)}`;
  if (at === begins.length) return `${count(begins[at - 1]!)} and more`;
  return `${count(begins[at - 1]!)} to ${count(begins[at]!)}`;
}

/** The same beside a difference. */
export function sideLabel(at: number, begins: number[]): string {
  const half = begins.length / 2;
  if (!half) return "as before";
  if (at === half) return `within ±${count(begins[half]!)}`;
  const sign = at > half ? "+" : "−";
  const [from, to] = at > half ? [begins[at - 1], begins[at]] : [begins[at], begins[at - 1]];
  const [near, far] = [from!, to].map((each) => (each === undefined ? each : count(Math.abs(each))));
  return far === undefined ? `${sign}${near} and more` : `${sign}${near} to ${sign}${far}`;
}
