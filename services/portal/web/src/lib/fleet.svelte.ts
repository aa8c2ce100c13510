import { Code, ConnectError } from "@connectrpc/connect";
import type { Dagger } from "../gen/daggers/v1/dagger_pb.ts";
import { left, pause, type Problem, problem } from "./problem.ts";
import { daggers, streams } from "./rpc.ts";
import { noted, type Rates } from "./spark.ts";

/** All daggers, as they are now: a list first, then what changes. One store for the page that is open. */
export class Fleet {
  all = $state.raw<ReadonlyMap<string, Dagger>>(new Map());
  /** Rows a second since the page was opened. */
  rates = $state.raw<Rates>(new Map());
  total = $state(0);
  loaded = $state(false);
  trouble = $state.raw<Problem | null>(null);
  #due = new Set<string>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #sequence = 0n;

  /** Follow until the signal; answers when that comes. */
  async follow(signal: AbortSignal): Promise<void> {
    for (let attempt = 0; !signal.aborted; attempt++) {
      try {
        await this.#list(signal);
        attempt = 0;
        await Promise.race([this.#events(signal), this.#vitals(signal)]);
      } catch (error) {
        if (signal.aborted || left(error)) break;
        const why = problem(error);
        // A stream that ends with the portal or the gateway begins again; what is shown stays.
        if (why.kind !== "away" || !this.loaded || attempt > 1) this.trouble = why;
        if (why.kind === "refused" || why.kind === "login") break;
      }
      await new Promise((wake) => setTimeout(wake, pause(attempt)));
    }
    clearTimeout(this.#timer);
  }

  async #list(signal: AbortSignal): Promise<void> {
    const found = new Map<string, Dagger>();
    let pageToken = "";
    do {
      const answer = await daggers.listDaggers({ pageSize: 1000, pageToken }, { signal });
      for (const dagger of answer.daggers) found.set(dagger.name, dagger);
      this.total = answer.totalSize;
      this.#sequence = answer.sequence;
      pageToken = answer.nextPageToken;
    } while (pageToken);
    this.all = found;
    this.loaded = true;
    this.trouble = null;
  }

  async #events(signal: AbortSignal): Promise<void> {
    for await (const step of streams.watchEvents({ sinceSequence: this.#sequence }, { signal })) {
      this.#sequence = step.sequence;
      if (step.step.case !== "event" || !step.step.value.subject) continue;
      this.#due.add(step.step.value.subject);
      this.#timer ??= setTimeout(() => void this.#renew(signal), 200);
    }
  }

  async #vitals(signal: AbortSignal): Promise<void> {
    for await (const step of streams.watchVitals({}, { signal })) {
      if (!step.vitals.length) continue;
      this.rates = noted(this.rates, step.vitals);
      const now = new Map(this.all);
      for (const vitals of step.vitals) {
        const dagger = now.get(vitals.dagger);
        if (dagger) now.set(vitals.dagger, { ...dagger, vitals });
      }
      this.all = now;
    }
  }

  /** Read anew what events were about: several at once, and each once. */
  async #renew(signal: AbortSignal): Promise<void> {
    this.#timer = undefined;
    const names = [...this.#due];
    this.#due.clear();
    const answers = await Promise.all(names.map((name) => this.#one(name, signal)));
    const now = new Map(this.all);
    answers.forEach((dagger, at) => {
      if (dagger) now.set(names[at]!, dagger);
      else if (dagger === null) now.delete(names[at]!);
    });
    this.all = now;
    this.total = now.size;
  }

  async #one(name: string, signal: AbortSignal): Promise<Dagger | null | undefined> {
    try {
      return (await daggers.getDagger({ name, minSequence: this.#sequence }, { signal })).dagger;
    } catch (error) {
      // Events are also about clusters and teams, which are no daggers.
      return ConnectError.from(error).code === Code.NotFound ? null : undefined;
    }
  }
}
