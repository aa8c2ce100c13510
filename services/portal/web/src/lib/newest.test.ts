import { describe, expect, it } from "vitest";
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
