/** Which part of an element is seen in the page that scrolls, in pixels from the element's beginning. */
export class Seen {
  part = $state.raw({ top: 0, bottom: 900 });

  /** Watch an element that is drawn; answers what ends it. */
  watch(element: HTMLElement): () => void {
    const scroller = element.closest("main")!;
    const look = (): void => {
      const top = scroller.getBoundingClientRect().top - element.getBoundingClientRect().top;
      const bottom = top + scroller.clientHeight;
      if (top !== this.part.top || bottom !== this.part.bottom) this.part = { top, bottom };
    };
    // What stands above it may come later, or go: then it is moved by the size of its page.
    const sizes = new ResizeObserver(look);
    for (const each of [scroller, element.parentElement!]) sizes.observe(each);
    scroller.addEventListener("scroll", look, { passive: true });
    return () => {
      sizes.disconnect();
      scroller.removeEventListener("scroll", look);
    };
  }
}
