/** The rows of a long list that are drawn, and the pixels that stand for those before and behind them. */
export interface RowWindow {
  /** The first row that is drawn, and the one behind the last. */
  first: number;
  last: number;
  before: number;
  behind: number;
}

/**
 * The rows that meet a part of a list, from `top` to `bottom` in pixels from its beginning.
 *
 * height: pixels of a row with its gap, as it was drawn, or as it is taken to be.
 */
export function rowWindow(
  rows: number,
  height: (row: number) => number,
  top: number,
  bottom: number,
): RowWindow {
  let [first, last, before, behind, at] = [0, 0, 0, 0, 0];
  for (let row = 0; row < rows; row++) {
    const own = height(row);
    if (at + own <= top && row < rows - 1) {
      first = last = row + 1;
      before += own;
    } else if (at < bottom || last === first) last = row + 1;
    else behind += own;
    at += own;
  }
  return { first, last, before, behind };
}

/** How many columns of at least so many pixels a width has room for, with gaps between them. */
export const columnsIn = (width: number, least: number, gap: number): number =>
  Math.max(1, Math.floor((width + gap) / (least + gap)));
