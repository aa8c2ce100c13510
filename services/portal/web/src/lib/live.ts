import { Code, ConnectError } from "@connectrpc/connect";
import { pause, type Problem, problem } from "./problem.ts";

/** How long a page that nobody sees keeps its stream. Browsers open six connections to a host: see ADR 147. */
export const HIDDEN_MS = 30_000;

/** How long rows may be silent. A watch says something each second; a host gives up a look of 90 s. */
export const SILENT_MS = 100_000;

/** Whether somebody sees the page: its document, or what stands for it in a test. */
export interface Seen extends EventTarget {
  readonly hidden: boolean;
}

/** A signal that comes when the page was not seen for so long, or with the other one; and the end of looking. */
function unseen(page: Seen, signal: AbortSignal, hiddenMs: number): [AbortSignal, () => void] {
  const own = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const turned = (): void => {
    clearTimeout(timer);
    if (page.hidden) timer = setTimeout(() => own.abort(), hiddenMs);
  };
  page.addEventListener("visibilitychange", turned);
  turned();
  const end = (): void => {
    clearTimeout(timer);
    page.removeEventListener("visibilitychange", turned);
  };
  return [AbortSignal.any([signal, own.signal]), end];
}

/** Answers when the page is seen, or with the signal. */
const seen = (page: Seen, signal: AbortSignal): Promise<void> =>
  new Promise((done) => {
    if (!page.hidden || signal.aborted) return done();
    const own = new AbortController();
    const look = (): void => {
      if (page.hidden && !signal.aborted) return;
      own.abort();
      done();
    };
    page.addEventListener("visibilitychange", look, { signal: own.signal });
    signal.addEventListener("abort", look, { signal: own.signal });
  });

/**
 * Follow a stream for as long as the page is seen: it is begun again when it ends, and when somebody comes back.
 *
 * read: reads one stream to its end; `came` is to be called when it has brought what it should.
 * failed: told why an attempt failed, and how many in a row did before; not asked again is who is refused.
 */
export async function follow(
  signal: AbortSignal,
  read: (signal: AbortSignal, came: () => void) => Promise<void>,
  failed: (why: Problem, before: number) => void,
  page: Seen = document,
  hiddenMs = HIDDEN_MS,
): Promise<void> {
  for (let attempt = 0; !signal.aborted;) {
    await seen(page, signal);
    if (signal.aborted) return;
    const [own, end] = unseen(page, signal, hiddenMs);
    try {
      await read(own, () => (attempt = 0));
    } catch (error) {
      if (!own.aborted) {
        const why = problem(error);
        failed(why, attempt);
        if (why.kind === "refused" || why.kind === "login") return;
      }
    } finally {
      end();
    }
    if (!own.aborted) await new Promise((wake) => setTimeout(wake, pause(attempt++)));
  }
}

/**
 * The steps of a stream that has always something to say: one that is silent for so long has failed, for who
 * passes it on may have lost it.
 *
 * open: begins the stream, with a signal of its own.
 */
export async function* heard<Step>(
  open: (signal: AbortSignal) => AsyncIterable<Step>,
  signal: AbortSignal,
  silentMs = SILENT_MS,
): AsyncGenerator<Step> {
  const own = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const wait = (): void => {
    clearTimeout(timer);
    timer = setTimeout(() => own.abort(), silentMs);
  };
  wait();
  try {
    for await (const step of open(AbortSignal.any([signal, own.signal]))) {
      yield step;
      wait();
    }
  } catch (error) {
    if (signal.aborted || !own.signal.aborted) throw error;
    throw new ConnectError(`Nothing has come for ${silentMs / 1000} s.`, Code.Unavailable);
  } finally {
    clearTimeout(timer);
  }
}
