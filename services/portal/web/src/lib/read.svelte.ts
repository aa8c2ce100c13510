import { untrack } from "svelte";
import { left, type Problem, problem } from "./problem.ts";

/** What one call answers: read at once, and again when asked; every so often, when that is said. */
export class Read<T> {
  value = $state.raw<T | null>(null);
  trouble = $state.raw<Problem | null>(null);
  #call: (signal: AbortSignal) => Promise<T>;
  #abort = new AbortController();

  constructor(call: (signal: AbortSignal) => Promise<T>, everyMs = 0) {
    this.#call = call;
    $effect(() => {
      // What a call asks for may change: its page asks again then, and is not begun anew.
      untrack(() => void this.again());
      const timer = everyMs ? setInterval(() => document.hidden || void this.again(), everyMs) : undefined;
      return () => {
        clearInterval(timer);
        this.#abort.abort();
      };
    });
  }

  async again(): Promise<void> {
    try {
      this.value = await this.#call(this.#abort.signal);
      this.trouble = null;
    } catch (error) {
      if (!left(error)) this.trouble = problem(error);
    }
  }
}

/** Begin a task, and answer what ends it: for an effect, or for as long as a component is there. */
export function during(task: (signal: AbortSignal) => unknown): () => void {
  const abort = new AbortController();
  void task(abort.signal);
  return () => abort.abort();
}

/** What is on all pages of a list. */
export async function pages<P extends { nextPageToken: string }, T>(
  page: (pageToken: string) => Promise<P>,
  items: (page: P) => T[],
): Promise<T[]> {
  const found: T[] = [];
  let token = "";
  do {
    const answer = await page(token);
    found.push(...items(answer));
    token = answer.nextPageToken;
  } while (token);
  return found;
}
