import { Code, ConnectError } from "@connectrpc/connect";
import type { Dagger } from "../gen/daggers/v1/dagger_pb.ts";
import type { Vitals } from "../gen/daggers/v1/vitals_pb.ts";
import { follow } from "./live.ts";
import type { Problem } from "./problem.ts";
import { daggers, streams } from "./rpc.ts";
import { noted, type Rates } from "./spark.ts";

/** More changes at once than this are read by a list. */
const MANY = 50;

/** All daggers, as they are now: a list first, then what changes. One store for the page that is open. */
export class Fleet {
  all = $state.raw<ReadonlyMap<string, Dagger>>(new Map());
  /** Rows a second since the page was opened. */
  rates = $state.raw<Rates>(new Map());
  total = $state(0);
  loaded = $state(false);
  trouble = $state.raw<Problem | null>(null);
  #sequence = 0n;

  /** Follow until the signal; answers when that comes. */
  async follow(signal: AbortSignal): Promise<void> {
    await follow(
      signal,
      async (signal, came) => {
        // The list says all that the stream's first step would: who opens a page waits for no other answer.
        await this.#list(signal);
        let begun = false;
        // One stream tells of everything: browsers open few connections to a host.
        for await (const step of streams.watchVitals({}, { signal })) {
          const missed = !begun && step.sequence > this.#sequence; // what changed between both
          this.#sequence = step.sequence;
          if (missed) await this.#list(signal, step.sequence);
          else if (begun) await this.#renew(step.changed, step.gone, signal);
          begun = true;
          came();
          this.#note(step.vitals);
        }
      },
      (why, before) => {
        // A stream that ends with the portal or the gateway begins again; what is shown stays.
        if (why.kind !== "away" || !this.loaded || before > 1) this.trouble = why;
      },
    );
  }

  /** Read all of them, as they are at a sequence of the log or later. */
  async #list(signal: AbortSignal, minSequence?: bigint): Promise<void> {
    const found = new Map<string, Dagger>();
    let pageToken = "";
    do {
      const answer = await daggers.listDaggers({ pageSize: 1000, pageToken, minSequence }, { signal });
      for (const dagger of answer.daggers) found.set(dagger.name, dagger);
      this.total = answer.totalSize;
      if (!pageToken) this.#sequence = answer.sequence; // what changes while its pages are read is told
      pageToken = answer.nextPageToken;
    } while (pageToken);
    this.all = found;
    this.loaded = true;
    this.trouble = null;
  }

  #note(told: Vitals[]): void {
    if (!told.length) return;
    this.rates = noted(this.rates, told);
    const now = new Map(this.all);
    for (const vitals of told) {
      const dagger = now.get(vitals.dagger);
      if (dagger) now.set(vitals.dagger, { ...dagger, vitals });
    }
    this.all = now;
  }

  /** Read anew those that have changed, and forget those that are gone. */
  async #renew(changed: string[], gone: string[], signal: AbortSignal): Promise<void> {
    if (changed.length > MANY) return this.#list(signal, this.#sequence);
    if (!changed.length && !gone.length) return;
    const answers = await Promise.all(changed.map((name) => this.#one(name, signal)));
    const now = new Map(this.all);
    answers.forEach((dagger, at) => dagger && now.set(changed[at]!, dagger));
    for (const name of gone) now.delete(name);
    this.all = now;
    this.total = now.size;
  }

  async #one(name: string, signal: AbortSignal): Promise<Dagger | undefined> {
    try {
      return (await daggers.getDagger({ name, minSequence: this.#sequence }, { signal })).dagger;
    } catch (error) {
      if (ConnectError.from(error).code === Code.NotFound) return undefined; // a later step says that it is gone
      throw error;
    }
  }
}
