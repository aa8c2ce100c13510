/**
 * Give each cell of a table its column's head, as `data-head`: a phone shows it before the cell, where each row is a
 * card. Cells that come later get theirs, too.
 */
export function heads(table: HTMLTableElement): () => void {
  const mark = (): void => {
    const names = [...(table.tHead?.rows[0]?.cells ?? [])].map((head) => head.textContent?.trim() ?? "");
    for (const body of table.tBodies)
      for (const row of body.rows) {
        let column = 0;
        for (const cell of row.cells) {
          const name = names[column] ?? "";
          if (cell.dataset.head !== name) cell.dataset.head = name;
          column += cell.colSpan;
        }
      }
  };
  mark();
  const watch = new MutationObserver(mark);
  watch.observe(table, { childList: true, subtree: true });
  return () => watch.disconnect();
}
