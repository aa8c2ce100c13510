import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Newest } from "./newest.ts";

/** Asks that are answered when the test says so. */
function asking() {
  const asks: { text: string; answer: () => void }[] = [];
  const newest: string[] = [];
  const made = new Newest<string>(async (text, signal, isNewest) => {
    await new Promise<void>((done) => {
      asks.push({ text, answer: done });
      signal.addEventListener("abort", () => done());
    });
    if (isNewest()) newest.push(text);
    return true;
  });
  const answer = async (): Promise<void> => {
    asks.at(-1)!.answer();
    await new Promise((turn) => setTimeout(turn));
  };
  return { made, asks: () => asks.map((each) => each.text), newest, answer };
}

describe("the newest", () => {
  it("is asked at once", () => {
    const { made, asks } = asking();

    made.put("a");

    expect(asks()).toEqual(["a"]);
  });
  it("waits for one answer, and what came between is never asked", async () => {
    const { made, asks, newest, answer } = asking();
    for (const text of ["a", "ab", "abc"]) made.put(text);

    expect(asks()).toEqual(["a"]);
    await answer();
    expect(asks()).toEqual(["a", "abc"]);
    expect(newest).toEqual([]);
    await answer();
    expect(newest).toEqual(["abc"]);
  });
  it("is asked again after all was answered", async () => {
    const { made, asks, answer } = asking();
    made.put("a");
    await answer();

    made.put("b");

    expect(asks()).toEqual(["a", "b"]);
  });
  it("is not asked once the page is left", async () => {
    const { made, asks, answer } = asking();
    made.put("a");
    made.put("b");

    made.stop();
    await answer();
    made.put("c");
    await answer();

    expect(asks()).toEqual(["a"]);
  });
});

describe("what nobody answers", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());
  /** Asks, of which the first `unanswered` ones are not answered. */
  function asking(unanswered: number) {
    const asks: string[] = [];
    const made = new Newest<string>(async (text) => asks.push(text) > unanswered);
    return { made, asks };
  }

  it("is asked again, later each time, until somebody does", async () => {
    const { made, asks } = asking(2);
    made.put("a");

    await vi.advanceTimersByTimeAsync(1_500);
    expect(asks).toEqual(["a", "a"]);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(asks).toEqual(["a", "a"]);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(asks).toEqual(["a", "a", "a"]);
  });
  it("is never asked again once something newer is", async () => {
    const { made, asks } = asking(1);
    made.put("a");
    await vi.advanceTimersByTimeAsync(500);
    made.put("ab");

    await vi.advanceTimersByTimeAsync(60_000);

    expect(asks).toEqual(["a", "ab"]);
  });
  it("is not asked again once the page is left", async () => {
    const { made, asks } = asking(1);
    made.put("a");
    await vi.advanceTimersByTimeAsync(500);
    made.stop();

    await vi.advanceTimersByTimeAsync(60_000);

    expect(asks).toEqual(["a"]);
  });
});
