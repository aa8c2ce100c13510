/**
 * Asks one thing at a time, and of what comes meanwhile only the newest: what is typed is judged at once, and a slow
 * answer delays no more than one question.
 */
export class Newest<Asked> {
  readonly #ask: (asked: Asked, signal: AbortSignal, isNewest: () => boolean) => Promise<void>;
  readonly #left = new AbortController();
  #waits: { asked: Asked } | null = null;
  #runs = false;

  /** ask: asks, and takes the answer; `isNewest` says then whether nothing newer waits. It throws nothing. */
  constructor(ask: (asked: Asked, signal: AbortSignal, isNewest: () => boolean) => Promise<void>) {
    this.#ask = ask;
  }

  /** Ask now, or as soon as what is asked is answered. */
  put(asked: Asked): void {
    this.#waits = { asked };
    if (!this.#runs) void this.#run();
  }

  /** Ask nothing more, and give up what is asked. */
  stop(): void {
    this.#left.abort();
    this.#waits = null;
  }

  async #run(): Promise<void> {
    this.#runs = true;
    while (this.#waits && !this.#left.signal.aborted) {
      const { asked } = this.#waits;
      this.#waits = null;
      await this.#ask(asked, this.#left.signal, () => this.#waits === null);
    }
    this.#runs = false;
  }
}
