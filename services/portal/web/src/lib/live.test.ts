import { Code, ConnectError } from "@connectrpc/connect";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { follow, heard, type Seen } from "./live.ts";
import type { Problem } from "./problem.ts";

class Page extends EventTarget implements Seen {
  hidden = false;
  turn(hidden: boolean): void {
    this.hidden = hidden;
    this.dispatchEvent(new Event("visibilitychange"));
  }
}
/** A stream that goes on until it is left. */
const open = (signal: AbortSignal): Promise<void> =>
  new Promise((_, fail) =>
    signal.addEventListener("abort", () => fail(new ConnectError("left", Code.Canceled))),
  );

describe("what a page follows", () => {
  let page: Page;
  let abort: AbortController;
  beforeEach(() => {
    vi.useFakeTimers();
    page = new Page();
    abort = new AbortController();
  });
  afterEach(() => vi.useRealTimers());

  function followed(read = open) {
    const begun: AbortSignal[] = [];
    const failed: [Problem, number][] = [];
    const over = follow(
      abort.signal,
      (signal, came) => {
        begun.push(signal);
        if (read === open) came();
        return read(signal);
      },
      (why, before) => failed.push([why, before]),
      page,
      30_000,
    );
    return { begun, failed, over };
  }

  it("ends when nobody has seen it for so long, and begins again for who comes back", async () => {
    const { begun, failed } = followed();
    await vi.advanceTimersByTimeAsync(100_000);
    page.turn(true);
    await vi.advanceTimersByTimeAsync(29_999);
    expect(begun.map((each) => each.aborted)).toEqual([false]);
    await vi.advanceTimersByTimeAsync(100_001);
    expect(begun.map((each) => each.aborted)).toEqual([true]);
    page.turn(false);
    await vi.advanceTimersByTimeAsync(0);
    expect(begun.map((each) => each.aborted)).toEqual([true, false]);
    expect(failed).toEqual([]);
  });
  it("goes on for who was away for a moment", async () => {
    const { begun } = followed();
    await vi.advanceTimersByTimeAsync(0);
    page.turn(true);
    await vi.advanceTimersByTimeAsync(20_000);
    page.turn(false);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(begun.map((each) => each.aborted)).toEqual([false]);
  });
  it("does not begin before it is seen", async () => {
    page.hidden = true;
    const { begun } = followed();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(begun).toEqual([]);
    page.turn(false);
    await vi.advanceTimersByTimeAsync(0);
    expect(begun.length).toBe(1);
  });
  it("is asked again, later each time, where nobody answers", async () => {
    const { begun, failed } = followed(() => Promise.reject(new ConnectError("no", Code.Unavailable)));
    await vi.advanceTimersByTimeAsync(6_999);
    expect(begun.length).toBe(3);
    expect(failed.map(([why, before]) => [why.kind, before])).toEqual([
      ["away", 0],
      ["away", 1],
      ["away", 2],
    ]);
  });
  it("is asked again where it was cancelled, and not by us", async () => {
    const { begun, failed } = followed(() => Promise.reject(new ConnectError("no", Code.Canceled)));
    await vi.advanceTimersByTimeAsync(999);
    expect([begun.length, failed.length]).toEqual([1, 1]);
    await vi.advanceTimersByTimeAsync(1);
    expect(begun.length).toBe(2);
  });
  it("has failed when it was silent for too long, however much came before", async () => {
    const came: number[] = [];
    let told: unknown;
    const steps = async function* (signal: AbortSignal) {
      for (const each of [1, 2]) {
        await new Promise((wake) => setTimeout(wake, 9_000));
        yield each;
      }
      await open(signal);
    };
    void (async () => {
      for await (const step of heard(steps, abort.signal, 10_000)) came.push(step);
    })().catch((error: unknown) => (told = error));
    await vi.advanceTimersByTimeAsync(27_999);
    expect([came, told]).toEqual([[1, 2], undefined]);
    await vi.advanceTimersByTimeAsync(1);
    expect(ConnectError.from(told).code).toBe(Code.Unavailable);
  });
  it("is not asked again where somebody may not", async () => {
    const { begun, over } = followed(() => Promise.reject(new ConnectError("no", Code.PermissionDenied)));
    await over;
    expect(begun.length).toBe(1);
  });
  it("ends with the page, seen or not", async () => {
    page.hidden = true;
    const { begun, over } = followed();
    abort.abort();
    await over;
    expect(begun).toEqual([]);
  });
});
