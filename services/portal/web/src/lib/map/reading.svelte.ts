import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { RowCondition } from "../../gen/daggers/v1/output_pb.ts";
import { RowCondition_Comparison as Comparison } from "../../gen/daggers/v1/output_pb.ts";
import { ms } from "../format.ts";
import { follow, heard } from "../live.ts";
import { left, type Problem, problem } from "../problem.ts";
import { streams } from "../rpc.ts";
import { Windows } from "./windows.ts";

/** Rows that a map reads at most: what is older is left out. */
export const MOST = 300_000;
const SETTLED_MS = 1_500;

/** The windows of a dagger, read whole: a look of WatchRows has too few rows, and says when to read again. */
export class Reading {
  windows = new Windows();
  /** Another number whenever the windows have changed. */
  version = $state(0);
  loaded = $state(false);
  /** Rows that came so far, while they are read for the first time. */
  coming = $state(0);
  /** Whether older rows were left out. */
  cut = $state(false);
  wrong = $state.raw<Problem | null>(null);
  #name: string;
  #minutes: number;
  #due = Infinity;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(name: string, minutes: number) {
    this.#name = name;
    this.#minutes = minutes;
  }

  /** Read, and go on with what is new, until the signal. */
  async follow(signal: AbortSignal): Promise<void> {
    await follow(
      signal,
      async (own, came) => {
        await this.#read(0, own);
        const watched = heard((signal) => streams.watchRows({ name: this.#name }, { signal }), own);
        for await (const step of watched) {
          came();
          const newest = this.windows.times.at(-1) ?? 0;
          const times = step.rows.map((row) => ms(row.time) ?? 0);
          // What was there when the watch began is known, but for what came in between.
          const fresh = step.snapshot ? times.filter((time) => time > newest) : times;
          if (fresh.length) this.#again(Math.min(...fresh), own);
        }
      },
      (why) => (this.wrong = why),
    );
    clearTimeout(this.#timer);
  }

  /** Read what is new since a time, once no more comes for a moment. */
  #again(since: number, signal: AbortSignal): void {
    this.#due = Math.min(this.#due, since);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      const from = this.#due;
      this.#due = Infinity;
      this.#read(from, signal).catch((error: unknown) => {
        if (!left(error)) this.wrong = problem(error);
      });
    }, SETTLED_MS);
  }

  async #read(from: number, signal: AbortSignal): Promise<void> {
    const oldest = Date.now() - this.#minutes * 60_000;
    const since = Math.max(from, oldest);
    const found = await windows(this.#name, since, [], signal, (rows) => (this.coming = rows));
    this.windows.drop((time) => time < oldest || time >= since);
    this.windows.take(found.windows);
    if (found.cut || from === 0) this.cut = found.cut;
    this.loaded = true;
    this.wrong = null;
    this.version++;
  }
}

/** The windows since a time that meet conditions; `cut`: whether older ones are left out. */
async function windows(
  name: string,
  since: number,
  where: Pick<RowCondition, "column" | "comparison" | "value">[],
  signal: AbortSignal,
  coming: (rows: number) => void,
): Promise<{ windows: Windows; cut: boolean }> {
  const found = new Windows();
  let rows = 0;
  const request = { name, limit: MOST, since: timestampFromMs(since), where };
  for await (const step of heard((signal) => streams.readRows(request, { signal }), signal)) {
    found.add(step.rows);
    coming((rows += step.rows.length));
  }
  const times = found.times;
  // Rows come newest first: of the oldest window there may be more.
  if (rows >= MOST && times.length > 1) found.drop((time) => time === times[0]);
  return { windows: found, cut: rows >= MOST };
}

const DAY_MS = 86_400_000;

/** The windows so many days before those of these times, by the column that is the time of a row. */
export async function earlier(
  name: string,
  [first, last]: [number, number],
  days: number,
  column: string,
  signal: AbortSignal,
): Promise<Windows> {
  const end = new Date(last - days * DAY_MS).toISOString();
  const where = [{ column, comparison: Comparison.AT_MOST, value: end }];
  return (await windows(name, first - days * DAY_MS, where, signal, () => undefined)).windows;
}

/** The same time so many days before. */
export const before = (time: number, days: number): number => time - days * DAY_MS;
