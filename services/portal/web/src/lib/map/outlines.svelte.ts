import { type Kind, outline, Shapes } from "./cells.ts";

const AT_ONCE_MS = 6;

/** The outlines of the cells of a column, made a few in each frame. */
export class Outlines {
  shapes = new Shapes();
  /** How many there are, once all are. */
  made = $state(0);

  /** Make those that are not there yet, by the texts of the column. */
  async draw(texts: string[], as: Kind, signal: AbortSignal): Promise<void> {
    const { shapes } = this;
    while (shapes.size < texts.length && !signal.aborted) {
      const end = performance.now() + AT_ONCE_MS;
      while (shapes.size < texts.length && performance.now() < end)
        shapes.add(outline(as, texts[shapes.size]!));
      if (shapes.size < texts.length) await new Promise(requestAnimationFrame);
    }
    if (!signal.aborted) this.made = shapes.size;
  }
}
