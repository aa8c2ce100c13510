/** Findings count lines from 1 and columns from 1 in code points; the editor counts UTF-16 units from 0. */
export function offset(text: string, line: number, column: number): number {
  let start = 0;
  for (let each = 1; each < line; each++) {
    const next = text.indexOf("\n", start);
    if (next < 0) return text.length;
    start = next + 1;
  }
  let at = start;
  for (let each = 1; each < column && at < text.length; each++) at += text.codePointAt(at)! > 0xffff ? 2 : 1;
  return at;
}
