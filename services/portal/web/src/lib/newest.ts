import { pause } from "./problem.ts";

/**
 * Asks one thing at a time, and of what comes meanwhile only the newest: what is typed is judged at once, and a slow
 * answer delays no more than one question. What nobody answers is asked again, later each time, unless something newer
 * comes.
 */
export class Newest<Asked> {
  readonly #ask: (asked: Asked, signal: AbortSignal, isNewest: () => boolean) => Promise<boolean>;
  readonly #left = new AbortController();
  #waits: { asked: Asked } | null = null;
  #runs = false;
  #again: ReturnType<typeof setTimeout> | undefined;
  #unanswered = 0;

  /**
   * ask: asks, and takes the answer; false: nobody answered. `isNewest` says then whether nothing newer waits. It throws
   * nothing.
   */
  constructor(ask: (asked: Asked, signal: AbortSignal, isNewest: () => boolean) => Promise<boolean>) {
    this.#ask = ask;
  }

  /** Ask now, or as soon as what is asked is answered. */
  put(asked: Asked): void {
    clearTimeout(this.#again);
    this.#waits = { asked };
    if (!this.#runs) void this.#run();
  }

  /** Ask nothing more, and give up what is asked. */
  stop(): void {
    this.#left.abort();
    this.#waits = null;
    clearTimeout(this.#again);
  }

  async #run(): Promise<void> {
    this.#runs = true;
    while (this.#waits && !this.#left.signal.aborted) {
      const { asked } = this.#waits;
      this.#waits = null;
      const answered = await this.#ask(asked, this.#left.signal, () => this.#waits === null);
      if (answered) this.#unanswered = 0;
      else if (!this.#waits && !this.#left.signal.aborted)
        this.#again = setTimeout(() => this.put(asked), pause(this.#unanswered++));
    }
    this.#runs = false;
  }
}
