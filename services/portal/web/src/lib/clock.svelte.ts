/** This instant, renewed each second for what tells ages; nobody looks at a page that is hidden. */
export const clock = $state({ now: Date.now() });
setInterval(() => {
  if (!document.hidden) clock.now = Date.now();
}, 1_000);
