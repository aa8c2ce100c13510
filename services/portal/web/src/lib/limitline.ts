/** Where the numbers of a chart stand: the greatest at the top, in pixels of what the chart is in. */
export interface Plot {
  low: number;
  high: number;
  left: number;
  top: number;
  width: number;
  height: number;
}

/** How far a key moves a line: about a hundredth of what is drawn, as 1, 2 or 5 and zeros. */
export function stepOf({ low, high }: Plot): number {
  const least = (high - low) / 100;
  if (!(least > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((each) => each * power).find((each) => each >= least * 0.999) ?? power;
}
/** A number with no more places than a step has. */
const settled = (value: number, step: number): number =>
  Number((Math.round(value / step) * step).toFixed(Math.max(0, -Math.floor(Math.log10(step)))));

/** Where a number stands, in pixels; what is beyond the chart stands at its edge. */
export const heightOf = (value: number, plot: Plot): number => {
  const share = (plot.high - value) / (plot.high - plot.low || 1);
  return plot.top + Math.min(1, Math.max(0, share)) * plot.height;
};
/** The number that stands there. */
export function valueAt(y: number, plot: Plot): number {
  const share = Math.min(1, Math.max(0, (y - plot.top) / (plot.height || 1)));
  return settled(plot.high - share * (plot.high - plot.low), stepOf(plot));
}

const PAGE = 10;
/** Where a key moves a line to; null for other keys. */
export function moved(value: number, key: string, plot: Plot): number | null {
  const step = stepOf(plot);
  const by = { ArrowUp: 1, ArrowRight: 1, ArrowDown: -1, ArrowLeft: -1, PageUp: PAGE, PageDown: -PAGE }[key];
  if (key === "Home") return settled(plot.low, step);
  if (key === "End") return settled(plot.high, step);
  return by === undefined ? null : settled(value + by * step, step);
}
/** Where a line begins: two thirds up what is drawn. */
export const firstLimit = (values: readonly (readonly (number | null | undefined)[])[]): number => {
  const known = values.flat().filter((each): each is number => typeof each === "number");
  const high = known.reduce((most, each) => Math.max(most, each), 0) || 1;
  const plot = { low: 0, high, left: 0, top: 0, width: 1, height: 1 };
  return settled((high * 2) / 3, stepOf(plot));
};
