import type { Row } from "../../gen/daggers/v1/output_pb.ts";
import { ms } from "../format.ts";

/** How the rows of a cell become one value. */
export type Aggregate = "sum" | "mean" | "least" | "greatest" | "rows";
export const ADDED: Aggregate[] = ["sum", "rows"];

/** The texts of a column, each with a number. */
export class Texts {
  all: string[] = [];
  #known = new Map<string, number>();

  number(text: string): number {
    let known = this.#known.get(text);
    if (known === undefined) {
      known = this.all.push(text) - 1;
      this.#known.set(text, known);
    }
    return known;
  }
}

/** The rows of one time, a column behind another: numbers of texts, and numbers. What is shorter ends with nothing. */
interface Block {
  rows: number;
  texts: Map<string, number[]>;
  numbers: Map<string, number[]>;
}

function put(into: Map<string, number[]>, name: string, row: number, value: number, none: number): void {
  let column = into.get(name);
  if (!column) into.set(name, (column = []));
  while (column.length < row) column.push(none);
  column[row] = value;
}

/** Rows by their time, kept as columns: objects of so many would be a hundred times as much. */
export class Windows {
  /** Columns that have texts, or whole numbers, which may name cells. */
  texts = new Map<string, Texts>();
  numbers = new Set<string>();
  #blocks = new Map<number, Block>();

  /** Their times in ms, the oldest first. */
  get times(): number[] {
    return [...this.#blocks.keys()].sort((a, b) => a - b);
  }

  /** How many rows there are. */
  get size(): number {
    let size = 0;
    for (const block of this.#blocks.values()) size += block.rows;
    return size;
  }

  /** Add rows; those without a time have no window. */
  add(rows: Row[]): void {
    for (const row of rows) {
      const time = ms(row.time);
      if (time === null) continue;
      let block = this.#blocks.get(time);
      if (!block) this.#blocks.set(time, (block = { rows: 0, texts: new Map(), numbers: new Map() }));
      const at = block.rows++;
      for (const name in row.tags) this.#text(block, name, at, row.tags[name]!);
      for (const { name, value } of row.fields) {
        if (value.case === "text" || value.case === "integer") this.#text(block, name, at, `${value.value}`);
        if (value.case === "integer" || value.case === "number") {
          this.numbers.add(name);
          put(block.numbers, name, at, Number(value.value), NaN);
        }
      }
    }
  }

  #text(block: Block, name: string, row: number, text: string): void {
    let texts = this.texts.get(name);
    if (!texts) this.texts.set(name, (texts = new Texts()));
    put(block.texts, name, row, texts.number(text), -1);
  }

  /** Forget the windows from a time on, or those before it. */
  drop(which: (time: number) => boolean): void {
    for (const time of this.#blocks.keys()) if (which(time)) this.#blocks.delete(time);
  }

  /** Know the texts of others, so that both have the same numbers for those that are here. */
  know(others: Windows): void {
    for (const [name, texts] of others.texts) {
      const own = this.texts.get(name);
      if (own) for (const text of texts.all) own.number(text);
    }
  }

  /** Have the windows of others, instead of those of the same times. */
  take(others: Windows): void {
    for (const name of others.numbers) this.numbers.add(name);
    for (const [time, theirs] of others.#blocks) {
      const texts = new Map<string, number[]>();
      for (const [name, column] of theirs.texts) {
        const from = others.texts.get(name)!.all;
        let own = this.texts.get(name);
        if (!own) this.texts.set(name, (own = new Texts()));
        texts.set(
          name,
          column.map((at) => (at < 0 ? -1 : own.number(from[at]!))),
        );
      }
      this.#blocks.set(time, { ...theirs, texts });
    }
  }

  /**
   * The value of each cell in a window, by the numbers that texts have in this column of `by`; NaN where there is
   * none. And how many rows have no cell.
   */
  values(
    time: number,
    cells: string,
    value: string,
    how: Aggregate,
    by = this.texts.get(cells),
  ): { values: Float64Array; without: number } {
    const block = this.#blocks.get(time);
    const own = this.texts.get(cells);
    const numbers = block?.numbers.get(value);
    const of = block?.texts.get(cells);
    // The texts of another collection have other numbers there.
    const at = own === by ? null : (own?.all.map((text) => by!.number(text)) ?? null);
    const values = new Float64Array(by?.all.length ?? 0).fill(NaN);
    const counts = how === "mean" ? new Uint32Array(values.length) : null;
    let without = 0;
    for (let row = 0; row < (block?.rows ?? 0); row++) {
      const text = of?.[row] ?? -1;
      if (text < 0) {
        without++;
        continue;
      }
      const cell = at ? at[text]! : text;
      const one = how === "rows" ? 1 : (numbers?.[row] ?? NaN);
      if (Number.isNaN(one)) continue;
      const known = values[cell]!;
      if (Number.isNaN(known)) values[cell] = one;
      else if (how === "least") values[cell] = Math.min(known, one);
      else if (how === "greatest") values[cell] = Math.max(known, one);
      else values[cell] = known + one;
      if (counts) counts[cell]!++;
    }
    if (counts) for (let cell = 0; cell < values.length; cell++) values[cell]! /= counts[cell] || 1;
    return { values, without };
  }
}

/** How much more there is than before; what is added up is 0 where there is nothing, and unknown otherwise. */
export function difference(now: Float64Array, before: Float64Array, how: Aggregate): Float64Array {
  const none = ADDED.includes(how) ? 0 : NaN;
  return Float64Array.from({ length: Math.max(now.length, before.length) }, (_, cell) => {
    const [value, earlier] = [now[cell] ?? NaN, before[cell] ?? NaN];
    if (Number.isNaN(value) && Number.isNaN(earlier)) return NaN;
    return (Number.isNaN(value) ? none : value) - (Number.isNaN(earlier) ? none : earlier);
  });
}

/** The cells that have a value, of so many, the largest first. */
export function ranked(values: Float64Array, many: number): Uint32Array {
  const found: number[] = [];
  for (let cell = 0; cell < Math.min(values.length, many); cell++)
    if (!Number.isNaN(values[cell]!)) found.push(cell);
  return Uint32Array.from(found.sort((a, b) => values[b]! - values[a]!));
}

/** A value as it is written, without what doubles add to it; null for none. */
export const known = (value: number | undefined): number | null =>
  value === undefined || Number.isNaN(value) ? null : Number(value.toPrecision(12));
