import { left, problem } from "../problem.ts";
import { earlier, type Reading } from "./reading.svelte.ts";
import type { Windows } from "./windows.ts";

/** The windows that were so many days before those of a map. */
export class Comparison {
  /** Why there is none. */
  unread = $state("");
  #found = $state.raw<{ days: number; windows: Windows } | null>(null);

  /** Those of so many days before; null while they are not read, and where there are none. */
  of(days: number): Windows | null {
    return days && this.#found?.days === days && this.#found.windows.size ? this.#found.windows : null;
  }

  /** Read them, by the column that is the time of a row. */
  async read(
    name: string,
    reading: Reading,
    days: number,
    column: string,
    signal: AbortSignal,
  ): Promise<void> {
    const { times } = reading.windows;
    this.unread = "";
    try {
      const windows = await earlier(name, [times[0]!, times.at(-1)!], days, column, signal);
      reading.windows.know(windows);
      reading.version++;
      this.#found = { days, windows };
      if (!windows.size) this.unread = "There are no rows of that time.";
    } catch (error) {
      if (!left(error)) this.unread = problem(error).text;
    }
  }
}
